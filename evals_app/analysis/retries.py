"""Later tries of attempts in runs of their own: shown beside first outcomes, never counted with them. Read-only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from evals_app.models import RETRY, EvalAttempt, EvalRun
from evals_app.runs import attempt_status, rerun

Status = EvalAttempt.Status

AttemptPosition = tuple[int, int]
"""Position of the case, and repetition: what an attempt has in common with its later tries."""


@dataclass(frozen=True)
class RunRetries:
    """Runs that tried attempts of a run again, the oldest first.

    Attributes:
        passed: number of attempts of the run that passed, at first or in a later try.
    """

    run: EvalRun
    runs: Sequence[EvalRun]
    passed: int

    @property
    def text(self) -> str:
        """The outcomes after the retries and at first, in words."""
        return f"{self.passed:,} of {self.run.total:,} after retries, {self.run.passed:,} at first"


def find_retries(run: EvalRun) -> RunRetries | None:
    """Return the retries of a run's attempts, or None."""
    runs = list(run.repeated_by.filter(source=RETRY).defer("config", "traceback").order_by("created_at"))
    if not runs:
        return None
    has_passed = Q(status=Status.PASSED) | Q(passed_later=True)
    passed = attempt_status.annotate_later_passes(run.attempts.all()).filter(has_passed).count()
    return RunRetries(run, runs, passed)


def read_later_tries(run: EvalRun) -> Mapping[AttemptPosition, Sequence[EvalAttempt]]:
    """Return the later tries of each attempt of a run that has some, the oldest first."""
    tries: dict[AttemptPosition, list[EvalAttempt]] = defaultdict(list)
    for row in _query_later_tries(run.pk):
        tries[row.case_index, row.repetition].append(row)
    return tries


def find_later_tries(attempt: EvalAttempt) -> Sequence[EvalAttempt]:
    """Return the later tries of an attempt in other runs, the oldest first."""
    return list(
        _query_later_tries(attempt.run_id).filter(
            case_index=attempt.case_index, repetition=attempt.repetition
        )
    )


def _query_later_tries(first_run_id: str) -> QuerySet[EvalAttempt]:
    rows = EvalAttempt.objects.filter(run__source=RETRY, run__repeats=first_run_id)
    return rows.defer("actual", "traceback").order_by("run__created_at", "pk")


@dataclass(frozen=True)
class TriesInRuns:
    """The try of an attempt that counts, and its later ones in other runs, the oldest first."""

    first: EvalAttempt
    later: Sequence[EvalAttempt]


def find_tries(attempt: EvalAttempt) -> TriesInRuns | None:
    """Return the tries of an attempt, or of the attempt that it retries. None if it has no later ones."""
    same_attempts = EvalAttempt.objects.filter(case_index=attempt.case_index, repetition=attempt.repetition)
    first = same_attempts.filter(run=rerun.find_first_run_id(attempt.run)).defer("actual").first()
    later_tries = find_later_tries(first) if first else ()
    return TriesInRuns(first, later_tries) if first and later_tries else None
