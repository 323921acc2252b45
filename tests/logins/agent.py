"""What an agent with a subscription does, inside: it works with its token until that expires."""

import contextlib
import glob
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

ENDPOINT, MODEL = "https://platform.claude.com", "https://api.anthropic.com"
with open("login.json") as file:
    login = json.load(file)["claudeAiOauth"]
told: dict[str, list[Any]] = {"model": [], "renewals": [], "found": []}


def post(
    url: str, fields: object, kind: str = "application/json", **headers: str
) -> tuple[int, str]:
    data = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    request = urllib.request.Request(url, data, {"Content-Type": kind, **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def ask_model() -> tuple[int, str]:
    bearer = {"Authorization": "Bearer " + login["accessToken"]}
    status, text = post(MODEL + "/v1/messages", {"say": "hello"}, **bearer)
    told["model"].append([status, text])
    return status, text


def renew() -> None:
    fields = {"grant_type": "refresh_token", "refresh_token": login["refreshToken"]}
    fields["client_id"] = "the-agents-own-client-id"
    status, text = post(ENDPOINT + "/v1/oauth/token", fields)
    told["renewals"].append([status, text])
    if status == 200:
        answer = json.loads(text)
        login["accessToken"], login["refreshToken"] = (
            answer["access_token"],
            answer["refresh_token"],
        )
        login["expiresAt"] = (time.time() + answer["expires_in"]) * 1000


def work(renewals: int) -> None:
    while len(told["renewals"]) < renewals:
        if login["expiresAt"] / 1000 - time.time() < 0.7:
            renew()
        ask_model()
        time.sleep(0.15)


def memory() -> Iterator[bytes]:
    """All that this process holds."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if " r" in line and "[v" not in line:
                with contextlib.suppress(OSError, ValueError, OverflowError):
                    mem.seek(start)
                    yield mem.read(end - start)


def contents() -> Iterator[bytes]:
    for pattern in ("/proc/*/environ", "/proc/*/cmdline", "/etc/ags/*", "/tmp/**", "./**"):
        for path in glob.glob(pattern, recursive=True):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                yield file.read(1 << 20)
    for folder, _, names in os.walk(os.path.expanduser("~")):
        for name in names:
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                yield file.read(1 << 20)


def search() -> None:
    """A pattern that is not what it looks for; and, to see that it finds, what is there."""
    real = re.compile(rb"[R]EAL-(?:access|refresh)")
    own = re.compile(re.escape(login["accessToken"].encode()[:9]) + rb"[\x21-\x7e]{20}")
    places = [*memory(), *contents()]
    told["found"] = [sum(len(each.findall(place)) for place in places) for each in (real, own)]
