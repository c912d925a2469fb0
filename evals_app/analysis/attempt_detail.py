"""Details of one attempt: expected and actual turns, verdicts, and the first divergence. Read-only."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from evals_app.analysis import repetitions, retries, run_summary
from evals_app.analysis.repetitions import Repetitions
from evals_app.analysis.retries import TriesInRuns
from evals_app.cases import version_contents
from evals_app.metrics import invocations
from evals_app.metrics.alignment import CallPair, MatchRules, align
from evals_app.metrics.catalog import INFORMATIONAL_METRICS, TRAJECTORY
from evals_app.metrics.metric import metric_label
from evals_app.metrics.number_differences import is_number_note
from evals_app.models import EvalAttempt, MetricResult
from evals_app.runs.replay.comparison import ReplayComparison, compare_with_recording
from sessions_app import prices
from sessions_app.presentation import text_diff, value_diff
from sessions_app.presentation.text_diff import DiffPiece
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.store import scopes
from sessions_app.store.events.call_pairing import name_occurrences
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.models import Event, Trace
from sessions_app.store.state import history

MODEL_CALLS = "inference_call_count_v1"
REPORTED_AS = {
    "tool_call_count_v1": "tool calls per turn",
    MODEL_CALLS: "model calls per turn",
    "token_usage_v1": "tokens per turn",
    "invocation_duration_v1": "seconds per turn",
}


@dataclass(frozen=True)
class MetricVerdict:
    """Result of one metric for a turn or for the whole attempt."""

    result: MetricResult
    details: Mapping[str, Any]
    of_turns: Sequence[MetricVerdict] = ()

    @property
    def label(self) -> str:
        """The metric's short name."""
        return metric_label(self.result.metric)

    @property
    def has_other_numbers(self) -> bool:
        """Tell whether it passed although numbers differ from the expected answer."""
        return is_number_note(self.result.reason)

    @property
    def reported_as(self) -> str:
        """The unit of an informational metric."""
        return REPORTED_AS.get(self.result.metric, self.label)

    @property
    def rubrics(self) -> list[dict[str, Any]]:
        """The verdict on each rubric: [{rubric_id, text, score, rationale, reasons}].

        ADK gives the whole no reason of its own: `reasons` are those of its turns, [{turn, score, rationale}].
        """
        return [
            {**rubric, "reasons": self._rubric_reasons(rubric.get("rubric_id")) or [rubric]}
            for rubric in self._list_rubrics()
        ]

    def _list_rubrics(self) -> list[dict[str, Any]]:
        """Return the rubrics with a score of None where the file of an imported result has none."""
        return [{"score": None, **rubric} for rubric in self.details.get("rubrics") or []]

    def _rubric_reasons(self, rubric_id: str | None) -> list[dict[str, Any]]:
        return [
            {**rubric, "turn": (verdict.result.invocation or 0) + 1}
            for verdict in self.of_turns
            for rubric in verdict._list_rubrics()
            if rubric.get("rubric_id") == rubric_id
        ]

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
    """One turn: the user's message, expected and actual answer and tool calls.

    Attributes:
        number: from 1.
        expected, actual: the answers, in pieces that differ or not.
        has_expected, has_actual: the case expects an answer; the agent gave one.
        calls: expected and actual tool calls, paired.
        steps: (author, text) of the intermediate messages.
        verdicts: of the metrics on this turn.
        seconds: its duration; None: unknown.
        trace: key of its trace; None if none was recorded.
    """

    number: int
    user: str
    expected: list[DiffPiece]
    actual: list[DiffPiece]
    has_expected: bool
    has_actual: bool
    calls: list[CallPair]
    steps: list[tuple[str, str]]
    verdicts: list[MetricVerdict]
    seconds: float | None
    trace: int | None = None
    """The trace of its invocation."""

    @property
    def has_answer(self) -> bool:
        """Tell whether the agent answered with text."""
        return any(piece.text for piece in self.actual)

    @property
    def answers_differ(self) -> bool:
        """Tell whether an answer was expected and the actual one has another text."""
        expected, actual = ("".join(piece.text for piece in side) for side in (self.expected, self.actual))
        return self.has_expected and expected != actual

    @property
    def calls_wrong(self) -> bool:
        """Tell whether the metric's rules do not allow the tool calls."""
        return any(pair.wrong for pair in self.calls)


@dataclass(frozen=True)
class ShownStateCheck:
    """One expected state key. `turn` counts from 1; None: at the end. A value of None: the key does not exist."""

    path: str
    turn: int | None
    matches: bool
    expected: str | None
    actual: str | None

    @property
    def lines(self) -> list[DiffLine]:
        """Both values line by line; empty if they fit on one line."""
        if self.matches or value_diff.is_brief(self.expected, self.actual):
            return []
        return value_diff.diff_lines(self.expected, self.actual)


