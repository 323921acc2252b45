"""Claude Code, by Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

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
    forwarder,
    output,
    told_where,
)
from ags.hooks import managed

UNASKED = "--dangerously-skip-permissions"
KEY_TAIL = 20
"""A key is known to it as approved by its last characters."""


class Claude:
    name = "claude"
    # The package's own start-up script only copies this file to another place.
    program = Program(
        "@anthropic-ai/claude-code",
        f"node_modules/@anthropic-ai/claude-code-linux-{CPU}/claude",
    )
    longest = LONGEST
    login = ("auth", "login")
    keeps = (
        ".claude/history.jsonl",
        ".claude/projects",
        ".claude/todos",
        MCP_LOGINS,
    )
    brings = (
        Bring(".claude/CLAUDE.md"),
        Bring(".claude/rules"),
        Bring(".claude/skills"),
        Bring(".claude/commands"),
        Bring(".claude/agents"),
        Bring(".claude/output-styles"),
        Bring(".claude.json", ("mcpServers",)),
    )
    wants: tuple[str, ...] = ()
    settings = (".claude", ".mcp.json")

    def headless(self, wish: Wish) -> tuple[str, ...]:
        strict = ("--strict-mcp-config",) if wish.defaults else ()
        shape = ("--output-format", "stream-json", "--verbose")
        return (
            *self._common(wish), *strict, UNASKED, "-p", *shape, *wish.arguments, "--", wish.goal,
        )  # fmt: skip

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        strict = ("--strict-mcp-config",) if wish.defaults else ()
        unasked = (UNASKED,) if wish.unasked else ()
        return (*self._common(wish), *strict, *unasked, *wish.arguments)

    def _common(self, wish: Wish) -> tuple[str, ...]:
        model = ("--model", wish.model) if wish.model else ()
        resume = ("--continue",) if wish.session == LATEST else ("--resume", wish.session)
        told = ("--append-system-prompt-file", PROMPT_FILE)
        return (self.program.inside, *told, *model, *(resume if wish.session else ()))

    def environment(self, facts: Facts) -> Mapping[str, str]:
        return {
            "IS_SANDBOX": "1",  # else it refuses to work unasked where it seems to be root
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        approved = [key[-KEY_TAIL:] for name, key in facts.keys.items() if name.endswith("API_KEY")]
        known: dict[str, object] = {
            "hasCompletedOnboarding": True,
            "projects": {facts.cwd: {"hasTrustDialogAccepted": True}},
        }
        if approved:
            known["customApiKeyResponses"] = {"approved": approved}
        return (
            HomeFile(".claude.json", known),
            HomeFile(".claude.json", {"theme": "dark"}, gently=True),
            HomeFile(".claude/settings.json", {"skipDangerousModePermissionPrompt": True}),
        )

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        # Its own sandbox cannot be built inside another one.
        settings: dict[str, object] = {"sandbox": {"enabled": False}}
        if facts.python:
            settings |= managed.claude_settings(facts.python)
        if not facts.trusted:
            settings["allowManagedHooksOnly"] = True
        text = json.dumps(settings, indent=2)
        return (told_where(facts), EtcFile(str(managed.CLAUDE_SETTINGS), text), forwarder())

    def parse(self, line: str) -> Heard:
        told = lines.told(line)
        if told is None:
            return output(line)
        kind, session = told.get("type"), lines.session(told.get("session_id"))
        if kind == "result":
            return _ended(told, session)
        if kind in ("assistant", "user"):
            return Heard(tuple(_parts(told)), session)
        return Heard(_notice(told) if kind == "system" else (), session)


def _notice(told: lines.Told) -> tuple[Said, ...]:
    if told.get("subtype") != "api_retry":
        return ()
    attempt, most = lines.count(told.get("attempt")), lines.count(told.get("max_retries"))
    why = lines.text(told.get("error")) or "no answer"
    return lines.trouble(f"the model did not answer ({why}); try {attempt} of {most} follows")


def _parts(told: lines.Told) -> Iterator[Said]:
    speaks = told.get("type") == "assistant"
    for part in lines.each(lines.within(told, "message").get("content")):
        kind = part.get("type")
        if kind == "text" and speaks:
            # What it puts in the model's mouth when that fails comes again as the result.
            yield from () if told.get("error") else lines.message(part.get("text"))
        elif kind == "thinking" and speaks:
            yield from lines.thinking(part.get("thinking"))
        elif kind in ("tool_use", "server_tool_use"):
            yield _call(part)
        elif isinstance(kind, str) and kind.endswith("tool_result"):
            ok = part.get("is_error") is not True
            yield lines.result("", ok, part.get("content"), part.get("tool_use_id"))


def _call(part: lines.Told) -> Said:
    given = lines.within(part, "input")
    changes = part.get("name") in ("Write", "Edit", "MultiEdit", "NotebookEdit")
    files = (given.get("file_path"), given.get("notebook_path")) if changes else ()
    return lines.call(part.get("name"), part.get("input"), part.get("id"), *files)


def _whole(told: lines.Told, used: lines.Told) -> tuple[str, ...]:
    """Newer versions price the whole conversation, while they count the tokens of this run."""
    by_model = lines.within(told, "modelUsage").values()
    models = [model for model in by_model if isinstance(model, dict)]
    priced = sum(lines.count(model.get("inputTokens")) or 0 for model in models)
    return ("cost_usd",) if priced > (lines.count(used.get("input_tokens")) or 0) else ()


def _ended(told: lines.Told, session: str) -> Heard:
    used = lines.within(told, "usage")
    said = lines.usage(
        *_whole(told, used),
        input=lines.count(used.get("input_tokens")),
        output=lines.count(used.get("output_tokens")),
        cached=lines.count(used.get("cache_read_input_tokens")),
        cost_usd=lines.amount(told.get("total_cost_usd")),
    )
    answer = lines.text(told.get("result"))
    # The subtype says "success" even where the model never answered.
    if told.get("is_error") is False and told.get("subtype") == "success":
        return Heard(said, session, "", answer)
    broken = lines.failed(answer or told.get("subtype"), session)
    return Heard((*said, *broken.said), session, broken.failure)
