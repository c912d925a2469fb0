"""One attempt read in full: turn by turn, expected beside actual. Only reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from evals_app import invocations, report
from evals_app.alignment import Pair, Rules, align
from evals_app.metrics import label_of
from evals_app.models import EvalAttempt, MetricResult
from sessions_app.models import Event, Kind
from sessions_app.presentation import textdiff
from sessions_app.presentation.textdiff import Piece

TRAJECTORY = "tool_trajectory_avg_score"
REPORTED_AS = {
    "tool_call_count_v1": "tool calls a turn",
    "inference_call_count_v1": "model calls a turn",
    "token_usage_v1": "tokens a turn",
    "invocation_duration_v1": "seconds a turn",
}


@dataclass(frozen=True)
class Verdict:
    """What one metric said, of a turn or of the whole."""

    result: MetricResult
    details: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The metric's short name."""
        return label_of(self.result.metric)

    @property
    def reported_as(self) -> str:
        """What a metric that is only reported counts."""
        return REPORTED_AS.get(self.result.metric, self.label)

    @property
    def rubrics(self) -> list[dict[str, Any]]:
        """The verdict on each rubric: [{rubric_id, text, score, rationale}]."""
        return list(self.details.get("rubrics") or [])

    @property
    def answers(self) -> list[str]:
        """What the judge said, sample by sample."""
        return list(self.details.get("judge_answers") or [])

    @property
    def breakdown(self) -> list[tuple[str, float]]:
        """Token or time counts behind the score."""
        return [
            (name.replace("_", " "), value)
            for name, value in self.details.items()
            if name not in {"rubrics", "judge_answers"} and isinstance(value, int | float)
        ]


@dataclass(frozen=True)
class Turn:
    """One turn: what the user said, what was expected and what happened."""

    number: int
    user: str
    expected: list[Piece]
    actual: list[Piece]
    has_expected: bool
    has_actual: bool
    calls: list[Pair]
    steps: list[tuple[str, str]]
    verdicts: list[Verdict]
    seconds: float | None

    @property
    def has_answer(self) -> bool:
        """Tell whether the agent said anything."""
        return any(piece.text for piece in self.actual)

    @property
    def calls_wrong(self) -> bool:
        """Tell whether the tool calls are not those the metric's rules allow."""
        return any(pair.wrong for pair in self.calls)


@dataclass(frozen=True)
class Detail:
    """An attempt in full."""

    attempt: EvalAttempt
    case: Mapping[str, Any]
    verdicts: list[Verdict]
    reported: list[Verdict]
    turns: list[Turn]
    session_pk: int | None

    @property
    def scenario(self) -> Mapping[str, Any] | None:
        """The scenario of a simulated conversation."""
        found: Mapping[str, Any] | None = self.case.get("conversation_scenario")
        return found


def detail(attempt: EvalAttempt) -> Detail:
    """Return an attempt of a run (whose version and results are read) in full."""
    run = attempt.run
    case = case_of(attempt)
    results = [Verdict(result, report.details_of(result)) for result in attempt.results.order_by("position")]
    overall = [verdict for verdict in results if verdict.result.invocation is None]
    criteria = json.loads(run.config).get("criteria") or {}
    session_pk = report.sessions_of([attempt]).get(attempt.pk)
    turns = _Turns(criteria.get(TRAJECTORY), _event_of_calls(session_pk), results)
    return Detail(
        attempt=attempt,
        case=case,
        verdicts=[verdict for verdict in overall if not report.reported(verdict.result.metric)],
        reported=[verdict for verdict in overall if report.reported(verdict.result.metric)],
        turns=turns.pair(case.get("conversation") or [], json.loads(attempt.actual)),
        session_pk=session_pk,
    )


@dataclass(frozen=True)
class Expectation:
    """A case as its file says it, for a person to read."""

    case: Mapping[str, Any]
    turns: list[tuple[str, str, list[dict[str, Any]]]]
    """(what the user says, the expected answer, the expected tool calls) of each turn"""

    @property
    def scenario(self) -> Mapping[str, Any] | None:
        """The scenario of a simulated conversation."""
        found: Mapping[str, Any] | None = self.case.get("conversation_scenario")
        return found

    @property
    def start(self) -> Mapping[str, Any]:
        """What the session starts with."""
        return self.case.get("session_input") or {}


def expected_of(case: Mapping[str, Any]) -> Expectation:
    """Return what a case expects."""
    turns = [
        (invocations.user_text(turn), invocations.answer_text(turn), invocations.tool_calls(turn))
        for turn in case.get("conversation") or []
    ]
    return Expectation(case, turns)


def case_of(attempt: EvalAttempt) -> dict[str, Any]:
    """Return the case that an attempt repeats, as its evalset said it when the run was made."""
    cases: list[dict[str, Any]] = json.loads(attempt.run.version.content)["eval_cases"]
    return cases[attempt.case_index]


def _event_of_calls(session_pk: int | None) -> dict[str, int]:
    """Return the seq of the event in which each tool call of a session was made, by the call's id."""
    if session_pk is None:
        return {}
    rows = Event.objects.filter(session=session_pk, kind=Kind.TOOL_CALL).values_list("seq", "summary")
    return {call["id"]: seq for seq, summary in rows for call in json.loads(summary).get("calls", [])}


Invocation = Mapping[str, Any]


@dataclass(frozen=True)
class _Turns:
    """Pairs expected turns with actual ones, under the criterion of the tool trajectory."""

    criterion: float | Mapping[str, Any] | None
    event_of_calls: Mapping[str, int]
    results: Sequence[Verdict]

    def pair(self, expected: Sequence[Invocation], actual: Sequence[Invocation]) -> list[Turn]:
        """Return the turns, as many as there are on either side. Only the first divergence of all is marked."""
        turns = [self._turn(index, *both) for index, both in enumerate(zip_longest(expected, actual))]
        diverged = False
        for turn in turns:
            if diverged:
                turn.calls[:] = [replace(pair, first=False) for pair in turn.calls]
            diverged = diverged or turn.calls_wrong
        return turns

    def _turn(self, index: int, expected: Invocation | None, actual: Invocation | None) -> Turn:
        wanted, got = invocations.answer_text(expected or {}), invocations.answer_text(actual or {})
        both_answered = bool(wanted) and actual is not None
        left, right = textdiff.compare(wanted, got) if both_answered else _unmarked(wanted, got)
        return Turn(
            number=index + 1,
            user=invocations.user_text(expected or actual or {}),
            expected=left,
            actual=right,
            has_expected=bool(wanted),
            has_actual=actual is not None,
            calls=self._calls(expected, actual) if actual is not None else [],
            steps=invocations.steps(actual or {}),
            verdicts=[verdict for verdict in self.results if verdict.result.invocation == index],
            seconds=(actual or {}).get("duration"),
        )

    def _calls(self, expected: Invocation | None, actual: Invocation) -> list[Pair]:
        wanted = invocations.tool_calls(expected or {})
        got = [
            {**call, "seq": self.event_of_calls.get(call["id"])} for call in invocations.tool_calls(actual)
        ]
        judged = expected is not None and (self.criterion is not None or wanted)
        # Where nothing is expected, no call is one too many.
        return align(wanted, got, Rules.of(self.criterion) if judged else Rules("IN_ORDER"))


def _unmarked(expected: str, actual: str) -> tuple[list[Piece], list[Piece]]:
    return [Piece(expected, False)], [Piece(actual, False)]
