"""One case in two runs, side by side: scores, answers, tool calls and state. Read-only.

An attempt of each run is shown, the worst unless others are chosen; scores are those of all repetitions. The number of
queries does not depend on the numbers of repetitions, turns and calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple, Self

from evals_app.analysis import attempt_detail, repetitions
from evals_app.analysis.attempt_detail import ExpectedTurn
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.comparability import read_cases
from evals_app.analysis.outcomes import CaseKey, Outcomes
from evals_app.analysis.repetitions import Scores
from evals_app.analysis.run_summary import MetricColumn
from evals_app.cases import version_contents
from evals_app.metrics import invocations
from evals_app.metrics.alignment import CallPair, align
from evals_app.models import EvalAttempt, EvalRun
from sessions_app.branches import session_comparison
from sessions_app.branches.session_comparison import KeyPair
from sessions_app.presentation import text_diff, value_diff
from sessions_app.presentation.text_diff import DiffPiece
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.store import scopes
from sessions_app.store.redaction import Redact, no_redaction

MAX_KEYS = 50
"""State keys that are shown of those that differ."""

Invocation = Mapping[str, Any]


class ChosenAttempts(NamedTuple):
    """Ids of the attempts to show; empty: the worst of the run."""

    before: str = ""
    after: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Self:
        """Read `before` and `after` of a query string."""
        return cls(query.get("before", ""), query.get("after", ""))


@dataclass(frozen=True)
class Side:
    """A case in one run: its attempts, the one that is shown, and the expected turns."""

    run: EvalRun
    attempts: list[EvalAttempt]
    attempt: EvalAttempt
    expected: list[ExpectedTurn]


@dataclass(frozen=True)
class ScorePair:
    """Scores of one metric over the repetitions of each run. None: the run has none."""

    metric: MetricColumn
    before: Scores | None
    after: Scores | None

    @property
    def difference(self) -> float | None:
        """Mean after minus mean before; None if a run has no score."""
        return self.after.spread.mean - self.before.spread.mean if self.before and self.after else None


@dataclass(frozen=True)
class TurnSide:
    """A turn of one attempt. `trace` is the primary key of its trace."""

    user: str
    answer: list[DiffPiece]
    seconds: float | None
    trace: int | None

    @property
    def has_answer(self) -> bool:
        """Tell whether the agent answered with text."""
        return any(piece.text for piece in self.answer)


@dataclass(frozen=True)
class CaseTurnPair:
    """A turn of both attempts. None: the attempt did not reach it. `expected` is the expected answer."""

    number: int
    expected: str
    before: TurnSide | None
    after: TurnSide | None
    calls: list[CallPair]

    @property
    def has_other_message(self) -> bool:
        """Tell whether the user's messages differ: a simulated user answers what the agent said."""
        return self.before is not None and self.after is not None and self.before.user != self.after.user

    @property
    def user(self) -> str:
        """The user's message, of the attempt before if they differ."""
        side = self.before or self.after
        return side.user if side else ""

    @property
    def is_same(self) -> bool:
        """Tell whether both attempts gave the same answer."""
        sides = [side.answer for side in (self.before, self.after) if side]
        return len(sides) == 2 and sides[0] == sides[1]


@dataclass(frozen=True)
class StateKey:
    """A state key that differs at the end. Values are JSON without credentials; None: the key does not exist."""

    scope: str
    name: str
    before: str | None
    after: str | None
    lines: list[DiffLine]


@dataclass(frozen=True)
class StateChanges:
    """Differing state keys of two attempts. `more` counts those that are not shown, `same` the equal ones."""

    keys: list[StateKey]
    more: int
    same: int


@dataclass(frozen=True)
class SideBySide:
    """A case in both runs. A side is None if the run did not execute the case.

    `state` is None if the session of an attempt is not stored.
    """

    case: CaseChange
    before: Side | None
    after: Side | None
    scores: list[ScorePair]
    turns: list[CaseTurnPair]
    state: StateChanges | None


def read_case(
    baseline_run: EvalRun,
    run: EvalRun,
    case: CaseChange,
    chosen: ChosenAttempts | None = None,
    *,
    redact: Redact = no_redaction,
) -> SideBySide:
    """Return a case of the comparison of two runs (whose versions are read).

    Args:
        chosen: the attempts to show. An attempt of another case is ignored.
        redact: applied to what the agents did and to state values, before they are compared.
    """
    chosen = chosen or ChosenAttempts()
    before = _read_side(baseline_run, case.key, case.before, chosen.before)
    after = _read_side(run, case.key, case.after, chosen.after)
    return SideBySide(
        case,
        before,
        after,
        _pair_scores(before, after),
        list(_pair_turns(before, after, redact)),
        _compare_states(before, after, redact),
    )