@dataclass(frozen=True)
class Moment:
    """The first divergence of an attempt: its event, and the state before it."""

    turn: int
    pair: CallPair
    seq: int
    state: Mapping[str, Any]


@dataclass(frozen=True)
class AttemptUsage:
    """Tokens of one model and their cost; None: unknown."""

    model: str
    tokens: Mapping[str, int]
    cost: float | None


@dataclass(frozen=True)
class ReplayOutcome:
    """Differences between a replay and its recording.

    Attributes:
        changed_parts: parts of model requests that differ, such as `instruction` and `tools`.
        turns_with_other_calls: number of turns whose tool calls differ.
        turns_with_other_answers: number of turns whose answers differ.
        keys: number of state keys whose values differ.
    """

    changed_parts: Sequence[str]
    turns_with_other_calls: int
    turns_with_other_answers: int
    keys: int

    @property
    def has_same_behavior(self) -> bool:
        """Tell whether the agent made the same calls and gave the same answers."""
        return not self.turns_with_other_calls and not self.turns_with_other_answers

    @property
    def sentence(self) -> str:
        """The outcome, such as "Instruction changed; same calls, same answers; 1 state key differs."."""
        changed = f"{', '.join(self.changed_parts)} changed" if self.changed_parts else "same requests"
        calls = _count_differing(self.turns_with_other_calls, "calls")
        answers = _count_differing(self.turns_with_other_answers, "answers")
        keys = (
            f"; {self.keys} state {'key differs' if self.keys == 1 else 'keys differ'}" if self.keys else ""
        )
        text = f"{changed}; {calls}, {answers}{keys}."
        return text[0].upper() + text[1:]


def _count_differing(turns: int, what: str) -> str:
    return f"other {what} in {turns} {'turn' if turns == 1 else 'turns'}" if turns else f"same {what}"


@dataclass(frozen=True)
class Detail:
    """An attempt with all details.

    Attributes:
        case: the case as the evalset had it when the run was made.
        verdicts, reported: metrics that can fail the attempt, and those that only report a figure.
        session_pk: the session of the attempt; None if there is none.
        repetitions: the attempts of the same case in the run.
        checks: expected state and what the attempt left.
        moment: the first divergence and the event to open for it.
        model_usage, judge_usage: tokens and cost by model, in `currency`.
        replayed: the requests that differ from the recording, in a replay.
        tries: the tries of the attempt in other runs.
    """

    attempt: EvalAttempt
    case: Mapping[str, Any]
    verdicts: list[MetricVerdict]
    reported: list[MetricVerdict]
    turns: list[Turn]
    session_pk: int | None
    repetitions: Repetitions | None = None
    checks: list[ShownStateCheck] = field(default_factory=list)
    moment: Moment | None = None
    model_usage: list[AttemptUsage] = field(default_factory=list)
    judge_usage: list[AttemptUsage] = field(default_factory=list)
    currency: str = prices.DEFAULT_CURRENCY
    replayed: ReplayComparison | None = None
    tries: TriesInRuns | None = None

    @property
    def uncounted_calls(self) -> int:
        """Number of model calls that ADK's metric omits: those of nested agents, and those that report no usage."""
        made = sum(usage.tokens["calls"] for usage in self.model_usage)
        by_turn = next((v.of_turns for v in self.reported if v.result.metric == MODEL_CALLS), ())
        return made - round(sum(turn.result.score or 0 for turn in by_turn)) if by_turn else 0

    @property
    def replay_outcome(self) -> ReplayOutcome | None:
        """The differences from the recording; None: the attempt replays no session, or has no outcome yet."""
        attempt = self.attempt
        if attempt.run.source != "replay" or not self.replayed or attempt.status not in ("passed", "failed"):
            return None
        parts = [part for request in self.replayed.requests for part in request.changed_parts]
        return ReplayOutcome(
            list(dict.fromkeys(parts)),
            sum(turn.calls_wrong for turn in self.turns),
            sum(turn.answers_differ for turn in self.turns),
            self.checks_wrong,
        )

    @property
    def checks_wrong(self) -> int:
        """Number of state keys that are not as expected."""
        return sum(not check.matches for check in self.checks)


