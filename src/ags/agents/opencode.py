"""opencode, which works with models of many makers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ags.agents import lines
from ags.agents.base import (
    CPU,
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

# The other build for this kind of processor stops at once on older ones.
BUILD = {"x64": "x64-baseline"}.get(CPU, CPU)
DATA = ".local/share/opencode"
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


class OpenCode:
    name = "opencode"
    program = Program("opencode-ai", f"node_modules/opencode-linux-{BUILD}/bin/opencode")
    longest = LONGEST
    login = ("auth", "login")
    keeps = (
        f"{DATA}/mcp-auth.json",
        f"{DATA}/opencode.db",
        f"{DATA}/opencode.db-wal",
        f"{DATA}/opencode.db-shm",
        f"{DATA}/storage",
        MCP_LOGINS,
    )
    brings = (
        *(
            Bring(f".config/opencode/{name}")
            for name in ("AGENTS.md", "command", "commands", "agent", "agents", "skill", "skills")
        ),
        Bring(".config/opencode/opencode.json", ("mcp",)),
    )
    wants = (".opencode/.gitignore",)
    settings = (".opencode", "opencode.json", "opencode.jsonc")

    def headless(self, wish: Wish) -> tuple[str, ...]:
        shape = ("--format", "json", "--thinking", "--auto")
        resume = _resume(wish)
        return (
            self.program.inside, "run", *shape, *_model(wish), *resume, *wish.arguments, "--",
            wish.goal,
        )  # fmt: skip

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        unasked = ("--auto",) if wish.unasked else ()
        return (self.program.inside, *unasked, *_model(wish), *_resume(wish), *wish.arguments)

    def environment(self, facts: Facts) -> Mapping[str, str]:
        # With the name that people use, it finds the model but not the key.
        google = facts.keys.get("GEMINI_API_KEY")
        renamed = {"GOOGLE_GENERATIVE_AI_API_KEY": google} if google else {}
        return {
            **renamed,
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        }

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        """Before it loads any plugin it wants a package of its own from the registry, and waits a
        minute for it. Ours needs none, so this says that it is there."""
        installed = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
        return (
            HomeFile(".config/opencode/package-lock.json", installed),
            HomeFile(".config/opencode/node_modules/.package-lock.json", {}, gently=True),
        )

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        settings: dict[str, object] = {"autoupdate": False, "share": "disabled"}
        settings["instructions"] = [PROMPT_FILE]
        found = [told_where(facts)]
        if facts.python:
            settings["plugin"] = [f"file://{managed.PLUGIN}"]
            found.append(EtcFile(str(managed.PLUGIN), managed.plugin().decode()))
        text = json.dumps(settings, indent=2)
        return (*found, EtcFile("/etc/opencode/opencode.json", text))

    def parse(self, line: str) -> Heard:
        told = lines.told(line)
        if told is None:
            return output(line)
        session, part = lines.session(told.get("sessionID")), lines.within(told, "part")
        match told.get("type"):
            case "text":
                return Heard(lines.message(part.get("text")), session)
            case "reasoning":
                return Heard(lines.thinking(part.get("text")), session)
            case "tool_use":
                return Heard(_used(part), session)
            case "step_finish":
                # Any other reason is a step on the way.
                failure = "" if part.get("reason") == "stop" else None
                return Heard(_usage(part), session, failure)
            case "error":
                return lines.failed(_why(lines.within(told, "error")), session)
        return Heard((), session)


def _model(wish: Wish) -> tuple[str, ...]:
    return ("--model", wish.model) if wish.model else ()


def _resume(wish: Wish) -> tuple[str, ...]:
    if not wish.session:
        return ()
    return ("--continue",) if wish.session == LATEST else ("--session", wish.session)


def _used(part: lines.Told) -> tuple[Said, ...]:
    """A call is told of once it is over, with what came of it."""
    state, name, tool = lines.within(part, "state"), part.get("callID"), part.get("tool")
    files = _changed(tool, lines.within(state, "input"))
    # A command that failed is a tool that worked, and so is one for tools that there are not.
    code = lines.within(state, "metadata").get("exit", 0)
    ok = state.get("status") == "completed" and code in (0, None) and tool != "invalid"
    printed = lines.text(state.get("output")) or lines.text(state.get("error"))
    return (
        lines.call(tool, state.get("input"), name, *files),
        lines.result(tool, ok, printed, name),
    )


def _changed(tool: object, given: lines.Told) -> tuple[object, ...]:
    if tool == "apply_patch":
        return tuple(_PATCHED.findall(lines.text(given.get("patchText"))))
    return (given.get("filePath"),) if tool in ("write", "edit", "multiedit") else ()


def _usage(part: lines.Told) -> tuple[Said, ...]:
    used = lines.within(part, "tokens")
    return lines.usage(
        input=lines.count(used.get("input")),
        output=lines.count(used.get("output")),
        cached=lines.count(lines.within(used, "cache").get("read")),
        cost_usd=lines.amount(part.get("cost")),
    )


def _why(error: lines.Told) -> str:
    return lines.text(lines.within(error, "data").get("message")) or lines.text(error.get("name"))
