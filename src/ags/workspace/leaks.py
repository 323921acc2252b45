"""Text that looks like a secret. Shapes that are somebody's for certain, and little else."""

from __future__ import annotations

import math
import re
from collections import Counter

# Every repetition has an upper bound: the text is an agent's, and may be made to keep us busy.
_SHAPES = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----", "a private key"),
        (r"AGE-SECRET-KEY-1[0-9A-Z]{58}", "an age key"),
        (r"PuTTY-User-Key-File-[23]:", "a PuTTY private key"),
        (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "an AWS access key"),
        (r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b", "a GitHub token"),
        (r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b", "a GitHub token"),
        (r"\bgl(?:pat|dt|rt|soat|cbt|ptt|ft|agent)-[A-Za-z0-9_-]{20,255}", "a GitLab token"),
        (r"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}", "a Slack token"),
        (r"\bhooks\.slack\.com/services/T[A-Z0-9]{6,12}/B[A-Z0-9]{6,12}/", "a Slack webhook"),
        (r"\bsk-ant-[A-Za-z0-9_-]{20,255}", "an Anthropic key"),
        (r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,255}", "an OpenAI key"),
        (r"\bAIza[0-9A-Za-z_-]{35}", "a Google API key"),
        (r"\bGOCSPX-[0-9A-Za-z_-]{28}", "a Google client secret"),
        (r"\bya29\.[0-9A-Za-z_-]{20,255}", "a Google access token"),
        (r"\b[sr]k_live_[0-9A-Za-z]{20,255}\b", "a Stripe key"),
        (r"\bwhsec_[0-9A-Za-z+/]{32,255}", "a webhook secret"),
        (r"\bnpm_[A-Za-z0-9]{36}\b", "an npm token"),
        (r"\bpypi-[A-Za-z0-9_-]{50,255}", "a PyPI token"),
        (r"\bhf_[A-Za-z]{34}\b", "a Hugging Face token"),
        (r"\bSG\.[\w-]{22}\.[\w-]{43}", "a SendGrid key"),
        (r"\bdo[por]_v1_[0-9a-f]{64}\b", "a DigitalOcean token"),
        (r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", "a Shopify token"),
        (r"\bglsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b", "a Grafana token"),
        (r"\bdckr_pat_[A-Za-z0-9_-]{27}", "a Docker token"),
        (r"\bhv[sb]\.[A-Za-z0-9_-]{24,255}", "a Vault token"),
        (r"\beyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{20,2000}", "a signed web token"),
    )
)
_IN_ADDRESS = re.compile(
    r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@'\"]{1,100}:([^\s/@'\"]{6,200})@"
)
_ASSIGNED = re.compile(
    r"(?i)(?:passw(?:or)?d|secret|token|api_?key|access_?key|private_?key|credential)"
    r"[\w-]{0,30}[\"']?\s{0,4}(?:=|:|=>|:=)\s{0,4}[\"']?([A-Za-z0-9+/_=-]{20,200})(?![\w(.\[])"
)
_STAND_IN = re.compile(
    r"(?i)example|sample|dummy|fake|test|placeholder|change|your|redacted|xxx|\*\*\*|\.\.\.|[${<]"
)
_BITS = 3.7
"""Per character. Words joined together, and names of variables, stay below it."""


def leak(text: str) -> str:
    """What a line seems to give away, in words that do not repeat it; empty if nothing."""
    for shape, what in _SHAPES:
        if shape.search(text):
            return what
    if (address := _IN_ADDRESS.search(text)) and not _STAND_IN.search(address[1]):
        return "a password in an address"
    if any(_is_random(found[1]) for found in _ASSIGNED.finditer(text)):
        return "a secret value"
    return ""


def _is_random(value: str) -> bool:
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return mixed and not _STAND_IN.search(value) and entropy(value) >= _BITS


def entropy(text: str) -> float:
    """Bits per character, by how often each one occurs in the text itself."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())
