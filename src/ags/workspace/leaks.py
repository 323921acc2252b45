"""Text that looks like a secret. Shapes that are somebody's for certain, and little else."""

from __future__ import annotations

import math
import re
from collections import Counter

from ags.frozen import frozen


@frozen
class Shape:
    pattern: re.Pattern[str]
    what: str
    signs: tuple[str, ...]
    """One of them is in every text that the pattern fits: found a hundred times quicker."""


def _shape(pattern: str, what: str, *signs: str) -> Shape:
    return Shape(re.compile(pattern), what, signs)


# Every repetition has an upper bound, and none begins within what another has passed over: the text
# is an agent's, and may be made to keep us busy.
_SHAPES = (
    _shape(
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----",
        "a private key",
        "PRIVATE KEY",
    ),
    _shape(r"AGE-SECRET-KEY-1[0-9A-Z]{58}", "an age key", "AGE-SECRET-KEY-1"),
    _shape(r"PuTTY-User-Key-File-[23]:", "a PuTTY private key", "PuTTY-User-Key"),
    _shape(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "an AWS access key", "AKIA", "ASIA"),
    _shape(r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b", "a GitHub token", "gh"),
    _shape(r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b", "a GitHub token", "github_pat_"),
    _shape(
        r"(?<![\w-])gl(?:pat|dt|rt|soat|cbt|ptt|ft|agent)-[A-Za-z0-9_-]{20,255}",
        "a GitLab token",
        "gl",
    ),
    _shape(r"(?<![\w-])xox[abeoprs]-[A-Za-z0-9-]{10,255}", "a Slack token", "xox"),
    _shape(
        r"\bhooks\.slack\.com/services/T[A-Z0-9]{6,12}/B[A-Z0-9]{6,12}/",
        "a Slack webhook",
        "hooks.slack.com",
    ),
    _shape(r"(?<![\w-])sk-ant-[A-Za-z0-9_-]{20,255}", "an Anthropic key", "sk-ant-"),
    _shape(r"(?<![\w-])sk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,255}", "an OpenAI key", "sk-"),
    _shape(r"(?<![\w-])AIza[0-9A-Za-z_-]{35}", "a Google API key", "AIza"),
    _shape(r"(?<![\w-])GOCSPX-[0-9A-Za-z_-]{28}", "a Google client secret", "GOCSPX-"),
    _shape(r"(?<![\w-])ya29\.[0-9A-Za-z_-]{20,255}", "a Google access token", "ya29."),
    _shape(r"\b[sr]k_live_[0-9A-Za-z]{20,255}\b", "a Stripe key", "k_live_"),
    _shape(r"\bwhsec_[0-9A-Za-z+/]{32,255}", "a webhook secret", "whsec_"),
    _shape(r"\bnpm_[A-Za-z0-9]{36}\b", "an npm token", "npm_"),
    _shape(r"(?<![\w-])pypi-[A-Za-z0-9_-]{50,255}", "a PyPI token", "pypi-"),
    _shape(r"\bhf_[A-Za-z]{34}\b", "a Hugging Face token", "hf_"),
    _shape(r"(?<![\w-])SG\.[\w-]{22}\.[\w-]{43}", "a SendGrid key", "SG."),
    _shape(r"\bdo[por]_v1_[0-9a-f]{64}\b", "a DigitalOcean token", "_v1_"),
    _shape(r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", "a Shopify token", "shp"),
    _shape(r"\bglsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b", "a Grafana token", "glsa_"),
    _shape(r"(?<![\w-])dckr_pat_[A-Za-z0-9_-]{27}", "a Docker token", "dckr_pat_"),
    _shape(r"(?<![\w-])hv[sb]\.[A-Za-z0-9_-]{24,255}", "a Vault token", "hvs.", "hvb."),
    _shape(
        r"(?<![\w-])eyJ[\w-]{10,2000}+\.eyJ[\w-]{10,4000}+\.[\w-]{20,2000}",
        "a signed web token",
        "eyJ",
    ),
)
_IN_ADDRESS = re.compile(
    r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@'\"]{1,100}:([^\s/@'\"]{6,200})@"
)
_ASSIGNED = re.compile(
    r"(?i)(?:passw(?:or)?d|secret|token|api_?key|access_?key|private_?key|credential)"
    r"[\w-]{0,30}[\"']?\s{0,4}(?:=|:|=>|:=)\s{0,4}[\"']?([A-Za-z0-9+/_=-]{20,200})(?![\w(.\[])"
)
_ASSIGNED_SIGNS = ("passw", "secret", "token", "key", "credential")
_STAND_IN = re.compile(
    r"(?i)example|sample|dummy|fake|test|placeholder|change|your|redacted|xxx|\*\*\*|\.\.\.|[${<]"
)
_BITS = 3.7
"""Per character. Words joined together, and names of variables, stay below it."""


class Leaks:
    """Looks for what a text gives away, line by line; only for what could be in the whole of it."""

    def __init__(self, whole: str) -> None:
        self._shapes = tuple(each for each in _SHAPES if any(sign in whole for sign in each.signs))
        self._addresses = "://" in whole
        lower = whole.lower()
        self._values = any(sign in lower for sign in _ASSIGNED_SIGNS)

    def of(self, line: str) -> str:
        """What it seems to give away, in words that do not repeat it; empty if nothing."""
        for shape in self._shapes:
            if shape.pattern.search(line):
                return shape.what
        address = _IN_ADDRESS.search(line) if self._addresses else None
        if address is not None and not _STAND_IN.search(address[1]):
            return "a password in an address"
        if self._values and any(_is_random(found[1]) for found in _ASSIGNED.finditer(line)):
            return "a secret value"
        return ""


def _is_random(value: str) -> bool:
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return mixed and not _STAND_IN.search(value) and entropy(value) >= _BITS


def entropy(text: str) -> float:
    """Bits per character, by how often each one occurs in the text itself."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())
