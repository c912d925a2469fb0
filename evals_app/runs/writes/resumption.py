"""A run that has ended goes on: some of its attempts are tried once more, all others stay as they are."""

from __future__ import annotations

import json
import time
from typing import Any

from django.db import transaction
from django.db.models import Count, Q

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.writes.revisions import COUNT_COLUMNS, next_revision
from evals_app.runs.writes.runs import realm_of
from sessions_app import scopes
from sessions_app.runs import processes
from sessions_app.store import change_notification

Status = EvalAttempt.Status

UNCHANGED_COLUMNS = {"id", "run", "case_index", "case_id", "repetition", "tries", "note"}
"""Columns of an attempt that another try leaves as they are."""

ASSIGNED_COLUMNS = {"realm", "earlier", "revision"}
"""Columns that are neither kept nor begin anew."""


def restart_attempts(run_id: str, which: Q, why: str) -> int:
    """Let the attempts that are meant be tried again, and their run wait for a process. Return how many they are.

    A try that had begun is kept beside the attempt (`earlier`), with its session; the next one has a realm of its own.

    Args:
        which: the attempts meant, of those that have ended.
        why: why an attempt that had begun is tried again, in words.

    Returns:
        0 when there is no such attempt or the run has not ended: nothing is changed then.
    """
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or run.active:
            return 0
        meant = run.attempts.filter(which)
        revision = next_revision(run_id)
        begun = list(meant.exclude(started_at=None).order_by("pk"))
        for attempt in begun:
            reset_attempt(attempt, why, revision)
        waited = run.attempts.filter(which, started_at=None).update(
            status=Status.PENDING, stopped_because="", cancel_requested_at=None, revision=revision
        )
        if begun or waited:
            requeue_run(run, limits_from=None)
        change_notification.notify_after_commit()
    return len(begun) + waited


def requeue_run(run: EvalRun, limits_from: float | None) -> None:
    """Let a run under its row's lock wait for a process once more.

    Args:
        run: with the time at which it stopped.
        limits_from: since when its limits count; None: since its next start.
    """
    spent = (run.finished_at - run.started_at) if run.finished_at and run.started_at else 0.0
    EvalRun.objects.filter(pk=run.id).update(
        status=EvalRun.Status.PENDING,
        runtime=processes.own_id(),
        queued_at=time.time(),
        resumed=run.resumed + 1,
        limits_from=limits_from,
        spent_seconds=run.spent_seconds + spent,
        **dict.fromkeys(("started_at", "finished_at", "cancel_requested_at")),
        **dict.fromkeys(("stopped_because", "error_type", "error", "hint", "traceback"), ""),
        **_counts(run),
    )


def reset_attempt(attempt: EvalAttempt, why: str, revision: int) -> None:
    """Let an attempt that has ended wait to be tried once more; what it came to is kept beside it."""
    attempt.results.all().delete()
    attempt.earlier = scopes.dumps([*json.loads(attempt.earlier), _try_record(attempt, why)])
    attempt.realm = realm_of(
        attempt.run_id, attempt.case_index, attempt.case_id, attempt.repetition, attempt.tries
    )
    for field in EvalAttempt._meta.concrete_fields:
        if field.name not in UNCHANGED_COLUMNS | ASSIGNED_COLUMNS:
            setattr(attempt, field.name, field.get_default())
    attempt.revision = revision
    attempt.save()


def _try_record(attempt: EvalAttempt, why: str) -> dict[str, Any]:
    """Return what is kept of a try."""
    told = ("status", "error_type", "error", "started_at", "finished_at", "realm", "total_tokens", "cost")
    return {
        "try": attempt.tries,
        "why": why,
        **{name: getattr(attempt, name) for name in told},
        "session": attempt.session_id,
    }


def _counts(run: EvalRun) -> dict[str, int]:
    """Return the run's counts of attempts by how they ended, counted anew."""
    ended = {column: Count("pk", filter=Q(status=status)) for status, column in COUNT_COLUMNS.items()}
    counts: dict[str, int] = run.attempts.aggregate(**ended)
    return counts
