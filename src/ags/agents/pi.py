"""pi, a small agent that works with models of many makers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ags.agents import lines
from ags.agents.base import (
    LATEST,
    LONGEST,
    MCP_LOGINS,
    PROMPT_FILE,
    Bring,
    EtcFile,
    Facts,
    Heard,
    HomeFile,
    Program,
    Said,
    Wish,
    output,
    told_where,
)
from ags.hooks import managed

EXTENSION = str(managed.EXTENSION)
BROKEN = ("error", "aborted")


class Pi:
    name = "pi"
    program = Program(
        "@mariozechner/pi-coding-agent",
        "node_modules/@mariozechner/pi-coding-agent/dist/cli.js",
        node=True,
    )
    longest = LONGEST
    login: tuple[str, ...] = ()
    keeps = (".pi/agent/sessions", MCP_LOGINS)
    brings = tuple(
        Bring(f".pi/agent/{name}")
        for name in ("AGENTS.md", "SYSTEM.md", "APPEND_SYSTEM.md", "skills", "prompts", "themes")
    )
    wants: tuple[str, ...] = ()
    settings = (".pi",)

    def headless(self, wish: Wish) -> tuple[str, ...]:
        # It knows no `--`; a goal that begins like an option or a file's mark must not.
        goal = f" {wish.goal}" if wish.goal[:1] in ("-", "@") else wish.goal
        return (*self._common(wish), "--print", "--mode", "json", *wish.arguments, goal)

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        return (*self._common(wish), *wish.arguments)

    def _common(self, wish: Wish) -> tuple[str, ...]:
        model = ("--model", wish.model) if wish.model else ()
        resume = ("--continue",) if wish.session == LATEST else ("--session", wish.session)
        # Those that are named here are loaded all the same.
        strange = () if wish.trusted else ("--no-extensions",)
        told = ("--append-system-prompt", PROMPT_FILE, "--extension", EXTENSION)
        return (self.program.inside, *strange, *told, *model, *(resume if wish.session else ()))

    def environment(self, facts: Facts) -> Mapping[str, str]:
        return {"PI_OFFLINE": "1"}

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        return ()

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        """Both files are named on its command line, so they are always there."""
        hooked = managed.extension().decode() if facts.python else "export default () => {}\n"
        return (told_where(facts), EtcFile(EXTENSION, hooked))

    def parse(self, line: str) -> Heard:
        told = lines.told(line)
        if told is None:
            return output(line)
        match told.get("type"):
            case "session":
                return Heard((), lines.session(told.get("id")))
            case "message_end":
                return _message(lines.within(told, "message"))
            case "tool_execution_start":
                return Heard((_call(told),))
            case "tool_execution_end":
                ok, given = told.get("isError") is not True, lines.within(told, "result")
                name = told.get("toolCallId")
                return Heard((lines.result(told.get("toolName"), ok, given.get("content"), name),))
            case "auto_retry_end" if told.get("success") is False:
                return Heard(failure=lines.failed(told.get("finalError")).failure)
            case "extension_error":
                return Heard(lines.trouble(lines.text(told.get("error"))))
        return Heard()


def _message(message: lines.Told) -> Heard:
    """Its exit code says nothing: only here is it told whether the model answered."""
    if message.get("role") != "assistant":
        return Heard()
    said = (*_parts(message), *_usage(lines.within(message, "usage")))
    reason = message.get("stopReason")
    if reason in BROKEN:
        broken = lines.failed(message.get("errorMessage") or reason)
        return Heard((*said, *broken.said), failure=broken.failure)
    if reason in ("stop", "length"):
        answer = lines.words(message.get("content"))
        return Heard(said, failure="", answer=answer)
    return Heard(said)


def _parts(message: lines.Told) -> Iterator[Said]:
    for part in lines.each(message.get("content")):
        if part.get("type") == "text":
            yield from lines.message(part.get("text"))
        elif part.get("type") == "thinking":
            yield from lines.thinking(part.get("thinking"))


def _call(told: lines.Told) -> Said:
    given = lines.within(told, "args")
    files = (given.get("path"),) if told.get("toolName") in ("write", "edit") else ()
    return lines.call(told.get("toolName"), told.get("args"), told.get("toolCallId"), *files)


def _usage(used: lines.Told) -> tuple[Said, ...]:
    return lines.usage(
        input=lines.count(used.get("input")),
        output=lines.count(used.get("output")),
        cached=lines.count(used.get("cacheRead")),
        cost_usd=lines.amount(lines.within(used, "cost").get("total")),
    )
