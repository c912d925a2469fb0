"""Status of attempts: error types, and conditions on rows for interrupted, judged and failed attempts."""

from __future__ import annotations

import json

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When

from evals_app.models import RETRY, EvalAttempt, EvalRun

Status = EvalAttempt.Status

EXECUTION_ORDER = ("tries", "case_index", "repetition")
"""Columns by which attempts begin: those that were tried before are last, so that a case whose agent ends its process
delays no other.
"""

PROCESS_GONE = "RuntimeGone"
"""Error type of a run whose process has ended, and of the attempts that were in flight then."""

ENDED_PROCESS = "ProcessEnded"
"""Error type of an attempt whose process ended while it ran alone."""

BLOCKED_PROCESS = "ProcessBlocked"
"""Error type of an attempt that blocked its process."""

STORE_LOST = "StoreLost"
"""Error type of a try whose session could not be stored: the database was away, or the disk full."""

INTERRUPTED_TYPES = (PROCESS_GONE, STORE_LOST)
"""Error types of attempts that were interrupted for reasons outside their agent: they say nothing of the case."""

MODEL_UNAVAILABLE = "ModelUnavailable"
"""Error type of an attempt whose model, judge or simulated user stayed unavailable through all retries."""

NO_MODEL_ACCESS = "NoModelAccess"
"""Error type of an attempt to whose model, judge or simulated user there is no access: no valid key, no permission."""

JUDGE_ENDED_PROCESS = "JudgeEndedProcess"
"""Error type of an attempt whose judge ended or blocked the process while the attempt ran alone."""

JUDGE_TOO_LONG = "JudgeTooLong"
"""Error type of an attempt whose judge exceeded the time limit of an attempt."""

LOST_REASONS = {
    MODEL_UNAVAILABLE: "a model, judge or simulated user stayed unavailable",
    NO_MODEL_ACCESS: "no access to a model, judge or simulated user",
    JUDGE_ENDED_PROCESS: "a judge ended or blocked its process",
    JUDGE_TOO_LONG: "a judge exceeded the time limit of an attempt",
}
"""Error types of attempts that lost a model or judge, and what that means in words."""

NO_OUTCOME_TYPES = (*INTERRUPTED_TYPES, *LOST_REASONS)
"""Error types that say nothing of the case: something that the case depends on failed."""

UNFINISHED = Q(status=Status.CANCELLED, cancel_requested_at=None) | Q(
    status=Status.ERROR, error_type__in=INTERRUPTED_TYPES
)
"""Attempts that waited or were in flight when their run ended, except those that a person cancelled."""

OUTCOME_STATUSES = (Status.PASSED, Status.FAILED, Status.ERROR)
"""Statuses of attempts that have an outcome, except for `NO_OUTCOME_TYPES`."""

HAS_OUTCOME = Q(status__in=OUTCOME_STATUSES) & ~Q(error_type__in=NO_OUTCOME_TYPES)
"""Attempts that have an outcome; rates, comparisons and tests count them."""

NOT_PASSED = Q(status__in=(Status.FAILED, Status.ERROR, Status.INCOMPLETE)) & ~Q(
    error_type__in=INTERRUPTED_TYPES
)
"""Attempts that ended and failed, erred or could not be judged."""

NEVER_PASSED = NOT_PASSED & Q(passed_later=False)
"""Attempts that did not pass in any try; of rows of `annotate_later_passes`."""


def annotate_later_passes(attempts: QuerySet[EvalAttempt]) -> QuerySet[EvalAttempt]:
    """Annotate attempts with `passed_later`: the same attempt passed in a run that retried it.

    Attempts of such a run count with those of its first run.
    """
    first_run = Case(When(run__source=RETRY, then=F("run__repeats")), default=F("run"))
    later_passes = EvalAttempt.objects.filter(
        status=Status.PASSED,
        run__source=RETRY,
        run__repeats=OuterRef("first_run"),
        case_index=OuterRef("case_index"),
        repetition=OuterRef("repetition"),
    )
    return attempts.annotate(first_run=first_run).annotate(passed_later=Exists(later_passes))


def has_outcome(status: str, error_type: str) -> bool:
    """Tell whether an attempt has an outcome, as `HAS_OUTCOME` does for rows."""
    return status in OUTCOME_STATUSES and error_type not in NO_OUTCOME_TYPES


def judging_note(attempt: EvalAttempt) -> str:
    """Return a sentence that names the metric that was judging an attempt."""
    return f"The agent had answered: {attempt.judged_by} was judging it."


def must_run_alone(attempt: EvalAttempt) -> bool:
    """Tell whether an attempt must run alone in its process: it was in flight when a process ended."""
    earlier_tries = json.loads(attempt.earlier)
    return any(
        earlier_try["error_type"] in {PROCESS_GONE, ENDED_PROCESS, BLOCKED_PROCESS, JUDGE_ENDED_PROCESS}
        for earlier_try in earlier_tries
    )


def count_store_losses(attempt: EvalAttempt) -> int:
    """Return how many tries of an attempt were lost because the store failed."""
    return sum(earlier_try["error_type"] == STORE_LOST for earlier_try in json.loads(attempt.earlier))


def count_alone(run: EvalRun) -> int:
    """Return how many pending attempts of a run must run alone."""
    tried = run.attempts.filter(status=Status.PENDING).exclude(earlier="[]")
    return sum(map(must_run_alone, tried))
