"""Pauses of one run: the wait for a person's decision, and the branches in which a person steps."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.adk.agents.callback_context import CallbackContext

from sessions_app.console.pause_points import MINUTE_S, PausePoints
from sessions_app.runs import pauses
from sessions_app.runs.pauses import Decision, Interval, PauseContent
from sessions_app.store.database import retry
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.events.summary import shorten

MAX_PAUSES = 20
"""Pauses of a run at once; further calls wait until a person has decided on one of them."""

POLL_S = 0.1
"""Longest polling interval on SQLite while a run is paused."""

Step = tuple[str, int]
"""Branch in which a person has chosen to step, and key of the pause."""

NO_STEPS: frozenset[Step] = frozenset()


@dataclass(frozen=True, slots=True)
class PausePosition:
    """Position of a pause in a run.

    Attributes:
        kind: kind of the pause.
        agent: the agent that calls or writes.
        target: name of the tool or model, or of the state keys.
        branch: branch of the agent.
        steps: steps that end here.
        call_id: id of the call of a tool.
    """

    kind: pauses.Kind
    agent: str
    target: str
    branch: str = ""
    steps: frozenset[Step] = NO_STEPS
    call_id: str = ""


class RunPauser:
    """Pauses one run, at several places at once.

    Args:
        run_id: the run.
        points: where it pauses.
        expire: called once a pause has lasted too long, with the reason: cancels the run.
    """

    def __init__(self, run_id: str, points: PausePoints, expire: Callable[[str], None]) -> None:
        self.points = points
        self._run_id = run_id
        self._expire = expire
        self._steps: set[Step] = set()
        self._later_steps: dict[str, Step] = {}
        self._free_pauses = asyncio.Semaphore(MAX_PAUSES)
        self._open_count = 0
        self._first_began = 0.0
        self._paused_times: list[Interval] = []
        self._tool_changes: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def find_steps(self, context: CallbackContext) -> frozenset[Step]:
        """Return the steps that end at a call: those in its branch, and in branches around or inside it."""
        branch = context.branch or ""
        return frozenset(
            step for step in self._steps if is_inside(branch, step[0]) or is_inside(step[0], branch)
        )

    def note_call_end(self, call_id: str) -> None:
        """Begin the step that was to begin after a call of a tool."""
        if (step := self._later_steps.pop(call_id, None)) is not None:
            self._steps.add(step)

    def note_tool_change(self, call_id: str, change: dict[str, Any]) -> None:
        """Remember what a person changed of a call until `take_tool_changes`."""
        self._tool_changes[call_id].append(change)

    def take_tool_changes(self, call_id: str) -> list[dict[str, Any]]:
        """Return what a person changed of a call, and forget it."""
        return self._tool_changes.pop(call_id, [])

    def has_given_result(self, call_id: str) -> bool:
        """Tell whether a person has given the result of a call."""
        return any(change["what"] == "result" for change in self._tool_changes.get(call_id, ()))

    async def wait_for_decision(self, position: PausePosition, content: PauseContent) -> Decision:
        """Pause until a person decides, which ends the steps of the position. Cancel the run if nobody does in time."""
        async with self._free_pauses:
            limit_s = self.points.limit_s
            deadline = time.monotonic() + limit_s
            began = time.time()
            if not self._open_count:
                self._first_began = began
            self._open_count += 1
            names = (self._run_id, position.kind, shorten(position.agent), shorten(position.target))
            pk = await retry.write(pauses.add_pause, *names, content, began, limit_s)
            async with subscribe(poll_s=POLL_S) as changes:
                while (decision := await retry.read(pauses.fetch_decision, pk)) is None:
                    if time.monotonic() >= deadline and await retry.write(pauses.expire_pause, pk):
                        await retry.write(pauses.delete_pause, self._run_id, pk, self._end_time())
                        await self._wait_for_cancellation(position)
                    await changes.wait()
            await retry.write(pauses.delete_pause, self._run_id, pk, self._end_time())
            self._steps -= position.steps
            if decision.action == pauses.STEP:
                self._steps.add((position.branch, pk))
            elif decision.action == pauses.STEP_OVER:
                self._later_steps[position.call_id] = (position.branch, pk)
            return decision

    def _end_time(self) -> list[Interval]:
        """Note the end of a pause. Return when the run was paused so far, even if it still is, by another pause."""
        self._open_count -= 1
        times = [*self._paused_times, (self._first_began, max(self._first_began, time.time()))]
        if not self._open_count:
            self._paused_times = times
        return times

    async def _wait_for_cancellation(self, position: PausePosition) -> None:
        """Have the run cancelled because a pause has lasted too long."""
        minutes, where = (
            self.points.limit_s / MINUTE_S,
            f"{pauses.PLACES[position.kind]} {shorten(position.target)}",
        )
        self._expire(f"It was paused {where} for {minutes:g} min, and nobody decided.")
        await asyncio.Event().wait()


def is_inside(branch: str, other: str) -> bool:
    """Tell whether a branch is another one or inside it. The branch without a name has all."""
    return not other or branch == other or branch.startswith(f"{other}.")


def describe_change(subject: str, decision: Decision) -> dict[str, Any]:
    """Return the mark of an event: what a person changed, and who."""
    return {"what": subject, "by": decision.person}
