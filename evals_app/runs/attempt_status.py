"""Which attempts of a run came to no end, and which came to a bad one: conditions on their rows."""

from __future__ import annotations

import json

from django.db.models import Q

from evals_app.models import EvalAttempt, EvalRun

Status = EvalAttempt.Status

PROCESS_GONE = "RuntimeGone"
"""Error type of a run whose process has ended, and of the attempts that were in flight then."""

ENDED_PROCESS = "ProcessEnded"
"""Error type of an attempt whose process ended while it ran alone."""

BLOCKED_PROCESS = "ProcessBlocked"
"""Error type of an attempt that let its process stand still."""

STORE_LOST = "StoreLost"
"""Error type of a try whose session could not be stored: the database was away, or the disk full."""

INTERRUPTED_TYPES = (PROCESS_GONE, STORE_LOST)
"""Error types of attempts that were cut off by what is not their agent's doing: they say nothing of the case."""

MODEL_UNAVAILABLE = "ModelUnavailable"
"""Error type of an attempt whose model, judge or simulated user could not be asked for as long as it was retried."""

JUDGE_ENDED_PROCESS = "JudgeEndedProcess"
"""Error type of an attempt whose judge ended the process, or let it stand still, while it was alone in it."""

JUDGE_TOO_LONG = "JudgeTooLong"
"""Error type of an attempt whose judge took longer than the attempt may."""

NO_OUTCOME_TYPES = (*INTERRUPTED_TYPES, MODEL_UNAVAILABLE, JUDGE_ENDED_PROCESS, JUDGE_TOO_LONG)
"""Error types that say nothing of the case: what failed is what it ran on."""

UNFINISHED = Q(status=Status.CANCELLED, cancel_requested_at=None) | Q(
    status=Status.ERROR, error_type__in=INTERRUPTED_TYPES
)
"""Attempts that waited or were in flight when their run ended. Those that a person cancelled are none of them."""

OUTCOME_STATUSES = (Status.PASSED, Status.FAILED, Status.ERROR)
"""How attempts end that have an outcome, but for `WITHOUT_OUTCOME`: incomplete and cancelled is none."""

HAS_OUTCOME = Q(status__in=OUTCOME_STATUSES) & ~Q(error_type__in=NO_OUTCOME_TYPES)
"""Attempts that have an outcome, which rates, comparisons and tests count."""

NOT_PASSED = Q(status__in=(Status.FAILED, Status.ERROR, Status.INCOMPLETE)) & ~Q(
    error_type__in=INTERRUPTED_TYPES
)
"""Attempts that came to an end and failed, erred or could not be judged."""


def has_outcome(status: str, error_type: str) -> bool:
    """Tell of one attempt what `HAS_OUTCOME` asks of its row."""
    return status in OUTCOME_STATUSES and error_type not in NO_OUTCOME_TYPES


def judging_note(attempt: EvalAttempt) -> str:
    """Say which metric was judging an attempt that the agent had come through."""
    return f"The agent had answered: {attempt.judged_by} was judging it."


def must_run_alone(attempt: EvalAttempt) -> bool:
    """Tell whether an attempt is to run with no other in its process: it was in flight once when one ended."""
    tried = json.loads(attempt.earlier)
    return any(
        one["error_type"] in {PROCESS_GONE, ENDED_PROCESS, BLOCKED_PROCESS, JUDGE_ENDED_PROCESS}
        for one in tried
    )


def count_store_losses(attempt: EvalAttempt) -> int:
    """Return how many tries of an attempt were lost because the store failed."""
    return sum(one["error_type"] == STORE_LOST for one in json.loads(attempt.earlier))


def count_alone(run: EvalRun) -> int:
    """Return how many attempts of a run wait that are to run alone."""
    tried = run.attempts.filter(status=Status.PENDING).exclude(earlier="[]")
    return sum(map(must_run_alone, tried))
