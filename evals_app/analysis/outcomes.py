"""Outcomes of a case in one run, and in all earlier runs that it can be tested against. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evals_app.analysis.change_tests import OutcomeTable, probability_of_change

RATE_CHANGE_LEVEL = 0.01
"""Two parts of the history differ visibly if Fisher's exact test is at most this probable."""


class CaseKey(NamedTuple):
    """Identity of a case in all versions of its file: its id and its position among cases with this id (from 1)."""

    id: str
    number: int = 1

    @property
    def label(self) -> str:
        """The id, with a number if an earlier case has the same id."""
        return f"{self.id} ({self.number})" if self.number > 1 else self.id


@dataclass(frozen=True)
class Sameness:
    """Everything that two outcomes must share to be repetitions of each other: code, models, data and judges."""

    code: str
    models: str
    data: str
    judged_by: str


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a case in one run.

    Tokens, seconds and cost are means of its repetitions; None is unknown. `attempt` is the attempt to open, the worst.
    `unavailable` counts the attempts that a model, a judge or the database lost; they are part of `unjudged`.
    """

    same: Sameness
    passed: int = 0
    failed: int = 0
    unjudged: int = 0
    unavailable: int = 0
    attempt: int | None = None
    session: int | None = None
    tokens: float | None = None
    seconds: float | None = None
    cost: float | None = None

    @property
    def outcome_count(self) -> int:
        """Number of repetitions with an outcome."""
        return self.passed + self.failed

    @property
    def ran(self) -> bool:
        """Tell whether the run had it run at all: a run may choose among the cases."""
        return bool(self.outcome_count or self.unjudged)

    @property
    def rate(self) -> float:
        """Share of the outcomes that passed; ask only where there are outcomes."""
        return self.passed / self.outcome_count


@dataclass(frozen=True)
class Past:
    """Stored outcomes of a case that are repetitions of each other, by a number of runs."""

    same: Sameness
    passed: int
    failed: int
    runs: int = 1

    @property
    def varies(self) -> bool:
        """Tell whether the same thing came to different outcomes."""
        return bool(self.passed and self.failed)


@dataclass(frozen=True)
class Earlier:
    """Outcomes that a case is tested against. `history_…` are those without the baseline, of `runs` runs."""

    passed: int
    total: int
    history_passed: int = 0
    history_total: int = 0
    runs: int = 0

    @property
    def rate(self) -> float:
        """Share that passed."""
        return self.passed / self.total

    @property
    def source(self) -> str:
        """The runs that the outcomes are from, in words."""
        if not self.runs:
            return "baseline"
        return f"baseline and {self.runs} earlier run{'s' * (self.runs > 1)}"

    def compare_with(self, now: Outcomes) -> OutcomeTable:
        """Return the table of outcomes now against all earlier ones."""
        return OutcomeTable(now.passed, now.outcome_count, self.passed, self.total)

    def confirm_with(self, fresh: Outcomes) -> OutcomeTable:
        """Return the table of fresh outcomes against the history, which did not raise the suspicion."""
        return OutcomeTable(fresh.passed, fresh.outcome_count, self.history_passed, self.history_total)


def pool_earlier(before: Outcomes, after: Outcomes, history: Sequence[Past]) -> Earlier:
    """Return the outcomes that a case is tested against: the baseline's and those of earlier runs.

    Args:
        before: the baseline's outcomes.
        after: the outcomes of the run that is judged; what its own code and models came to is not earlier.
        history: stored outcomes on the same data and by the same judges, the newest first.

    Runs of the baseline's code and models always count, runs of other code with the baseline's models back to the
    point where the pass rate visibly changed: what a case did before it was repaired says nothing of the baseline.
    """
    same = [past for past in history if past.same == before.same]
    others = [
        past
        for past in history
        if past.same.models == before.same.models and past.same not in (before.same, after.same)
    ]
    counted = same + others[: _count_since_change(before, same, others)]
    passed = sum(past.passed for past in counted)
    total = passed + sum(past.failed for past in counted)
    return Earlier(
        before.passed + passed,
        before.outcome_count + total,
        passed,
        total,
        sum(past.runs for past in counted),
    )


def _count_since_change(before: Outcomes, same: Sequence[Past], others: Sequence[Past]) -> int:
    """Return how many versions lie since the clearest change of the pass rate; all of them without one."""
    passes = [before.passed + sum(past.passed for past in same), *(past.passed for past in others)]
    fails = [before.failed + sum(past.failed for past in same), *(past.failed for past in others)]
    least, count = RATE_CHANGE_LEVEL, len(others)
    for place in range(1, len(passes)):
        newer, older = sum(passes[:place]), sum(passes[place:])
        table = OutcomeTable(newer, newer + sum(fails[:place]), older, older + sum(fails[place:]))
        if (probability := probability_of_change(table)) <= least:
            least, count = probability, place - 1
    return count
