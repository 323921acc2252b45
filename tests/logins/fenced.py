"""An agent in a sandbox with a log-in, as a process where the fence has its way out.

As `tests.egress.fenced`, which it is but for the desk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ags.egress import policy
from ags.egress.fence import Terms
from ags.egress.policy import Layer, Policy
from ags.logins import state
from tests.egress import fenced


def main() -> None:
    whole, merge = fenced.fenced, policy.merge

    async def with_login(told: dict[str, Any]) -> dict[str, Any]:
        given = told.pop("login")
        wired = state.wire("claude", Path(given["path"]), given["client"], Path(given["ags_home"]))
        Path(told["workspace"], "login.json").write_text(json.dumps(dict(wired.file)))

        def merged(layers: list[Layer], hosts: Iterable[tuple[str, int]]) -> Policy:
            return merge(layers, {*hosts, *wired.desk.hosts})

        def terms(*given: Any) -> Terms:
            return replace(Terms(*given), desk=wired.desk)

        setattr(policy, "merge", merged)  # noqa: B010
        setattr(fenced, "Terms", terms)  # noqa: B010
        try:
            return await whole(told)
        finally:
            await wired.desk.settle()

    setattr(fenced, "fenced", with_login)  # noqa: B010
    fenced.main()


if __name__ == "__main__":
    main()
