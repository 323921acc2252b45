"""Codex, by OpenAI."""

from __future__ import annotations

from collections.abc import Mapping

from ags.agents import lines
from ags.agents.base import (
    CPU,
    LATEST,
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
from ags.agents.toml import toml
from ags.hooks import managed

MACHINE = {"x64": "x86_64", "arm64": "aarch64"}[CPU]
UNASKED = "--dangerously-bypass-approvals-and-sandbox"


class Codex:
    name = "codex"
    # The program that npm links to is a script that needs Node and starts this one.
    program = Program(
        "@openai/codex",
        f"node_modules/@openai/codex-linux-{CPU}/vendor/{MACHINE}-unknown-linux-musl/bin/codex",
    )
    longest = LONGEST
    login = ("login", "--device-auth")
    keeps = (".codex/history.jsonl", ".codex/sessions", MCP_LOGINS)
    brings = (
        Bring(".codex/AGENTS.md"),
        Bring(".codex/prompts"),
        Bring(".codex/skills"),
        Bring(".codex/config.toml", ("mcp_servers",)),
    )
    wants: tuple[str, ...] = ()
    settings = (".codex",)

    def headless(self, wish: Wish) -> tuple[str, ...]:
        resume: tuple[str, ...] = ()
        if wish.session:
            resume = ("resume", *(("--last",) if wish.session == LATEST else ()))
        known = (wish.session,) if wish.session not in ("", LATEST) else ()
        shape = ("--json", "--skip-git-repo-check", UNASKED, *_model(wish))
        return (
            self.program.inside, "exec", *resume, *shape, *wish.arguments, "--", *known, wish.goal,
        )  # fmt: skip

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        resume: tuple[str, ...] = ()
        if wish.session:
            resume = ("resume", "--last" if wish.session == LATEST else wish.session)
        # Its own sandbox cannot be built inside another one; its questions stay.
        free = (UNASKED,) if wish.unasked else ("--sandbox", "danger-full-access")
        return (self.program.inside, *resume, *free, *_model(wish), *wish.arguments)

    def environment(self, facts: Facts) -> Mapping[str, str]:
        """The variable that people have is not the one it reads."""
        key = _key(facts)
        return {"CODEX_API_KEY": key} if key else {}

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        """At a terminal it reads no variable for its key, only this file."""
        if not (key := _key(facts)):
            return ()
        return (
            HomeFile(".codex/auth.json", {"OPENAI_API_KEY": key}),
            HomeFile(".codex/auth.json", {"auth_mode": "apikey"}, gently=True),
        )

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        settings: dict[str, object] = {
            "developer_instructions": facts.prompt,
            "check_for_update_on_startup": False,
            # Else it makes up its mind by the folder's trust, and asks.
            "approval_policy": "on-request",
            "sandbox_mode": "danger-full-access",
            "features": {
                # A daemon would outlive it, and act for it where it is not fenced.
                "daemon_auto_start": False,
                "plugins": False,
                # The person's mail and files, wherever the subscription is connected to them.
                "apps": False,
                # It would send the key to another host than the model's.
                "api_key_model_discovery": False,
                # The fence looks through what is sent.
                "enable_request_compression": False,
            },
            "analytics": {"enabled": False},
            # Else it would not even read the repository's AGENTS.md.
            "projects": {facts.cwd: {"trust_level": "trusted"}},
        }
        found = [EtcFile("/etc/codex/config.toml", toml(settings)), forwarder()]
        if facts.python:
            required = managed.codex_requirements(facts.python)
            found.append(EtcFile(str(managed.CODEX_REQUIREMENTS), required))
        return tuple(found)

    def parse(self, line: str) -> Heard:
        told = lines.told(line)
        if told is None:
            return output(line)
        match told.get("type"):
            case "thread.started":
                return Heard((), lines.session(told.get("thread_id")))
            case "item.started":
                return Heard(_begun(lines.within(told, "item")))
            case "item.completed":
                return Heard(_done(lines.within(told, "item")))
            case "turn.completed":
                return Heard(_usage(lines.within(told, "usage")), failure="")
            case "turn.failed":
                # The same words came just before, as an error.
                why = lines.within(told, "error").get("message")
                return Heard(failure=lines.failed(why).failure)
            case "error":
                return Heard(lines.trouble(lines.text(told.get("message"))))
        return Heard()


def _model(wish: Wish) -> tuple[str, ...]:
    return ("--model", wish.model) if wish.model else ()


def _key(facts: Facts) -> str:
    return facts.keys.get("CODEX_API_KEY") or facts.keys.get("OPENAI_API_KEY", "")


def _begun(item: lines.Told) -> tuple[Said, ...]:
    name = item.get("id")
    match item.get("type"):
        case "command_execution":
            return (lines.call("shell", {"command": lines.text(item.get("command"))}, name),)
        case "file_change":
            return (_change(item),)
        case "mcp_tool_call":
            return (lines.call(_tool(item), item.get("arguments"), name),)
        case "web_search":
            return (lines.call("web_search", {"query": lines.text(item.get("query"))}, name),)
    return ()


def _done(item: lines.Told) -> tuple[Said, ...]:
    name, ok = item.get("id"), item.get("status") == "completed"
    match item.get("type"):
        case "agent_message":
            return lines.message(item.get("text"))
        case "reasoning":
            return lines.thinking(item.get("text"))
        case "command_execution":
            return (lines.result("shell", ok, item.get("aggregated_output"), name),)
        case "file_change":
            return (lines.result("apply_patch", ok, _listed(item), name),)
        case "mcp_tool_call":
            given = lines.within(item, "result").get("content")
            error = lines.within(item, "error").get("message")
            return (lines.result(_tool(item), ok, error or given, name),)
        case "error":
            return lines.trouble(lines.text(item.get("message")))
    return ()


def _change(item: lines.Told) -> Said:
    files = [each.get("path") for each in lines.each(item.get("changes"))]
    return lines.call("apply_patch", _listed(item), item.get("id"), *files)


def _listed(item: lines.Told) -> str:
    changes = lines.each(item.get("changes"))
    return "\n".join(f"{lines.text(c.get('kind'))} {lines.text(c.get('path'))}" for c in changes)


def _tool(item: lines.Told) -> str:
    return f"{lines.text(item.get('server'))}.{lines.text(item.get('tool'))}"


def _usage(used: lines.Told) -> tuple[Said, ...]:
    return lines.usage(
        "input",
        "output",
        "cached",
        input=lines.count(used.get("input_tokens")),
        output=lines.count(used.get("output_tokens")),
        cached=lines.count(used.get("cached_input_tokens")),
    )
