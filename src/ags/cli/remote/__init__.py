"""The verbs as a server does them, for `ags --server URL`: one module each, with the words, flags
and output of the verb that does it here."""

from __future__ import annotations

from ags.errors import AgsError

VERBS = (
    *("start", "list", "show", "logs", "attach", "shell", "stop", "diff", "apply", "undo", "tell"),
    *("restart", "rm", "asks", "allow", "deny", "port", "project"),
)


def check(verb: str) -> None:
    """Refuse what is about this machine, and would be mistaken for something about that one."""
    if verb not in VERBS:
        shown = "--agent" if verb == "interactive" else verb
        raise AgsError(
            f"have a server do `ags {shown}`",
            cause="it is about this machine, its settings or its terminal",
            hint="leave out --server, and unset AGS_SERVER; on the server's own machine it works",
        )
