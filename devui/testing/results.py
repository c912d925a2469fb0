"""Results of an evalset, for authors of tests."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from evals_app.analysis.statistics import percentile
from evals_app.metrics.score_text import FAILED, NOT_EVALUATED, describe_score
from sessions_app.presentation import visible_text
from sessions_app.statistics import Interval


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
    def summary(self) -> str:
        """The score and its threshold, or why there is no score."""
        return describe_score(self)


@dataclass(frozen=True)
class Latency:
    """Seconds of attempts with an outcome: their mean, and the smallest values that 50 % and 95 % do not exceed."""

    mean: float
    median: float
    p95: float

    @classmethod
    def measure(cls, attempts: Iterable[AttemptResult]) -> Self | None:
        """Return the latency of attempts; None if none with an outcome has a duration."""
        judged = (attempt.seconds for attempt in attempts if attempt.has_outcome)
        seconds = [duration for duration in judged if duration is not None]
        if not seconds:
            return None
        return cls(statistics.fmean(seconds), percentile(seconds, 0.5), percentile(seconds, 0.95))


@dataclass(frozen=True)
class AttemptResult:
    """One repetition of a case.

    Attributes:
        status: passed, failed, error, incomplete (a metric could not run) or cancelled.
        has_outcome: the attempt counts in the pass rate; False if it is incomplete or cancelled, or if a dependency
            failed, such as a model that refused all requests.
        seconds: duration without waits for unavailable models; None if it did not end.
        cost: in the currency of the price file; None if it is unknown, or no model was called.
        actual: ADK's invocations that took place, as JSON in snake case.
    """

    id: int
    case: str
    repetition: int
    status: str
    has_outcome: bool = True
    error: str = ""
    traceback: str = ""
    tokens: int = 0
    seconds: float | None = None
    cost: float | None = None
    scores: Sequence[Score] = ()
    actual: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def from_json(cls, attempt: Mapping[str, Any]) -> Self:
        """Return the result in an export of an attempt."""
        error, seconds = attempt["error"], attempt["seconds"]
        names = [column.name for column in fields(Score)]
        return cls(
            id=attempt["id"],
            case=attempt["case"],
            repetition=attempt["repetition"],
            status=attempt["status"],
            has_outcome=attempt["has_outcome"],
            error=f"{error['type']}: {error['message']}" if error else "",
            traceback=error["traceback"] if error else "",
            tokens=attempt["total_tokens"],
            seconds=None if seconds is None else seconds - attempt["waited_seconds"],
            cost=attempt["cost"] if attempt["total_tokens"] else None,
            scores=[
                Score(**{name: score[name] for name in names})
                for score in attempt["metrics"]
                if score["turn"] is None
            ],
            actual=attempt["actual"],
        )

    @property
    def passed(self) -> bool:
        """Tell whether every metric passed."""
        return self.status == "passed"

    @property
    def summary(self) -> str:
        """The repetition, its status, and why it did not pass."""
        scores = [score.summary for score in self.scores if score.status in {FAILED, NOT_EVALUATED}]
        why = self.error or "; ".join(scores)
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
    def latency(self) -> Latency | None:
        """Seconds of its repetitions; None if none has a duration."""
        return Latency.measure(self.attempts)

    @property
    def cost(self) -> float | None:
        """Cost of its repetitions; None if one that used tokens has no known cost, or none used tokens."""
        costs = [attempt.cost for attempt in self.attempts if attempt.tokens]
        known_costs = [cost for cost in costs if cost is not None]
        return sum(known_costs) if known_costs and len(known_costs) == len(costs) else None

    @property
    def summary(self) -> str:
        """The number of repetitions that passed, and why the others did not; printable, on several lines."""
        pass_count = sum(attempt.passed for attempt in self.attempts)
        lines = [f"{self.id}: {pass_count} of {len(self.attempts)} passed"]
        for attempt in self.attempts:
            if not attempt.passed:
                lines += [f"  {attempt.summary}", *_turn_lines(attempt)]
        return visible_text.escape_text("\n".join(lines))


@dataclass(frozen=True)
class Results:
    """Results of an evalset run.

    Attributes:
        run_id: id of its row; `devui web` on the same store shows it below /evals/runs/.
        status: done, or cancelled, stopped (see `stopped_because`), failed or crashed.
        cases: results in file order.
        pass_rate: share of the repetitions with an outcome that passed, 0 to 1; all cases have the same weight.
        interval: of the pass rate, at 95 % (Wilson).
        cost: of the agent's models; None if an attempt that used tokens has no known cost, or none used tokens.
        currency: of the costs, as in the price file.
        gate_status: what the gate of `run_evals` says with the same options: passed, no regression, not compared,
            failed, stopped or could not run.
        title: what happened, in one line.
        fails: why `run_evals` would not exit with 0, one sentence each.
        comparison: the comparison with the baseline, as the API returns it; None without a baseline.
        facts: the run as JSON, as in its export.
    """

    run_id: str
    status: str
    cases: Sequence[CaseResult] = ()
    stopped_because: str = ""
    pass_rate: float = 0.0
    interval: Interval = field(default_factory=lambda: Interval(0.0, 1.0))
    cost: float | None = None
    currency: str = ""
    gate_status: str = ""
    title: str = ""
    fails: Sequence[str] = ()
    comparison: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, reply: Mapping[str, Any]) -> Self:
        """Return the results in the reply of the process that ran the evalset; cases of the same id are one result."""
        facts, rate = reply["run"], reply["rate"]
        by_case: dict[str, list[AttemptResult]] = {}
        for attempt in map(AttemptResult.from_json, reply["attempts"]):
            by_case.setdefault(attempt.case, []).append(attempt)
        error = facts["error"] or {"message": ""}
        return cls(
            run_id=facts["id"],
            status=facts["status"],
            cases=[CaseResult(case, its_attempts) for case, its_attempts in by_case.items()],
            stopped_because=facts["stopped_because"] or error["message"],
            pass_rate=rate["passed"] or 0.0,
            interval=Interval(*rate["interval"]),
            cost=reply["cost"],
            currency=reply["currency"],
            gate_status=reply["gate"]["status"],
            title=reply["gate"]["title"],
            fails=reply["gate"]["fails"],
            comparison=reply["gate"]["comparison"],
            facts=facts,
        )

    @property
    def passed(self) -> bool:
        """Tell whether every repetition of every case passed."""
        return self.status == "done" and bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def regressions(self) -> Sequence[str]:
        """Return the regressions against the baseline, one sentence each."""
        return self.comparison["regressions"] if self.comparison else ()

    @property
    def latency(self) -> Latency | None:
        """Seconds of all attempts; None if none has a duration."""
        return Latency.measure(attempt for case in self.cases for attempt in case.attempts)

    def __getitem__(self, case_id: str) -> CaseResult:
        """Return the result of a case.

        Raises:
            KeyError: no case with this id ran.
        """
        return {case.id: case for case in self.cases}[case_id]

    @property
    def summary(self) -> str:
        """The number of cases that passed, why the run stopped, and why cases did not pass; on several lines."""
        lines = [f"{sum(case.passed for case in self.cases)} of {len(self.cases)} cases passed"]
        if self.stopped_because:
            lines.append(self.stopped_because)
        return "\n".join([*lines, *(case.summary for case in self.cases if not case.passed)])


MAX_SHOWN = 300
"""Most characters of an answer in a message."""


def _turn_lines(attempt: AttemptResult) -> list[str]:
    """Return a line for each turn of the agent."""
    lines = []
    for number, turn in enumerate(attempt.actual, 1):
        calls = (turn.get("intermediate_data") or {}).get("tool_uses") or _function_calls(turn)
        answer = _content_text(turn.get("final_response"))
        tools = ", ".join(
            f"{call.get('name')}({_format_arguments(call.get('args') or {})})" for call in calls
        )
        lines.append(f"     turn {number}: {f'called {tools}; ' if tools else ''}answered {answer!r}")
    return lines


def _function_calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    events = (turn.get("intermediate_data") or {}).get("invocation_events") or []
    parts = [part for event in events for part in (event.get("content") or {}).get("parts") or []]
    return [part["function_call"] for part in parts if part.get("function_call")]


def _format_arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _content_text(content: Mapping[str, Any] | None) -> str:
    parts = (content or {}).get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
