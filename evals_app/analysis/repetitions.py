"""Repetitions of one case: in one run, in the stored history, and against the baseline. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals_app.analysis import baselines, statistics
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.comparability import read_cases
from evals_app.analysis.dependence import OutcomeCounts, cut_at_change
from evals_app.analysis.outcomes import CaseKey, PastRun, Sameness
from evals_app.analysis.run_summary import MetricColumn, metric_columns
from evals_app.analysis.statistics import Rate, Spread
from evals_app.models import RETRY, EvalAttempt, EvalRun, MetricResult
from evals_app.runs.attempt_status import has_outcome

Status = EvalAttempt.Status


@dataclass(frozen=True)
class Scores:
    """Spread of one metric's scores over the repetitions."""

    metric: MetricColumn
    spread: Spread


@dataclass(frozen=True)
class VersionOutcomes:
    """Stored outcomes of a case with the same code and models, by run, the newest first.

    `since_change` is the number of the newest runs since its pass rate visibly changed; all of them if it did not.
    """

    by_run: Sequence[OutcomeCounts]
    since_change: int

    @property
    def newest(self) -> OutcomeCounts:
        """Outcomes since the pass rate changed."""
        return _sum_counts(self.by_run[: self.since_change])

    @property
    def older(self) -> OutcomeCounts:
        """Outcomes before the pass rate changed."""
        return _sum_counts(self.by_run[self.since_change :])

    @property
    def mixed(self) -> OutcomeCounts:
        """Different outcomes to which the case came while its pass rate stayed; none if it did not."""
        mixed = (counts for counts in (self.newest, self.older) if 0 < counts.passed < counts.total)
        return next(mixed, OutcomeCounts(0, 0))


def _sum_counts(by_run: Sequence[OutcomeCounts]) -> OutcomeCounts:
    return OutcomeCounts(sum(counts.passed for counts in by_run), sum(counts.total for counts in by_run))


@dataclass(frozen=True)
class Repetitions:
    """One case over its repetitions.

    Attributes:
        attempts: those of the run, in order.
        reliable: (k, pass^k): the chance that k repetitions all pass.
        past: stored outcomes, on the same data and by the same judges, by the code and models they ran with.
        change: what became of the case since the baseline; None without one.
    """

    attempts: list[EvalAttempt]
    rate: Rate
    reliable: list[tuple[int, float]]
    scores: list[Scores]
    past: list[VersionOutcomes]
    baseline: EvalRun | None = None
    change: CaseChange | None = None

    @property
    def past_count(self) -> int:
        """Number of stored outcomes of the case."""
        return sum(past.newest.total + past.older.total for past in self.past)

    @property
    def flaky(self) -> list[VersionOutcomes]:
        """The stored outcomes that differ although code, data, models and pass rate were the same."""
        return [past for past in self.past if past.mixed.total]

    @property
    def changed(self) -> list[VersionOutcomes]:
        """The stored outcomes whose pass rate visibly changed although code, data and models were the same."""
        return [past for past in self.past if past.older.total]


def read_case_repetitions(run: EvalRun, case_index: int) -> Repetitions:
    """Return the repetitions of a case of a run (whose version and evalset are read).

    A retry has no rate: its attempts were chosen because they did not pass.
    """
    fields = (
        "id",
        "run_id",
        "case_index",
        "case_id",
        "repetition",
        "status",
        "error_type",
        "started_at",
        "finished_at",
    )
    attempts = list(run.attempts.filter(case_index=case_index).only(*fields).order_by("repetition"))
    passed = sum(attempt.status == Status.PASSED for attempt in attempts)
    judged = sum(has_outcome(attempt.status, attempt.error_type) for attempt in attempts)
    if run.source == RETRY:
        passed = judged = 0
    chances = [(k, statistics.pass_hat_k(passed, judged, k)) for k in range(1, judged + 1)]
    case = read_cases(run.version)[case_index]
    baseline_run = baselines.find_marked_run(run)
    return Repetitions(
        attempts=attempts,
        rate=Rate(passed, judged),
        reliable=[(k, chance) for k, chance in chances if chance is not None],
        scores=read_score_spreads(run, attempts),
        past=_group_by_version(baselines.read_past_outcomes(run, case)),
        baseline=baseline_run,
        change=_find_change(baseline_run, run, case.key) if baseline_run else None,
    )


def _group_by_version(past_runs: Sequence[PastRun]) -> list[VersionOutcomes]:
    by_version: dict[Sameness, list[OutcomeCounts]] = {}
    for past in past_runs:
        by_version.setdefault(past.same, []).append(past.counts)
    return [VersionOutcomes(by_run, cut_at_change(by_run, 0.0)) for by_run in by_version.values()]


def _find_change(baseline_run: EvalRun, run: EvalRun, key: CaseKey) -> CaseChange | None:
    comparison = baselines.compare_runs(baseline_run, run)
    return next((case for case in comparison.cases if case.key == key), None)


def read_score_spreads(run: EvalRun, attempts: Sequence[EvalAttempt]) -> list[Scores]:
    """Return the spread of each metric's scores over attempts of one case. One query."""
    rows = MetricResult.objects.filter(attempt__in=[attempt.pk for attempt in attempts], invocation=None)
    by_metric: dict[str, list[float]] = {}
    for metric, score in rows.values_list("metric", "score"):
        if score is not None:
            by_metric.setdefault(metric, []).append(score)
    spreads = [(column, statistics.spread(by_metric.get(column.name, ()))) for column in metric_columns(run)]
    return [Scores(column, spread) for column, spread in spreads if spread]
