"""A command in a sandbox behind the fence, as a process where the fence has its way out.

Told as one JSON object on standard input, tells one on standard output. `behind.py` starts it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ags import host, identity, plan
from ags.backends.base import Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.egress import inject, load, policy, tls
from ags.egress.audit import Line
from ags.egress.fence import Fence, Terms
from ags.egress.inject import Injection
from ags.egress.server import Server
from ags.errors import ConfigError
from ags.kernel import netns
from ags.model import GIB, MIB, Bind, Limits, Plan, Text

CA = PurePosixPath("/etc/ags/ca.pem")
JAVA = PurePosixPath("/etc/ags/cacerts")
PATIENT = {
    "egress.connection.FIRST": 60.0,
    "egress.connection.LAST_WORDS": 60.0,
    "egress.resolve.LOOKUP_TIMEOUT": 60.0,
    "egress.server.LINGER": 60.0,
}
"""However slow the machine is: a test that is about these says what they are."""


def planned(told: dict[str, Any], authority: tls.Authority) -> Plan:
    workspace, home = Path(told["workspace"]), Path(told["workspace"]).parent / "home"
    who = identity.resolve(workspace.stat(), home)
    system = tls.system_roots(os.environ)
    extra = [pem.encode() for pem in told.get("roots", ())]
    spec = plan.Spec(
        run="fenced",
        command=tuple(told["command"]),
        cwd=workspace,
        identity=who,
        limits=Limits(),
        sizes=plan.Sizes(tmp=GIB, home=GIB, shm=64 * MIB),
        binds=(Bind(workspace, PurePosixPath(workspace), writable=True),),
        environment=(
            *tls.environment(CA, JAVA).items(),
            *dict(told.get("environment", {})).items(),
        ),
    )
    made = plan.build(spec, host.read({"PATH": "/usr/bin:/bin", "TERM": "dumb"}, who.host_uid))
    given = {
        PurePosixPath("/etc/resolv.conf"): b"nameserver 198.18.0.1\noptions timeout:20\n",
        CA: authority.bundle(system, extra),
        JAVA: authority.truststore(system, extra),
    }
    kept = [step for step in made.mounts if step.target not in given]
    last = kept.pop()
    texts = [Text(target, content) for target, content in given.items()]
    return replace(made, mounts=(*kept, *texts, last))


def loaded(file: Path) -> tuple[policy.Layer, str]:
    """In place of an error, a layer that lets nothing out: a run would not start at all."""
    try:
        return load.load(file, "user", Path("/")), ""
    except ConfigError as error:
        return policy.Layer("user", broken=str(error)), str(error)


async def fenced(told: dict[str, Any]) -> dict[str, Any]:
    authority = tls.Authority("fenced")
    lines: list[Line] = []
    secrets: dict[str, str] = told.get("secrets", {})
    stands = tuple(
        inject.placeholder(name, value, client="", key=b"k" * 32) for name, value in secrets.items()
    )
    for each in stands:
        told.setdefault("environment", {})[each.secret_id] = each.text
    injections = tuple(Injection(**each) for each in told.get("injections", ()))
    layer, broken = loaded(Path(told["policy"]))
    judged = policy.merge([layer], [(each.host, each.port) for each in injections])
    trusted = [der for pem in told.get("roots", ()) for der in tls.certificates(pem.encode())]
    fence = Fence(
        Terms(judged, injections, stands),
        authority=authority,
        upstream=tls.upstream(trusted),
        record=lines.append,
        secret=secrets.get,
    )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        nothing = os.open(os.devnull, os.O_RDONLY)
        streams = Streams(nothing, out.fileno(), err.fileno())
        sandbox = await Bubblewrap(told.get("bwrap")).launch(planned(told, authority), streams)
        wanted = netns.Wanted(ports=tuple(sorted(judged.ports)))
        server = Server(fence, await netns.open_sockets(sandbox.init, wanted))
        server.start()
        try:
            await sandbox.release()
            ending = await sandbox.wait()
        finally:
            await server.close()
        said = [os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace") for file in (out, err)]
    audit = [{each.name: getattr(line, each.name) for each in fields(line)} for line in lines]
    return {"code": ending.code, "out": said[0], "err": said[1], "audit": audit, "broken": broken}


def main() -> None:
    told = json.load(sys.stdin)
    if name := told.get("mutation"):
        from tests.attack.mutations import MUTATIONS
        from tests.attack.patching import ForGood

        MUTATIONS[name].apply(ForGood())
    for place, value in (PATIENT | told.get("settings", {})).items():
        module, _, constant = place.rpartition(".")
        setattr(importlib.import_module(f"ags.{module}"), constant, value)
    print(json.dumps(asyncio.run(fenced(told))))


if __name__ == "__main__":
    main()
