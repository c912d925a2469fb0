"""Stored outcomes of runs by case: of one run in detail, of earlier runs in numbers. Read-only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from django.db.models import Count, Q

from evals_app.analysis.comparability import (
    Basis,
    StoredScore,
    find_basis,
    judge_again,
    read_cases,
    read_judging,
    read_sameness,
)
from evals_app.analysis.dependence import OutcomeCounts
from evals_app.analysis.outcomes import CaseKey, Outcomes, PastRun, Sameness
from evals_app.analysis.statistics import mean_if_known
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs.attempt_status import HAS_OUTCOME, NO_OUTCOME_TYPES, has_outcome

Status = EvalAttempt.Status

_COLUMNS = (
    *("id", "run_id", "case_index", "status", "error_type", "session_id", "total_tokens"),
    *("cost", "started_at", "finished_at", "waited_seconds"),
)
"""Columns of an attempt that are read; a run may have thousands of attempts."""


def read_outcomes(run: EvalRun, judged_like: EvalRun | None = None) -> dict[CaseKey, Outcomes]:
    """Return the outcomes of each case of a run's version; those that it did not run are there without one.

    Args:
        judged_like: a later run by whose metrics and thresholds the attempts are judged, as far as both have them.
            None, or a run that cannot judge them: as they were judged.
    """
    rows: dict[int, list[EvalAttempt]] = defaultdict(list)
    for row in run.attempts.order_by("case_index", "repetition").only(*_COLUMNS):
        rows[row.case_index].append(row)
    basis = find_other_basis(run, judged_like) if judged_like else None
    scores = _read_scores([run.pk]) if basis else {}
    judged_by = read_judging(judged_like.config).digest if basis and judged_like else None
    outcomes = {}
    for index, case in enumerate(read_cases(run.version)):
        same = read_sameness(run, case.digest)
        if judged_by:
            same = replace(same, judged_by=judged_by)
        verdicts = [_judge_attempt(attempt, scores.get(attempt.pk, {}), basis) for attempt in rows[index]]
        outcomes[case.key] = _summarize_attempts(run.pk, same, rows[index], verdicts)
    return outcomes


def find_other_basis(earlier: EvalRun, later: EvalRun) -> Basis | None:
    """Return the basis on which an earlier run is judged like a later one; None if both judge alike, or it has none."""
    judging, later_judging = read_judging(earlier.config), read_judging(later.config)
    return None if judging == later_judging else find_basis(judging, later_judging)


def _judge_attempt(
    attempt: EvalAttempt, scores: Mapping[str, StoredScore], basis: Basis | None
) -> bool | None:
    """Tell whether an attempt passed, on a basis or as it was judged; None if it has no outcome."""
    if basis is not None:
        return judge_again(attempt.status, attempt.error_type, scores, basis)
    if not has_outcome(attempt.status, attempt.error_type):
        return None
    return attempt.status == Status.PASSED


def _read_scores(run_ids: Collection[str]) -> dict[int, dict[str, StoredScore]]:
    """Return the overall scores of the attempts of runs, by attempt and metric."""
    rows = MetricResult.objects.filter(attempt__run__in=run_ids, invocation=None)
    scores: dict[int, dict[str, StoredScore]] = defaultdict(dict)
    for attempt, metric, score, threshold, status in rows.values_list(
        "attempt_id", "metric", "score", "threshold", "status"
    ):
        scores[attempt][metric] = StoredScore(score, threshold, status)
    return scores


def _summarize_attempts(
    run_id: str, same: Sameness, attempts: Sequence[EvalAttempt], verdicts: Sequence[bool | None]
) -> Outcomes:
    judged = [
        (attempt, verdict) for attempt, verdict in zip(attempts, verdicts, strict=True) if verdict is not None
    ]
    passed = [attempt for attempt, verdict in judged if verdict]
    failed = [attempt for attempt, verdict in judged if not verdict]
    attempt_to_open = next(iter(failed or passed or attempts), None)
    return Outcomes(
        same=same,
        passed=len(passed),
        failed=len(failed),
        unjudged=len(attempts) - len(judged),
        unavailable=sum(attempt.error_type in NO_OUTCOME_TYPES for attempt in attempts),
        attempt=attempt_to_open.pk if attempt_to_open else None,
        session=attempt_to_open.session_id if attempt_to_open else None,
        tokens=mean_if_known(attempt.total_tokens or None for attempt, _ in judged),
        seconds=mean_if_known(attempt.active_seconds for attempt, _ in judged),
        cost=mean_if_known(attempt.cost if attempt.total_tokens else None for attempt, _ in judged),
        run=run_id,
    )


def find_added_metric_failures(run: EvalRun, basis: Basis) -> dict[CaseKey, str]:
    """Return the cases of which an attempt fails only by a metric that an earlier run did not have, with the metric.

    Args:
        basis: the metrics that the earlier run has, too.
    """
    scores = _read_scores([run.pk])
    cases = read_cases(run.version)
    added: dict[CaseKey, str] = {}
    for attempt in (
        run.attempts.filter(status=Status.FAILED).order_by("case_index", "repetition").only(*_COLUMNS)
    ):
        attempt_scores = scores.get(attempt.pk, {})
        if judge_again(attempt.status, attempt.error_type, attempt_scores, basis):
            failing = (
                metric
                for metric, stored in attempt_scores.items()
                if metric not in basis and stored.status == MetricResult.Status.FAILED
            )
            added.setdefault(cases[attempt.case_index].key, next(failing, "another metric"))
    return added


class CaseNumbers(NamedTuple):
    """Outcomes of a case in a run, attempts that models, judges or the database lost, and all attempts."""

    counts: OutcomeCounts = OutcomeCounts(0, 0)
    lost: int = 0
    attempts: int = 0


class EarlierRuns:
    """Earlier runs of an evalset, and the numbers of outcomes of their cases as a later run judges."""

    def __init__(self, runs: Sequence[EvalRun], later: EvalRun) -> None:
        """Take the runs, the newest first, with their versions."""
        self.runs = runs
        self._later = later
        self._judging = read_judging(later.config)

    def count_outcomes(
        self, run: EvalRun, key: CaseKey, data: str, basis: Basis | None = None
    ) -> OutcomeCounts | None:
        """Return passes and outcomes of a case in one of the runs; None without any, or if it cannot be compared.

        Args:
            data: digest of the case in the later run.
            basis: metrics that are compared; None: all of the later run.
        """
        index = self._case_positions[run.pk].get((key, data))
        if index is None:
            return None
        counts = self._count_by_basis(run, index, basis)
        return counts if counts.total else None

    def is_lossy(self, run: EvalRun, largest_share: float) -> bool:
        """Tell whether a run lost more than a share of its attempts to models, judges or the database."""
        numbers = [numbers for (run_id, _), numbers in self._numbers_by_case.items() if run_id == run.pk]
        lost = sum(number.lost for number in numbers)
        return lost > largest_share * sum(number.attempts for number in numbers)

    def _count_by_basis(self, run: EvalRun, index: int, basis: Basis | None) -> OutcomeCounts:
        judging = read_judging(run.config)
        if basis is None and judging == self._judging:
            return self._numbers_by_case.get((run.pk, index), CaseNumbers()).counts
        common_metrics = find_basis(judging, self._judging) or {}
        wanted = self._judging.thresholds if basis is None else basis
        if not common_metrics or not wanted.keys() <= common_metrics.keys():
            return OutcomeCounts(0, 0)
        verdicts = [
            judge_again(status, error_type, self._scores_by_attempt.get(attempt, {}), wanted)
            for attempt, status, error_type in self._attempts_by_case.get((run.pk, index), ())
        ]
        return OutcomeCounts(verdicts.count(True), verdicts.count(True) + verdicts.count(False))

    @cached_property
    def _case_positions(self) -> dict[str, dict[tuple[CaseKey, str], int]]:
        """Positions of cases, by run, then by key and digest."""
        return {
            run.pk: {(case.key, case.digest): index for index, case in enumerate(read_cases(run.version))}
            for run in self.runs
        }

    @cached_property
    def _numbers_by_case(self) -> dict[tuple[str, int], CaseNumbers]:
        """Outcomes as they were judged, attempts and losses, by run and position of the case."""
        attempts = EvalAttempt.objects.filter(run__in=[run.pk for run in self.runs])
        counted = attempts.values_list("run_id", "case_index").annotate(
            passed=Count("pk", filter=Q(status=Status.PASSED)),
            judged=Count("pk", filter=HAS_OUTCOME),
            lost=Count("pk", filter=Q(error_type__in=NO_OUTCOME_TYPES)),
            total=Count("pk"),
        )
        return {
            (run, index): CaseNumbers(OutcomeCounts(passed, judged), lost, total)
            for run, index, passed, judged, lost, total in counted
        }

    @cached_property
    def _attempts_by_case(self) -> dict[tuple[str, int], list[tuple[int, str, str]]]:
        """Keys, statuses and error types of attempts, by run and position of the case."""
        attempts: dict[tuple[str, int], list[tuple[int, str, str]]] = defaultdict(list)
        rows = EvalAttempt.objects.filter(run__in=[run.pk for run in self.runs])
        columns = ("run_id", "case_index", "pk", "status", "error_type")
        for run, index, pk, status, error_type in rows.values_list(*columns):
            attempts[run, index].append((pk, status, error_type))
        return attempts

    @cached_property
    def _scores_by_attempt(self) -> dict[int, dict[str, StoredScore]]:
        """Overall scores of all attempts: read only if a run judged by other metrics or thresholds."""
        return _read_scores([run.pk for run in self.runs])


def read_past_runs(
    earlier: EarlierRuns, runs: Iterable[EvalRun], key: CaseKey, data: str, basis: Basis | None
) -> list[PastRun]:
    """Return the outcomes of a case in earlier runs, in their order."""
    past_runs = []
    for run in runs:
        if counts := earlier.count_outcomes(run, key, data, basis):
            same = read_sameness(run, data)
            past_runs.append(PastRun(same, counts.passed, counts.total - counts.passed, run.pk))
    return past_runs
