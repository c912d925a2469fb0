"""What of an attempt came from a recording, and in what its requests differ from the recorded ones. Only reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evals_app.models import EvalAttempt
from evals_app.runs.replay.policy import Policy
from evals_app.runs.replay.recorded_runs import original_of
from sessions_app.models import AgentSession
from sessions_app.presentation import value_diff
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.traces import request_contents
from sessions_app.traces.request_contents import Content


@dataclass(frozen=True)
class HistoryChange:
    """A content of the history that only one side has, or that stands elsewhere."""

    change: str
    content: Content


@dataclass(frozen=True)
class Setting:
    """A setting of the request that is another one now, each side as JSON."""

    name: str
    recorded: str
    now: str


@dataclass(frozen=True)
class Declaration:
    """A tool that is declared otherwise now, line by line."""

    tool: str
    lines: list[DiffLine]


@dataclass(frozen=True)
class Request:
    """A request to a model that differs from the recorded one. Turn and call count from 1."""

    turn: int
    agent: str
    call: int
    instruction: list[DiffLine]
    history: list[HistoryChange]
    history_cut: int
    tools: Mapping[str, list[str]]
    declarations: list[Declaration]
    settings: list[Setting]

    @property
    def what(self) -> tuple[Any, ...]:
        """What differs, wherever it does: the lines around a change may say what the state was."""
        lines = [line for line in self.instruction if line.mark in ("added", "removed")]
        return self.agent, lines, self.history, self.history_cut, self.tools, self.declarations, self.settings

    @property
    def summary(self) -> list[str]:
        """What differs, in words."""
        words = {"removed": "gone", "added": "new", "moved": "elsewhere"}
        tally = {word: sum(one.change == change for one in self.history) for change, word in words.items()}
        counts = [f"{count} {word}" for word, count in tally.items() if count]
        return [
            *(["instruction"] if self.instruction else []),
            *([f"history: {', '.join(counts)}"] if counts else []),
            *([f"tools: {', '.join(self.tools)}"] if self.tools else []),
            *(one.name.replace("_", " ") for one in self.settings),
        ]


@dataclass(frozen=True)
class AlikeRequests:
    """Requests that differ in the same way, the first of them in full."""

    request: Request
    others: list[Request]


@dataclass(frozen=True)
class Replayed:
    """An attempt beside its recording. `again`: calls that came more often than recorded."""

    policy: Policy
    original: AgentSession | None
    requests: list[Request]
    again: list[str]

    @property
    def groups(self) -> list[AlikeRequests]:
        """The requests that differ, those together that differ in the same way, in the order of the first."""
        found: list[AlikeRequests] = []
        for request in self.requests:
            same = next((group for group in found if group.request.what == request.what), None)
            if same is None:
                found.append(AlikeRequests(request, []))
            else:
                same.others.append(request)
        return found


def replayed_of(attempt: EvalAttempt) -> Replayed | None:
    """Return what an attempt repeats (its run is read); None: it repeats nothing."""
    policy = Policy.of(attempt.run.policy)
    if not policy.active:
        return None
    told: list[dict[str, Any]] = json.loads(attempt.differences)
    return Replayed(
        policy,
        original_of(policy, attempt.case_id, attempt.repetition),
        [_request(one) for one in told if one.get("kind") == "request"],
        [one["again"] for one in told if one.get("kind") == "tool"],
    )


def _request(told: Mapping[str, Any]) -> Request:
    instruction = told.get("instruction")
    model = told.get("model")
    settings = {**({"model": model} if model else {}), **(told.get("settings") or {})}
    return Request(
        turn=told["turn"] + 1,
        agent=told["agent"],
        call=told["call"],
        instruction=_lines(instruction) if instruction else [],
        history=[
            HistoryChange(one["change"], request_contents.describe_content(one["place"], one["content"], ""))
            for one in told.get("history") or []
        ],
        history_cut=told.get("history_cut") or 0,
        tools=told.get("tools") or {},
        declarations=[
            Declaration(name, _lines(both)) for name, both in (told.get("declarations") or {}).items()
        ],
        settings=[
            Setting(name, json.dumps(value["recorded"]), json.dumps(value["now"]))
            for name, value in settings.items()
        ],
    )


def _lines(both: Mapping[str, Any]) -> list[DiffLine]:
    """Return what was recorded beside what is asked now, line by line."""
    return value_diff.diff_lines(json.dumps(both["recorded"]), json.dumps(both["now"]))