def detail(attempt: EvalAttempt, *, is_complete: bool = True) -> Detail:
    """Return an attempt of a run (whose version and results are read).

    Args:
        is_complete: with what lies outside the attempt: its repetitions, the stored history, the state at the
            divergence, its tries in other runs.
    """
    run = attempt.run
    case = read_attempt_case(attempt)
    results = [
        MetricVerdict(result, run_summary.result_details(result))
        for result in sorted(attempt.results.all(), key=lambda result: result.position)
    ]
    overall = [_overall_verdict(verdict, results) for verdict in results if verdict.result.invocation is None]
    criteria = json.loads(run.config).get("criteria") or {}
    session_pk = run_summary.attempt_sessions([attempt]).get(attempt.pk)
    actual = json.loads(attempt.actual)
    trajectory = next((verdict for verdict in overall if verdict.result.metric == TRAJECTORY), None)
    pairing = _Turns(
        criteria.get(TRAJECTORY),
        read_call_seqs(session_pk),
        results,
        find_traces(session_pk),
        trajectory.details if trajectory else {},
    )
    turns = pairing.pair(case.get("conversation") or [], actual)
    table = prices.prices_from_json(json.loads(run.prices))
    priced_at = attempt.started_at or run.created_at
    return Detail(
        attempt=attempt,
        case=case,
        verdicts=[verdict for verdict in overall if verdict.result.metric not in INFORMATIONAL_METRICS],
        reported=[verdict for verdict in overall if verdict.result.metric in INFORMATIONAL_METRICS],
        turns=turns,
        session_pk=session_pk,
        repetitions=repetitions.read_case_repetitions(run, attempt.case_index) if is_complete else None,
        checks=[check for verdict in overall for check in _state_checks(verdict)],
        moment=_first_divergence(turns, actual, session_pk) if is_complete else None,
        model_usage=_usage_by_model(attempt.by_model, table, priced_at),
        judge_usage=_usage_by_model(attempt.judge, table, priced_at),
        currency=table.currency,
        replayed=compare_with_recording(attempt) if is_complete else None,
        tries=retries.find_tries(attempt) if is_complete else None,
    )


def _overall_verdict(verdict: MetricVerdict, results: Sequence[MetricVerdict]) -> MetricVerdict:
    """Return the verdict on a whole attempt with those on its turns."""
    metric = verdict.result.metric
    of_turns = [
        result
        for result in results
        if result.result.metric == metric and result.result.invocation is not None
    ]
    return replace(verdict, of_turns=of_turns)


def _usage_by_model(by_model: str, table: prices.Prices, priced_at: float) -> list[AttemptUsage]:
    return [
        AttemptUsage(model, tokens, table.cost({model: tokens}, priced_at))
        for model, tokens in json.loads(by_model).items()
    ]


def _state_checks(verdict: MetricVerdict) -> list[ShownStateCheck]:
    return [
        ShownStateCheck(
            path=str(check.get("path", "")),
            turn=None if check.get("turn") is None else check["turn"] + 1,
            matches=bool(check.get("matches")),
            expected=json.dumps(check.get("expected"), ensure_ascii=False),
            actual=json.dumps(check["actual"], ensure_ascii=False) if "actual" in check else None,
        )
        for check in verdict.details.get("state") or []
    ]


def _first_divergence(
    turns: Sequence[Turn], actual: Sequence[Invocation], session_pk: int | None
) -> Moment | None:
    """Return the first divergence with its event: of a call that is missing, the last event of its turn."""
    divergence = next(((turn, pair) for turn in turns for pair in turn.calls if pair.first), None)
    if divergence is None or session_pk is None:
        return None
    turn, pair = divergence
    events = Event.objects.filter(session=session_pk)
    if seq := (pair.actual or {}).get("seq"):
        events = events.filter(seq=seq)
    else:
        events = events.filter(invocation_id=actual[turn.number - 1].get("invocation_id", ""))
    event = events.select_related("session").defer("data", "private").order_by("-seq").first()
    if event is None:
        return None
    found_state = history.state_at(event.session, event).merge_scopes()
    found_state.pop(scopes.EVALUATION_KEY, None)
    return Moment(turn.number, pair, event.seq, found_state)


@dataclass(frozen=True)
class ExpectedTurn:
    """A user message and the expected turn. `messages`: (author, text) of intermediate messages."""

    user: str
    answer: str
    calls: list[dict[str, Any]]
    messages: list[tuple[str, str]]
    rubrics: list[Mapping[str, Any]]


def expected_turns(case: Mapping[str, Any]) -> list[ExpectedTurn]:
    """Return the turns that a case expects."""
    return [
        ExpectedTurn(
            invocations.user_text(turn),
            invocations.answer_text(turn),
            invocations.tool_calls(turn),
            invocations.steps(turn),
            turn.get("rubrics") or [],
        )
        for turn in case.get("conversation") or []
    ]


