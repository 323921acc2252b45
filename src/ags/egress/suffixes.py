"""Suffixes below which anyone can have a name: no rule may be as wide as that.

Not the whole public list, which changes weekly: what a person could write by mistake.
"""

from __future__ import annotations

import re

# `co.uk`, `com.au`, `or.jp`: a country's own copy of the general endings.
_COUNTRY_COPY = re.compile(
    r"(?:ac|co|com|edu|ed|gen|go|gob|gouv|gov|govt|gv|id|ltd|me|mil|ne|net|nhs|nom|or|org|plc|sch)"
    r"\.[a-z]{2}"
)
_HOSTING = frozenset(
    (
        "amazonaws.com", "appspot.com", "azureedge.net", "azurestaticapps.net",
        "azurewebsites.net", "blob.core.windows.net", "blogspot.com", "cloudapp.azure.com",
        "cloudapp.net", "cloudfront.net", "cloudfunctions.net", "core.windows.net", "deno.dev",
        "devtunnels.ms", "digitaloceanspaces.com", "fastly.net", "firebaseapp.com",
        "firebaseio.com", "fly.dev", "github.dev", "github.io", "gitlab.io", "glitch.me",
        "googleusercontent.com", "herokuapp.com", "hf.space", "lambda-url.on.aws", "loca.lt",
        "netlify.app", "ngrok-free.app", "ngrok.app", "ngrok.dev", "ngrok.io", "nip.io", "on.aws",
        "ondigitalocean.app", "onrender.com", "pages.dev", "r2.cloudflarestorage.com", "r2.dev",
        "replit.app", "replit.dev", "run.app", "s3.amazonaws.com", "sslip.io",
        "storage.googleapis.com", "supabase.co", "surge.sh", "trycloudflare.com",
        "up.railway.app", "vercel.app", "web.app", "webhook.site", "workers.dev", "xip.io",
    )
)  # fmt: skip
_REGIONAL_STORE = re.compile(r"s3[.-][a-z0-9-]+\.amazonaws\.com")


def too_wide(suffix: str) -> bool:
    """Whether strangers can have names below this canonical name."""
    if "." not in suffix or suffix in _HOSTING:
        return True
    return bool(_COUNTRY_COPY.fullmatch(suffix) or _REGIONAL_STORE.fullmatch(suffix))
