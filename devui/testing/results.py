"""Results of an evalset, for authors of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from evals_app.metrics.score_text import format_score
from sessions_app.presentation import visible_text

FAILED = "failed"


class EvalsFailed(AssertionError):
    """A case did not run to its end; the message describes the end of its run."""


@dataclass(frozen=True)
class Score:
    """A metric's score of a whole attempt.

    Attributes:
        status: passed, failed, not_evaluated (see `reason`) or informational.
    """

    metric: str
    score: float | None
    threshold: float | None
    status: str
    reason: str = ""

    @property
    def said(self) -> str:
        """The verdict in words."""
        if self.status == "not_evaluated":
            return f"{self.metric}: {' '.join(self.reason.split())}"
        sign = "<" if self.status == FAILED else "≥"
        return f"{self.metric} {format_score(self.score)} {sign} {format_score(self.threshold)}"


@dataclass(frozen=True)
class AttemptResult:
    """One repetition of a case.

    Attributes:
        status: passed, failed, error (the agent's, unless `unavailable`), incomplete (a metric could not run) or
            cancelled.
        unavailable: a dependency failed, such as a model that refused all requests, so the case has no verdict.
        actual: ADK's invocations that took place, as JSON in snake case.
    """

    id: int
    case: str
    repetition: int
    status: str
    unavailable: bool = False
    error: str = ""
    traceback: str = ""
    tokens: int = 0
    scores: Sequence[Score] = ()
    actual: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Return the result in a reply of the worker."""
        return cls(**{**facts, "scores": [Score(**score) for score in facts["scores"]]})

    @property
    def passed(self) -> bool:
        """Tell whether every metric passed."""
        return self.status == "passed"

    @property
    def said(self) -> str:
        """Description of the outcome, one or more lines."""
        wrong = [score.said for score in self.scores if score.status in {FAILED, "not_evaluated"}]
        why = self.error or "; ".join(wrong)
        return f"#{self.repetition} {self.status}{f': {why}' if why else ''}"


@dataclass(frozen=True)
class CaseResult:
    """One case with its repetitions."""

    id: str
    attempts: Sequence[AttemptResult]

    @property
    def passed(self) -> bool:
        """Tell whether every repetition passed."""
        return bool(self.attempts) and all(attempt.passed for attempt in self.attempts)

    @property
    def said(self) -> str:
        """Description of the outcome: a line for the case, and one per failed repetition, printable."""
        good = sum(attempt.passed for attempt in self.attempts)
        lines = [f"{self.id}: {good} of {len(self.attempts)} passed"]
        for attempt in self.attempts:
            if not attempt.passed:
                lines += [f"  {attempt.said}", *_turn_lines(attempt)]
        return visible_text.escape_text("\n".join(lines))


@dataclass(frozen=True)
class Results:
    """Results of an evalset run.

    Attributes:
        run_id: id of its row; `devui web` on the same store shows it below /evals/runs/.
        status: done, or cancelled, stopped (see `stopped_because`) or failed.
        cases: results in file order.
    """

    run_id: str
    status: str
    cases: Sequence[CaseResult] = ()
    stopped_because: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Tell whether every repetition of every case passed."""
        return self.status == "done" and bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def pass_rate(self) -> float:
        """Share of the attempts that passed, 0 to 1, without those that a model or judge failed."""
        attempts = [attempt for case in self.cases for attempt in case.attempts if not attempt.unavailable]
        return sum(attempt.passed for attempt in attempts) / len(attempts) if attempts else 0.0

    def __getitem__(self, case_id: str) -> CaseResult:
        """Return the first case with this id.

        Raises:
            KeyError: no case with this id ran.
        """
        for case in self.cases:
            if case.id == case_id:
                return case
        raise KeyError(case_id)

    @property
    def said(self) -> str:
        """Description of the outcome, with every case that did not pass."""
        lines = [f"{sum(case.passed for case in self.cases)} of {len(self.cases)} cases passed"]
        if self.stopped_because:
            lines.append(self.stopped_because)
        return "\n".join([*lines, *(case.said for case in self.cases if not case.passed)])


MAX_SHOWN = 300
"""Most characters of an answer in a message."""


def _turn_lines(attempt: AttemptResult) -> list[str]:
    """Return a line for each turn of the agent."""
    lines = []
    for number, turn in enumerate(attempt.actual, 1):
        calls = (turn.get("intermediate_data") or {}).get("tool_uses") or _function_calls(turn)
        answer = _text(turn.get("final_response"))
        tools = ", ".join(f"{call.get('name')}({_arguments(call.get('args') or {})})" for call in calls)
        lines.append(f"     turn {number}: {f'called {tools}; ' if tools else ''}answered {answer!r}")
    return lines


def _function_calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    events = (turn.get("intermediate_data") or {}).get("invocation_events") or []
    parts = [part for event in events for part in (event.get("content") or {}).get("parts") or []]
    return [part["function_call"] for part in parts if part.get("function_call")]


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _text(content: Mapping[str, Any] | None) -> str:
    parts = (content or {}).get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
