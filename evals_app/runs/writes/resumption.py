"""Restart of attempts in a run that has ended."""

from __future__ import annotations

import json
import time
from typing import Any

from django.db import transaction
from django.db.models import Count, Q

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.attempt_status import HAS_OUTCOME
from evals_app.runs.writes.revisions import COUNT_COLUMNS, next_revision
from evals_app.runs.writes.runs import apply_quotas, attempt_realm, last_step
from sessions_app.agent_processes import processes
from sessions_app.runs import job_queue
from sessions_app.store import scopes
from sessions_app.store.database import change_notification

Status = EvalAttempt.Status

UNCHANGED_COLUMNS = {"id", "run", "case_index", "case_id", "repetition", "tries", "note", "note_person"}
"""Columns of an attempt that a new try does not change."""

ASSIGNED_COLUMNS = {"realm", "earlier", "revision"}
"""Columns that a new try sets to other values than their defaults."""


def restart_attempts(run_id: str, condition: Q, reason: str, person: str = "") -> int:
    """Reset the matching attempts and queue their run; return their number, 0 if the run has not ended.

    Attempts that have an outcome are never reset: first outcomes count.

    A try that had started is stored in `earlier`, with its session and the reason of the next try, which has a realm
    of its own.

    `person` is the name of the person who restarts them, who becomes the run's. If it is empty, the run keeps its own.

    Raises:
        QuotaUsedUp: a quota of the person is used up.
    """
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or run.active:
            return 0
        attempts = run.attempts.filter(condition).exclude(HAS_OUTCOME)
        revision = next_revision(run_id)
        started_attempts = list(attempts.exclude(started_at=None).order_by("pk"))
        waiting_count = attempts.filter(started_at=None).update(
            status=Status.PENDING, stopped_because="", cancel_requested_at=None, revision=revision
        )
        for attempt in started_attempts:
            reset_attempt(attempt, reason, revision)
        if started_attempts or waiting_count:
            requeue_run(run, limits_from=None, limits_seconds=0.0)
            if person:
                EvalRun.objects.filter(pk=run_id).update(person=person)
                apply_quotas(EvalRun.objects.get(pk=run_id))
        change_notification.notify_after_commit()
    return len(started_attempts) + waiting_count


def continue_run(run: EvalRun) -> None:
    """Queue a run again whose process died, under its row's lock. Its limits go on from what it has spent."""
    run.finished_at = last_step(run.pk)
    requeue_run(run, run.limits_from, run.limits_seconds + _elapsed_seconds(run))


def requeue_run(run: EvalRun, limits_from: float | None, limits_seconds: float) -> None:
    """Queue a run again, under its row's lock.

    Args:
        run: with the time at which it stopped.
        limits_from: start from which its limits count; None: its next one.
        limits_seconds: seconds that count for its limit of seconds.
    """
    EvalRun.objects.filter(pk=run.id).update(
        status=EvalRun.Status.PENDING,
        runtime=processes.own_id(),
        queued_at=time.time(),
        resumed=run.resumed + 1,
        last_step_at=max(run.finished_at or 0.0, run.last_step_at or 0.0),
        limits_from=limits_from,
        limits_seconds=limits_seconds,
        spent_seconds=run.spent_seconds + _elapsed_seconds(run),
        **dict.fromkeys(("started_at", "finished_at", "cancel_requested_at")),
        **dict.fromkeys(("stopped_because", "error_type", "error", "hint", "traceback"), ""),
        **_count_by_status(run),
    )
    if queue := job_queue.current_queue():
        queue.defer_eval_run(run.id, run.app_name, run.code_version)


def _elapsed_seconds(run: EvalRun) -> float:
    return run.finished_at - run.started_at if run.finished_at and run.started_at else 0.0


def reset_attempt(attempt: EvalAttempt, reason: str, revision: int) -> None:
    """Reset an ended attempt to pending; its result is stored in `earlier`."""
    attempt.results.all().delete()
    attempt.earlier = scopes.dumps([*json.loads(attempt.earlier), _try_record(attempt, reason)])
    attempt.realm = attempt_realm(
        attempt.run_id, attempt.case_index, attempt.case_id, attempt.repetition, attempt.tries
    )
    for field in EvalAttempt._meta.concrete_fields:
        if field.name not in UNCHANGED_COLUMNS | ASSIGNED_COLUMNS:
            setattr(attempt, field.name, field.get_default())
    attempt.revision = revision
    attempt.save()


def _try_record(attempt: EvalAttempt, reason: str) -> dict[str, Any]:
    """Return the record of a try for `earlier`."""
    columns = ("status", "error_type", "error", "started_at", "finished_at", "realm", "total_tokens", "cost")
    return {
        "try": attempt.tries,
        "why": reason,
        **{name: getattr(attempt, name) for name in columns},
        "session": attempt.session_id,
    }


def _count_by_status(run: EvalRun) -> dict[str, int]:
    """Return the run's recomputed counts of attempts by status."""
    ended = {column: Count("pk", filter=Q(status=status)) for status, column in COUNT_COLUMNS.items()}
    counts: dict[str, int] = run.attempts.aggregate(**ended)
    return counts
