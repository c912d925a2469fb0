"""Recorded tool results, matched to calls by name and arguments, then by order. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evals_app.execution.replay.recording import RecordedResult
from evals_app.files.pairing import json_equal
from sessions_app.store.short_texts import join_names

MAX_LISTED_CALLS = 5
MAX_ARGS_LENGTH = 200


class NotRecorded(Exception):
    """The recording lacks an answer or a result; the text names the request, `hint` the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class RecordedResults:
    """Tool results of a recording, each returned once, in order; the last one of equal calls is repeated."""

    def __init__(self, recorded: Sequence[RecordedResult]) -> None:
        self._recorded = recorded
        self._given: set[int] = set()

    def take(self, agent: str, tool: str, args: Mapping[str, Any]) -> tuple[RecordedResult, bool]:
        """Return the result of a call, and whether it was returned before: there are more calls than recorded.

        Calls of the same agent come first, then those of other agents.

        Raises:
            NotRecorded: no call has this name and these arguments.
        """
        candidates = [
            (index, result)
            for index, result in enumerate(self._recorded)
            if result.tool == tool and json_equal(result.args, dict(args))
        ]
        candidates.sort(key=lambda candidate: candidate[1].agent != agent)
        for index, result in candidates:
            if index not in self._given:
                self._given.add(index)
                return result, False
        if candidates:
            agent_results = [result for _, result in candidates if result.agent == agent]
            return (agent_results or [result for _, result in candidates])[-1], True
        raise self._not_recorded(agent, tool, args)

    def _not_recorded(self, agent: str, tool: str, args: Mapping[str, Any]) -> NotRecorded:
        same_tool = [result for result in self._recorded if result.tool == tool]
        calls = dict.fromkeys(call_text(result.tool, result.args) for result in same_tool)
        listed = join_names([*calls], MAX_LISTED_CALLS)
        return NotRecorded(
            f"Agent {agent} calls {call_text(tool, args)}, and the recording has no result of that call.",
            f"Recorded calls of {tool}: {listed}."
            if same_tool
            else f"{tool} was not called in the recording.",
        )


def call_text(tool: str, args: Mapping[str, Any]) -> str:
    """Return a call as source code."""
    text = ", ".join(f"{name}={value!r}" for name, value in args.items())
    return f"{tool}({text if len(text) <= MAX_ARGS_LENGTH else text[:MAX_ARGS_LENGTH] + '…'})"
