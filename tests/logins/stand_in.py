"""A program in the place of Claude Code that only logs in, by the code that it is told."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

from ags import records
from ags.agents.claude import Claude
from ags.programs import installed
from ags.programs.installed import Facts
from tests.internet.certificates import Authority
from tests.models import ModelServer
from tests.real.vendor import Vendor

VERSION = "1.0.0"
ACCOUNTS = "platform.claude.com"
SIZE, WRONG = "tell-the-size", "no-such-code"
"""What it can be told instead of a code."""
ADDRESS = f"https://claude.ai/oauth/authorize?code=true&client_id=c&state={'s' * 300}"
LOGS_IN = rf"""#!/bin/sh
touch started
echo "Open {ADDRESS}"
while printf 'Paste code here > ' && read -r code; do
    case $code in
        {SIZE}) echo "size=$(stty size)=" ;;
        {WRONG}) echo 'That code is no good'; exit 1 ;;
        *) break ;;
    esac
done
given='{{"grant_type": "authorization_code", "client_id": "c", "state": "s",'
given="$given \"code_verifier\": \"v\", \"redirect_uri\": \"http://localhost:1/cb\","
told=$(curl -sS https://{ACCOUNTS}/v1/oauth/token -H 'Content-Type: application/json' \
    -d "$given \"code\": \"$code\"}}") || exit
token() {{ printf %s "$told" | sed "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/"; }}
mkdir -p ~/.claude
printf '{{"claudeAiOauth": {{"accessToken": "%s", "refreshToken": "%s", "expiresAt": %s}}}}' \
    "$(token access_token)" "$(token refresh_token)" 5000 > ~/.claude/.credentials.json
echo 'Logged in'
"""


def give(ags_home: Path, script: str = LOGS_IN) -> None:
    """As if it were installed."""
    folder = ags_home / "agents/claude" / VERSION
    program = folder / Claude.program.path
    program.parent.mkdir(parents=True)
    program.write_text(script)
    facts = Facts(Claude.program.package, VERSION, Claude.program.path)
    records.replace_file(folder / installed.FACTS, records.encode(facts))
    for place in (program, *program.parents):
        if place.is_relative_to(ags_home):
            place.chmod(0o755)
    installed.switch(ags_home, "claude", VERSION)


@contextlib.contextmanager
def maker(place: Path, home: Path) -> Iterator[Vendor]:
    """Who gives tokens for codes, and the person's policy that leads there and nowhere else."""
    authority, vendor = Authority(), Vendor()
    (place / "ca.pem").write_bytes(authority.certificate)
    (place / "accounts.pem").write_bytes(authority.issue(ACCOUNTS))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(place / "accounts.pem")
    with ModelServer(vendor, tls=tls) as served:
        there = {"address": "127.0.0.1", "port": served.port, "ca": f"{place}/ca.pem"}
        settings = home / ".config/ags"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "policy.yaml").write_text(json.dumps({"upstreams": {ACCOUNTS: there}}))
        yield vendor