def _read_side(run: EvalRun, key: CaseKey, outcomes: Outcomes | None, chosen: str) -> Side | None:
    index = next((position for position, case in enumerate(read_cases(run.version)) if case.key == key), -1)
    rows = run.attempts.select_related("session").filter(case_index=index).order_by("repetition")
    attempts = list(rows.defer("traceback", "differences"))
    if not attempts:
        return None
    by_id = {str(attempt.pk): attempt for attempt in attempts}
    worst = by_id.get(str(outcomes.attempt)) if outcomes else None
    expected = attempt_detail.expected_turns(version_contents.version_cases(run.version)[index])
    return Side(run, attempts, by_id.get(chosen) or worst or attempts[0], expected)


def _pair_scores(before: Side | None, after: Side | None) -> list[ScorePair]:
    old, new = (
        {scores.metric.name: scores for scores in repetitions.read_score_spreads(side.run, side.attempts)}
        if side
        else {}
        for side in (before, after)
    )
    metrics = {name: scores.metric for name, scores in (old | new).items()}
    return [ScorePair(metric, old.get(name), new.get(name)) for name, metric in metrics.items()]


@dataclass(frozen=True)
class _Actual:
    """The turns of an attempt, with what its session knows of them."""

    turns: list[Invocation]
    call_seqs: attempt_detail.CallSeqs
    traces: Mapping[str, int]

    @classmethod
    def of(cls, side: Side | None, redact: Redact) -> _Actual:
        if side is None:
            return cls([], {}, {})
        session_pk = side.attempt.session_id
        return cls(
            redact(json.loads(side.attempt.actual)),
            attempt_detail.read_call_seqs(session_pk),
            attempt_detail.find_traces(session_pk),
        )

    def calls(self, turn: Invocation | None) -> list[dict[str, Any]]:
        return attempt_detail.add_seqs(invocations.tool_calls(turn or {}), turn or {}, self.call_seqs)

    def turn(self, turn: Invocation | None, answer: list[DiffPiece]) -> TurnSide | None:
        if turn is None:
            return None
        return TurnSide(
            invocations.user_text(turn),
            answer,
            turn.get("duration"),
            self.traces.get(turn.get("invocation_id") or ""),
        )


def _pair_turns(before: Side | None, after: Side | None, redact: Redact) -> Iterator[CaseTurnPair]:
    old, new = _Actual.of(before, redact), _Actual.of(after, redact)
    current = after or before
    expected = current.expected if current else []
    for number, sides in enumerate(zip_longest(old.turns, new.turns), start=1):
        texts = [invocations.answer_text(turn or {}) for turn in sides]
        if None in sides or texts[0] == texts[1]:
            pieces = ([DiffPiece(texts[0], False)], [DiffPiece(texts[1], False)])
        else:
            pieces = text_diff.compare_texts(*texts)
        yield CaseTurnPair(
            number,
            expected[number - 1].answer if number <= len(expected) else "",
            old.turn(sides[0], pieces[0]),
            new.turn(sides[1], pieces[1]),
            align(old.calls(sides[0]), new.calls(sides[1])),
        )


def _compare_states(before: Side | None, after: Side | None, redact: Redact) -> StateChanges | None:
    sessions = [side.attempt.session for side in (before, after) if side]
    if len(sessions) < 2 or sessions[0] is None or sessions[1] is None:
        return None
    difference = session_comparison.state_difference(sessions[0], sessions[1])
    keys = [pair for pair in difference.keys if pair.key != scopes.EVALUATION_KEY]
    return StateChanges(
        [_state_key(pair, redact) for pair in keys[:MAX_KEYS]], max(0, len(keys) - MAX_KEYS), difference.same
    )


def _state_key(pair: KeyPair, redact: Redact) -> StateKey:
    before, after = (
        scopes.dumps(redact({pair.name: json.loads(value.public)})[pair.name]) if value else None
        for value in (pair.left, pair.right)
    )
    lines = [] if value_diff.is_brief(before, after) else value_diff.diff_lines(before, after)
    return StateKey(pair.scope, pair.name, before, after, lines)
