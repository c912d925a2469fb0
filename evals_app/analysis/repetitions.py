"""Repetitions of one case: in one run, in the stored history, and against the baseline. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals_app.analysis import baselines, statistics
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.outcomes import CaseKey, Past
from evals_app.analysis.run_summary import Column, columns_of
from evals_app.analysis.statistics import Rate, Spread
from evals_app.models import RETRY, EvalAttempt, EvalRun, MetricResult
from evals_app.runs.attempt_status import has_outcome

Status = EvalAttempt.Status


@dataclass(frozen=True)
class Scores:
    """Spread of one metric's scores over the repetitions."""

    metric: Column
    spread: Spread


@dataclass(frozen=True)
class Repetitions:
    """One case over its repetitions.

    Attributes:
        attempts: those of the run, in order.
        reliable: (k, pass^k): the chance that k repetitions all pass.
        past: stored outcomes, on the same data and by the same judges, one for each code and models they ran with.
        change: what became of the case since the baseline; None without one.
    """

    attempts: list[EvalAttempt]
    rate: Rate
    reliable: list[tuple[int, float]]
    scores: list[Scores]
    past: list[Past]
    baseline: EvalRun | None = None
    change: CaseChange | None = None

    @property
    def past_count(self) -> int:
        """Number of stored outcomes of the case."""
        return sum(past.passed + past.failed for past in self.past)

    @property
    def flaky(self) -> list[Past]:
        """The stored outcomes that differ although code, data and models were the same."""
        return [past for past in self.past if past.varies]


def of_case(run: EvalRun, case_index: int) -> Repetitions:
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
    case = baselines.cases_of(run.version)[case_index]
    same = baselines.sameness_of(run, case.digest)
    then = baselines.baseline_of(run)
    return Repetitions(
        attempts=attempts,
        rate=Rate(passed, judged),
        reliable=[(k, chance) for k, chance in chances if chance is not None],
        scores=scores_of(run, attempts),
        past=baselines.history(run, {case.key: same}).get(case.key, []),
        baseline=then,
        change=_change(then, run, case.key) if then else None,
    )


def _change(then: EvalRun, now: EvalRun, key: CaseKey) -> CaseChange | None:
    comparison = baselines.compare_runs(then, now)
    return next((case for case in comparison.cases if case.key == key), None)


def scores_of(run: EvalRun, attempts: Sequence[EvalAttempt]) -> list[Scores]:
    """Return the spread of each metric's scores over attempts of one case. One query."""
    rows = MetricResult.objects.filter(attempt__in=[attempt.pk for attempt in attempts], invocation=None)
    by_metric: dict[str, list[float]] = {}
    for metric, score in rows.values_list("metric", "score"):
        if score is not None:
            by_metric.setdefault(metric, []).append(score)
    spreads = [(column, statistics.spread(by_metric.get(column.name, ()))) for column in columns_of(run)]
    return [Scores(column, spread) for column, spread in spreads if spread]