def read_attempt_case(attempt: EvalAttempt) -> Mapping[str, Any]:
    """Return the case that an attempt repeats, as its evalset said it when the run was made."""
    return version_contents.version_cases(attempt.run.version)[attempt.case_index]


CallSeqs = Mapping[tuple[str, str], int]
"""Seq of the event of each tool call, by the invocation id and the call's occurrence in the invocation."""


def read_call_seqs(session_pk: int | None) -> CallSeqs:
    """Return the seq of the event of each tool call of a session."""
    if session_pk is None:
        return {}
    calls: dict[str, list[tuple[str, int]]] = defaultdict(list)
    rows = Event.objects.filter(HAS_CALLS, session=session_pk).order_by("seq")
    for seq, invocation_id, summary in rows.values_list("seq", "invocation_id", "summary"):
        calls[invocation_id] += ((call["id"], seq) for call in json.loads(summary).get("calls", []))
    return {
        (invocation_id, name): seq
        for invocation_id, invocation_calls in calls.items()
        for name, (_, seq) in zip(
            name_occurrences(call_id for call_id, _ in invocation_calls), invocation_calls, strict=True
        )
    }


def add_seqs(
    calls: Iterable[Mapping[str, Any]], turn: Mapping[str, Any], call_seqs: CallSeqs
) -> list[dict[str, Any]]:
    """Return the tool calls of an actual turn with the `seq` of their events, None if it is unknown."""
    invocation_id = turn.get("invocation_id") or ""
    return [{**call, "seq": call_seqs.get((invocation_id, call["occurrence"]))} for call in calls]


def find_traces(session_pk: int | None) -> dict[str, int]:
    """Return the trace of each invocation of a session that has one, by the invocation's id."""
    if session_pk is None:
        return {}
    return dict(Trace.objects.filter(session=session_pk).values_list("invocation_id", "pk"))


Invocation = Mapping[str, Any]


@dataclass(frozen=True)
class _Turns:
    """Pairs expected turns with actual ones, under the criterion of the tool trajectory."""

    criterion: float | Mapping[str, Any] | None
    call_seqs: CallSeqs
    results: Sequence[MetricVerdict]
    traces: Mapping[str, int]
    details: Mapping[str, Any]

    def pair(self, expected: Sequence[Invocation], actual: Sequence[Invocation]) -> list[Turn]:
        """Return the turns, as many as there are on either side. Only the first divergence of all is marked."""
        turns = [self._build_turn(index, *sides) for index, sides in enumerate(zip_longest(expected, actual))]
        diverged = False
        for turn in turns:
            if diverged:
                turn.calls[:] = [replace(pair, first=False) for pair in turn.calls]
            diverged = diverged or turn.calls_wrong
        return turns

    def _build_turn(self, index: int, expected: Invocation | None, actual: Invocation | None) -> Turn:
        expected_text, actual_text = (
            invocations.answer_text(expected or {}),
            invocations.answer_text(actual or {}),
        )
        both_answered = bool(expected_text) and actual is not None and expected_text != actual_text
        expected_pieces, actual_pieces = (
            text_diff.compare_texts(expected_text, actual_text)
            if both_answered
            else _without_marks(expected_text, actual_text)
        )
        return Turn(
            number=index + 1,
            user=invocations.user_text(expected or actual or {}),
            expected=expected_pieces,
            actual=actual_pieces,
            has_expected=bool(expected_text),
            has_actual=actual is not None,
            calls=self._pair_calls(index, expected, actual) if actual is not None else [],
            steps=invocations.steps(actual or {}),
            verdicts=[verdict for verdict in self.results if verdict.result.invocation == index],
            seconds=(actual or {}).get("duration"),
            trace=self.traces.get((actual or {}).get("invocation_id") or ""),
        )

    def _pair_calls(self, turn: int, expected: Invocation | None, actual: Invocation) -> list[CallPair]:
        expected_calls = invocations.tool_calls(expected or {})
        nested = invocations.read_turn_nested_calls(self.details, turn)
        actual_calls = add_seqs(invocations.tool_calls(actual, nested), actual, self.call_seqs)
        judged = expected is not None and (self.criterion is not None or expected_calls)
        # Where nothing is expected, no call is one too many.
        return align(
            expected_calls, actual_calls, MatchRules.of(self.criterion) if judged else MatchRules("IN_ORDER")
        )


def _without_marks(expected: str, actual: str) -> tuple[list[DiffPiece], list[DiffPiece]]:
    return [DiffPiece(expected, False)], [DiffPiece(actual, False)]
