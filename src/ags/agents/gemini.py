"""Gemini CLI, by Google."""

from __future__ import annotations

from collections.abc import Mapping

from ags.agents import lines
from ags.agents.base import (
    LONGEST,
    MCP_LOGINS,
    Bring,
    EtcFile,
    Facts,
    Heard,
    HomeFile,
    Program,
    Said,
    Wish,
    forwarder,
    output,
)
from ags.hooks import managed

PROMPT_NAME = "AGS.md"
"""Beside the person's own instructions: it reads every file of the names it is told."""


class Gemini:
    name = "gemini"
    program = Program(
        "@google/gemini-cli", "node_modules/@google/gemini-cli/bundle/gemini.js", node=True
    )
    longest = LONGEST
    login: tuple[str, ...] = ()
    keeps = (
        ".gemini/google_accounts.json",
        ".gemini/mcp-oauth-tokens.json",
        ".gemini/projects.json",
        ".gemini/tmp",
        MCP_LOGINS,
    )
    brings = (
        Bring(".gemini/GEMINI.md"),
        Bring(".gemini/commands"),
        Bring(".gemini/skills"),
        Bring(".gemini/agents"),
        Bring(".gemini/settings.json", ("mcpServers",)),
    )
    wants: tuple[str, ...] = ()
    settings = (".gemini",)

    def headless(self, wish: Wish) -> tuple[str, ...]:
        shape = ("--output-format", "stream-json", "--yolo")
        return (*self._common(wish), *shape, *wish.arguments, f"--prompt={wish.goal}")

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        unasked = ("--yolo",) if wish.unasked else ()
        return (*self._common(wish), *unasked, *wish.arguments)

    def _common(self, wish: Wish) -> tuple[str, ...]:
        model = ("--model", wish.model) if wish.model else ()
        resume = ("--resume", wish.session) if wish.session else ()
        # For this start only: unlike lasting trust, it does not make it run the repository's hooks.
        trust = () if wish.trusted else ("--skip-trust",)
        return (self.program.inside, *trust, *model, *resume)

    def environment(self, facts: Facts) -> Mapping[str, str]:
        return {"GEMINI_SANDBOX": "false"} | (
            {"GEMINI_CLI_TRUST_WORKSPACE": "true"} if facts.trusted else {}
        )

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        """All of its settings are here: those in /etc it reads only if root owns every folder above
        them, up to the first, and inside nobody is root."""
        settings: dict[str, object] = {
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "tools": {"sandbox": False},
            # Half of the machine's memory is more than a run may have.
            "advanced": {"autoConfigureMemory": False},
            "context": {"fileName": ["GEMINI.md", PROMPT_NAME]},
        }
        logged_in = self.name in facts.logins
        if logged_in or "GEMINI_API_KEY" in facts.keys:
            # It does not choose by itself, and at a terminal it would ask.
            way = "oauth-personal" if logged_in else "gemini-api-key"
            settings["security"] = {"auth": {"selectedType": way}}
        if facts.python:
            settings |= managed.gemini_settings(facts.python)
        return (
            HomeFile(".gemini/settings.json", settings, fixed=True),
            HomeFile(f".gemini/{PROMPT_NAME}", text=facts.prompt, fixed=True),
        )

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        return (forwarder(),)

    def parse(self, line: str) -> Heard:
        told = lines.told(line)
        if told is None:
            return output(line)
        match told.get("type"):
            case "init":
                return Heard((), lines.session(told.get("session_id")))
            case "message" if told.get("role") == "assistant":
                return Heard(_spoken(told))
            case "tool_use":
                return Heard((_call(told),))
            case "tool_result":
                ok, name = told.get("status") == "success", told.get("tool_id")
                return Heard((lines.result(_tool(name), ok, told.get("output"), name),))
            case "error":
                return Heard(lines.trouble(lines.text(told.get("message"))))
            case "result":
                return _ended(told)
        return Heard()


def _spoken(told: lines.Told) -> tuple[Said, ...]:
    """It comes in pieces, whose spaces count."""
    said = lines.text(told.get("content"))
    delta = {"delta": True} if told.get("delta") is True else {}
    return (Said("message", {"text": said, **delta}),) if said else ()


def _call(told: lines.Told) -> Said:
    given = lines.within(told, "parameters")
    changes = told.get("tool_name") in ("write_file", "replace")
    files = (given.get("file_path"),) if changes else ()
    return lines.call(told.get("tool_name"), told.get("parameters"), told.get("tool_id"), *files)


def _tool(name: object) -> str:
    """Its ids begin with the tool's name."""
    tool, found, _ = lines.text(name).partition("__")
    return tool if found else ""


def _ended(told: lines.Told) -> Heard:
    used = lines.within(told, "stats")
    said = lines.usage(
        input=lines.count(used.get("input_tokens")),
        output=lines.count(used.get("output_tokens")),
        cached=lines.count(used.get("cached")),
    )
    if told.get("status") == "success":
        return Heard(said, failure="")
    broken = lines.failed(lines.within(told, "error").get("message"))
    return Heard((*said, *broken.said), failure=broken.failure)
