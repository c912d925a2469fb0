"""Outcomes of a case in one run, and in all earlier runs that it can be tested against. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from evals_app.analysis.change_tests import OutcomeTable
from evals_app.analysis.dependence import OutcomeCounts, cut_at_change, effective_counts, find_run_change

MIN_COVERAGE = 0.8
"""Share of the compared cases that an earlier run must have to say how much runs vary."""


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
    `unavailable` counts the attempts that a model, a judge or the database lost; they are part of `unjudged`. `run` is
    the run's id. `incomparable` says why the outcomes cannot be compared with those of the run before; "": they can.
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
    run: str = ""
    incomparable: str = ""

    @property
    def counts(self) -> OutcomeCounts:
        """The outcomes as numbers."""
        return OutcomeCounts(self.passed, self.outcome_count)

    @property
    def outcome_count(self) -> int:
        """Number of repetitions with an outcome."""
        return self.passed + self.failed

    @property
    def ran(self) -> bool:
        """Tell whether the run executed the case: a run may choose among the cases."""
        return bool(self.outcome_count or self.unjudged)

    @property
    def rate(self) -> float:
        """Share of the outcomes that passed; ask only where there are outcomes."""
        return self.passed / self.outcome_count


@dataclass(frozen=True)
class PastRun:
    """Outcomes of a case in one earlier run. `run` is the run's id."""

    same: Sameness
    passed: int
    failed: int
    run: str = ""

    @property
    def counts(self) -> OutcomeCounts:
        """The outcomes as numbers."""
        return OutcomeCounts(self.passed, self.passed + self.failed)


@dataclass(frozen=True)
class EarlierOutcomes:
    """Outcomes that a case is tested against, run by run, the newest first. The first run is the baseline.

    `correlation` is that of repetitions of one run (`dependence`): with it, outcomes count as fewer independent ones.
    """

    by_run: Sequence[OutcomeCounts]
    run_ids: Sequence[str]
    correlation: float = 0.0

    @property
    def passed(self) -> int:
        """Passes in all runs."""
        return sum(counts.passed for counts in self.by_run)

    @property
    def total(self) -> int:
        """Outcomes in all runs."""
        return sum(counts.total for counts in self.by_run)

    @property
    def history_passed(self) -> int:
        """Passes in the runs other than the baseline."""
        return self.passed - self.by_run[0].passed

    @property
    def history_total(self) -> int:
        """Outcomes in the runs other than the baseline."""
        return self.total - self.by_run[0].total

    @property
    def runs(self) -> int:
        """Number of runs other than the baseline."""
        return len(self.by_run) - 1

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

    @property
    def effective(self) -> OutcomeCounts:
        """The outcomes as independent ones."""
        return effective_counts(self.by_run, self.correlation)

    def compare_with(self, counts: OutcomeCounts) -> OutcomeTable:
        """Return the table of outcomes now against all earlier ones."""
        return self._build_table(counts, self.by_run)

    def confirm_with(self, counts: OutcomeCounts) -> OutcomeTable:
        """Return the table of fresh outcomes against the history, which did not raise the suspicion."""
        return self._build_table(counts, self.by_run[1:])

    def _build_table(self, counts: OutcomeCounts, by_run: Sequence[OutcomeCounts]) -> OutcomeTable:
        return OutcomeTable(
            *effective_counts([counts], self.correlation), *effective_counts(by_run, self.correlation)
        )


def collect_earlier(before: Outcomes, history: Sequence[PastRun]) -> EarlierOutcomes:
    """Return the outcomes of a case in the baseline and in earlier runs with its models, the newest first."""
    runs = [past for past in history if past.same.models == before.same.models]
    return EarlierOutcomes(
        [before.counts, *(past.counts for past in runs)], [before.run, *(past.run for past in runs)]
    )


def keep_since_change(earlier: EarlierOutcomes, correlation: float) -> EarlierOutcomes:
    """Return the outcomes of the runs since the pass rate visibly changed: what came before a repair says nothing."""
    count = cut_at_change(earlier.by_run, correlation)
    return EarlierOutcomes(earlier.by_run[:count], earlier.run_ids[:count], correlation)


def measure_deviations(all_earlier: Sequence[EarlierOutcomes]) -> dict[str, float]:
    """Return by how much each earlier run differs on the mean from the rates of its cases (−1 … 1), the newest first.

    Runs that have less than `MIN_COVERAGE` of the cases are left out.
    """
    differences: dict[str, list[float]] = defaultdict(list)
    positions: dict[str, list[int]] = defaultdict(list)
    for earlier in all_earlier:
        rate = earlier.rate  # summed over all runs
        for position, (run, counts) in enumerate(zip(earlier.run_ids, earlier.by_run, strict=True)):
            differences[run].append(counts.passed / counts.total - rate)
            positions[run].append(position)
    least = MIN_COVERAGE * len(all_earlier)
    covering = [run for run, values in differences.items() if len(values) >= least]
    covering.sort(key=lambda run: fmean(positions[run]))
    return {run: fmean(differences[run]) for run in covering}


def split_at_run_change(
    all_earlier: Sequence[EarlierOutcomes],
) -> list[tuple[EarlierOutcomes, EarlierOutcomes]]:
    """Return of each case the outcomes since whole runs visibly changed, and those before that."""
    deviations = measure_deviations(all_earlier)
    count = find_run_change(list(deviations.values()), _chance_deviation(all_earlier))
    older_runs = set(list(deviations)[count:])
    return [_split_at_older_runs(earlier, older_runs) for earlier in all_earlier]


def _chance_deviation(all_earlier: Sequence[EarlierOutcomes]) -> float:
    """Return the standard deviation of the mean of a run over its cases that chance alone explains."""
    variances = [
        earlier.rate * (1 - earlier.rate) * len(earlier.by_run) / earlier.total for earlier in all_earlier
    ]
    return math.sqrt(math.fsum(variances)) / len(variances) if variances else 0.0


def _split_at_older_runs(
    earlier: EarlierOutcomes, older_runs: Collection[str]
) -> tuple[EarlierOutcomes, EarlierOutcomes]:
    """Return the outcomes of a case in the runs that are newer than the first of the older runs, and in the others."""
    first_older = (index for index, run in enumerate(earlier.run_ids) if index and run in older_runs)
    count = next(first_older, len(earlier.run_ids))
    return (
        EarlierOutcomes(earlier.by_run[:count], earlier.run_ids[:count]),
        EarlierOutcomes(earlier.by_run[count:], earlier.run_ids[count:]),
    )
