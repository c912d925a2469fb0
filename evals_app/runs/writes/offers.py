"""Offers: attempts of a run that are in the queue, from which workers take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from django.db import transaction
from django.db.models import Count, Q

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.attempt_status import EXECUTION_ORDER, PROCESS_GONE
from evals_app.runs.writes.attempts import OPEN_STATUSES, finish_attempt, start_attempt
from evals_app.runs.writes.outcomes import Outcome
from evals_app.runs.writes.runs import last_step
from sessions_app.delivery.failure import Failure
from sessions_app.runs.job_queue import QUEUE_ID

Status = EvalAttempt.Status

NOT_OFFERED = Q(status=Status.PENDING, runtime=None)
OFFERED = Q(status=Status.PENDING, runtime_id=QUEUE_ID)

DeferAttempts = Callable[[Sequence[int]], None]
"""Writes jobs for attempts in the current transaction."""


def offer_attempts(run: EvalRun, defer: DeferAttempts) -> bool:
    """Offer pending attempts until as many are offered or running as the run's parallelism allows.

    Args:
        run: as it was claimed. If another process has claimed it since, nothing changes.

    Returns:
        False if all attempts have ended.
    """
    not_offered, offered = _count_open(run.pk)
    if not_offered and offered < run.parallelism:
        with transaction.atomic():
            is_current = EvalRun.objects.select_for_update().filter(
                pk=run.pk, status=EvalRun.Status.RUNNING, started_at=run.started_at
            )
            if is_current.exists():
                _offer_attempts(run, defer)
    return bool(not_offered or offered)


def _offer_attempts(run: EvalRun, defer: DeferAttempts) -> None:
    _, offered = _count_open(run.pk)
    candidates = run.attempts.filter(NOT_OFFERED).order_by(*EXECUTION_ORDER)
    pks = list(candidates.values_list("pk", flat=True)[: max(run.parallelism - offered, 0)])
    if pks:
        EvalAttempt.objects.filter(pk__in=pks).update(runtime_id=QUEUE_ID)
        defer(pks)


def _count_open(run_id: str) -> tuple[int, int]:
    """Return the number of pending attempts that are not offered, and of those that are offered or running."""
    open_attempts = EvalAttempt.objects.filter(run_id=run_id, status__in=OPEN_STATUSES)
    counts = open_attempts.aggregate(all=Count("pk"), not_offered=Count("pk", filter=NOT_OFFERED))
    return counts["not_offered"], counts["all"] - counts["not_offered"]


def withdraw_offers(run_id: str) -> None:
    """Withdraw the offers of a run. Their jobs, if not lost, then have no effect."""
    EvalAttempt.objects.filter(OFFERED, run_id=run_id).update(runtime=None)


def find_offered_attempt(attempt_pk: int) -> EvalAttempt | None:
    """Return an offered attempt of an active run, with its run; None if it is not offered any more."""
    offered = EvalAttempt.objects.select_related("run", "run__version").filter(OFFERED, pk=attempt_pk)
    return offered.filter(run__status=EvalRun.Status.RUNNING).first()


def fail_offered_attempt(attempt_pk: int, why: str) -> None:
    """End an offered attempt that no process can start, with an error."""
    with transaction.atomic():
        attempt = find_offered_attempt(attempt_pk)
        if attempt and start_attempt(attempt_pk, max(time.time(), last_step(attempt.run_id)), offered=True):
            finish_attempt(attempt_pk, Outcome(Status.ERROR, failure=Failure(PROCESS_GONE, why)))
