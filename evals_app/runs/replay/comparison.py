"""Comparison of an attempt with its recording: replayed parts, and differences of requests. Read-only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evals_app.models import EvalAttempt
from evals_app.runs.replay.policy import ReplayPolicy
from evals_app.runs.replay.recorded_runs import recorded_session
from sessions_app.presentation import value_diff
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.store.models import AgentSession
from sessions_app.traces import request_contents
from sessions_app.traces.request_contents import RequestContent


@dataclass(frozen=True)
class RequestDifference:
    """A model request that differs from the recorded one. Turn and call count from 1.

    Attributes:
        history: contents that were added, removed or moved: (change, content).
        tools: names of added, removed and changed tools.
        declarations: changed declarations, line by line: (tool, lines).
        settings: changed settings as JSON: (name, recorded, now).
    """

    turn: int
    agent: str
    call: int
    instruction: list[DiffLine]
    history: list[tuple[str, RequestContent]]
    history_cut: int
    tools: Mapping[str, list[str]]
    declarations: list[tuple[str, list[DiffLine]]]
    settings: list[tuple[str, str, str]]

    @property
    def what(self) -> tuple[Any, ...]:
        """The differences as a key; unchanged lines are omitted because they may contain the state."""
        lines = [line for line in self.instruction if line.mark in ("added", "removed")]
        return self.agent, lines, self.history, self.history_cut, self.tools, self.declarations, self.settings

    @property
    def changed_parts(self) -> list[str]:
        """The parts of the request that differ: instruction, tools, settings; the history only if nothing else does."""
        parts = [
            *(["instruction"] if self.instruction else []),
            *(["tools"] if self.tools or self.declarations else []),
            *(name.replace("_", " ") for name, _, _ in self.settings),
        ]
        return parts or ["history"]

    @property
    def summary(self) -> list[str]:
        """The differences in words."""
        words = {"removed": "gone", "added": "new", "moved": "elsewhere"}
        tally = {word: sum(kind == change for kind, _ in self.history) for change, word in words.items()}
        counts = [f"{count} {word}" for word, count in tally.items() if count]
        return [
            *(["instruction"] if self.instruction else []),
            *([f"history: {', '.join(counts)}"] if counts else []),
            *([f"tools: {', '.join(self.tools)}"] if self.tools else []),
            *(name.replace("_", " ") for name, _, _ in self.settings),
        ]


@dataclass(frozen=True)
class RequestGroup:
    """Requests with the same differences, the first of them in full."""

    request: RequestDifference
    others: list[RequestDifference]


@dataclass(frozen=True)
class ReplayComparison:
    """An attempt compared with its recording. `again`: calls that were made more often than recorded."""

    policy: ReplayPolicy
    original: AgentSession | None
    requests: list[RequestDifference]
    again: list[str]

    @property
    def groups(self) -> list[RequestGroup]:
        """The differing requests, grouped by equal differences, in order."""
        groups: list[RequestGroup] = []
        for request in self.requests:
            same = next((group for group in groups if group.request.what == request.what), None)
            if same is None:
                groups.append(RequestGroup(request, []))
            else:
                same.others.append(request)
        return groups


def compare_with_recording(attempt: EvalAttempt) -> ReplayComparison | None:
    """Return the comparison of an attempt (with its run) with its recording; None if it replays nothing."""
    policy = ReplayPolicy.of(attempt.run.policy)
    if not policy.active:
        return None
    differences: list[dict[str, Any]] = json.loads(attempt.differences)
    return ReplayComparison(
        policy,
        recorded_session(policy, attempt.case_id, attempt.repetition),
        [
            describe_difference(difference)
            for difference in differences
            if difference.get("kind") == "request"
        ],
        [difference["again"] for difference in differences if difference.get("kind") == "tool"],
    )


def describe_difference(difference: Mapping[str, Any]) -> RequestDifference:
    """Return a difference of `request_diff.compare_requests`, with turn, agent and call, for display."""
    instruction = difference.get("instruction")
    model = difference.get("model")
    settings = {**({"model": model} if model else {}), **(difference.get("settings") or {})}
    return RequestDifference(
        turn=difference["turn"] + 1,
        agent=difference["agent"],
        call=difference["call"],
        instruction=_diff_lines(instruction) if instruction else [],
        history=[
            (entry["change"], request_contents.describe_content(entry["place"], entry["content"], ""))
            for entry in difference.get("history") or []
        ],
        history_cut=difference.get("history_cut") or 0,
        tools=difference.get("tools") or {},
        declarations=[
            (tool, _diff_lines(sides)) for tool, sides in (difference.get("declarations") or {}).items()
        ],
        settings=[
            (name, json.dumps(value["recorded"]), json.dumps(value["now"]))
            for name, value in settings.items()
        ],
    )


def _diff_lines(sides: Mapping[str, Any]) -> list[DiffLine]:
    """Return the recorded and the current value, line by line."""
    return value_diff.diff_lines(json.dumps(sides["recorded"]), json.dumps(sides["now"]))
