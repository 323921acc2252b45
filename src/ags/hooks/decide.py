"""Every judge of a tool call, together: one no is a no."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from ags.frozen import frozen
from ags.hooks import guard, person
from ags.hooks.call import Heard
from ags.hooks.model import ALLOWED, Ground, ToolCall, Verdict
from ags.hooks.person import Hook

AT_ONCE = 8
"""Hooks that run at the same time; calls beyond wait."""

Note = Callable[[Mapping[str, object]], None]
"""Takes what is to be kept of a call, as fields of an event."""
Ask = Callable[[ToolCall, Sequence[Verdict], asyncio.Event], Awaitable[Verdict]]
"""The person's word on a call that these verdicts leave to them, as long as somebody waits."""


@frozen
class Bench:
    """Who judges in a run."""

    run: str
    ground: Ground
    home: Path
    hooks: tuple[Hook, ...] = ()
    guard: bool = True
    """`--yolo` turns it off; hooks of the person's stay."""
    writable: tuple[Path, ...] = ()
    """Of the host: no hook may lie there."""
    patience: float = person.PATIENCE


class Decider:
    """Answers calls of one run, and notes each."""

    def __init__(self, bench: Bench, note: Note, ask: Ask) -> None:
        self._bench = bench
        self._note = note
        self._ask = ask
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._reading = asyncio.Lock()

    async def hear(self, heard: Heard, left: asyncio.Event) -> Verdict:
        """What to say to the agent. After the fact, nothing can be refused any more.

        `left` is set when nobody waits for it any longer.
        """
        verdicts = [*await self._guarded(heard), *await self._hooked(heard)]
        refused = [verdict for verdict in verdicts if not verdict.allowed]
        if heard.moment == "before" and refused and all(verdict.asks for verdict in refused):
            answer = await self._ask(heard.call, refused, left)
            refused = [] if answer.allowed else [answer]
        self._tell(heard, refused)
        if heard.moment != "before" or not refused:
            return ALLOWED
        return refused[0]

    async def _guarded(self, heard: Heard) -> Sequence[Verdict]:
        if heard.moment != "before" or not self._bench.guard:
            return ()
        async with self._reading:
            start = time.monotonic()
            verdict = guard.judge(heard.call, self._bench.ground)
            # Whoever sends what is slow to read must not keep us from all else.
            await asyncio.sleep(2 * (time.monotonic() - start))
        return (verdict,)

    async def _hooked(self, heard: Heard) -> Sequence[Verdict]:
        names = person.named(heard)
        hooks = [hook for hook in self._bench.hooks if hook.name in names]
        return await asyncio.gather(*(self._run(hook, heard) for hook in hooks))

    async def _run(self, hook: Hook, heard: Heard) -> Verdict:
        bench = self._bench
        async with self._turn:
            return await person.ask(
                hook,
                heard,
                bench.run,
                home=bench.home,
                writable=bench.writable,
                patience=bench.patience,
            )

    def _tell(self, heard: Heard, refused: Sequence[Verdict]) -> None:
        call = heard.call
        if heard.moment != "before" and not refused:
            return
        before = heard.moment == "before"
        self._note(
            {
                "moment": heard.moment,
                "agent": call.agent,
                "tool": call.tool,
                "tool_kind": call.kind,
                "command": call.command,
                "paths": list(call.paths),
                "decision": ("deny" if refused else "allow") if before else "told",
                "by": [verdict.by for verdict in refused],
                "reason": "; ".join(verdict.reason for verdict in refused),
            }
        )
