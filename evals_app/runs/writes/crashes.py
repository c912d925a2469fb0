"""Runs whose process has died: they wait for the next one, or have crashed with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import F, Q

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.attempt_status import ENDED_PROCESS, JUDGE_ENDED_PROCESS, PROCESS_GONE
from evals_app.runs.limits import Limits
from evals_app.runs.writes.attempts import (
    CANCELLED_BY_USER,
    cancel_attempt,
    close_traces,
    end_time,
    finish_attempt,
    set_spending,
)
from evals_app.runs.writes.model_usage import spending_of
from evals_app.runs.writes.outcomes import Failure
from evals_app.runs.writes.resumption import requeue_run, reset_attempt
from evals_app.runs.writes.revisions import next_revision, next_revision_of
from evals_app.runs.writes.runs import end_run, finish_run
from sessions_app import scopes
from sessions_app.models import Run
from sessions_app.runs import processes
from sessions_app.store import change_notification
from sessions_app.store.stopwatch import ChangeTimer

UNASSIGNED_S = 60.0
"""Seconds after which a pending run that belongs to no process is an orphan: whoever orders runs owns them."""

_unassigned = ChangeTimer()
"""When pending runs that belong to no process were queued, by their ids."""

FAULT_HANDLER_STATUS = 1
"""Exit status of a process that Python's fault handler ends (`engine/watchdog`)."""

Status = EvalAttempt.Status


@dataclass(frozen=True)
class ProcessDeath:
    """How a process ended that was carrying out runs.

    Attributes:
        how: such as "exit status 3".
        by_itself: nobody ended it on purpose, so what ran in it may have.
    """

    how: str
    by_itself: bool = True

    def __str__(self) -> str:
        """Say it in a sentence."""
        return f"The process that ran it ended ({self.how})." if self.by_itself else self.how


def continue_without_process(runtime_id: str, death: ProcessDeath) -> list[str]:
    """Let the runs of a process that died wait for the next one; return those that do.

    What was in flight is tried again, alone in its process (`standing.must_be_alone`). An attempt whose process dies
    while it is alone ended it: that is its outcome. So every death leaves fewer attempts that may cause another one,
    unless none had begun: then the next process would die as well, and the runs have crashed.
    """
    with transaction.atomic():
        active = EvalRun.objects.select_for_update().filter(runtime_id=runtime_id, status__in=EvalRun.ACTIVE)
        runs = list(active.order_by("pk"))
        begun = EvalAttempt.objects.filter(run__in=runs, started_at__gte=F("run__started_at"))
        if not begun.exists():
            for run in runs:
                crash_run(run.pk, str(death))
            return []
        alone = _only_attempt(runtime_id)
        if death.by_itself and alone is not None and attempt_status.must_run_alone(alone):
            _end_as_fault(alone, Failure(ENDED_PROCESS, _describe_death(alone, death)))
        going_on = [run.pk for run in runs if _requeue_or_finish(run, death)]
        change_notification.notify_after_commit()
    return going_on


def active_runs_of(runtime_id: str) -> list[str]:
    """Return the runs of a process that have not ended."""
    active = EvalRun.objects.filter(runtime_id=runtime_id, status__in=EvalRun.ACTIVE)
    return list(active.order_by("pk").values_list("pk", flat=True))


def pending_runs_of(run_ids: list[str]) -> list[str]:
    """Return those runs that wait for a process, whoever is to give them out."""
    waiting = EvalRun.objects.filter(pk__in=run_ids, status=EvalRun.Status.PENDING)
    return list(waiting.order_by("pk").values_list("pk", flat=True))


def _describe_death(alone: EvalAttempt, death: ProcessDeath) -> str:
    """Describe how a process ended in which an attempt was alone.

    The first line says nothing of the case: cases that end their process in one way have one cause. The exit status
    alone tells that the fault handler may have ended it: how long the attempt took, only the clock of the process that
    is gone could tell.
    """
    why = f"The process ended with {death.how}.\nCase {alone.case_id!r} ran alone in it."
    longest = Limits.read(alone.run.limits).attempt_seconds
    if longest is None or death.how != processes.describe_exit(FAULT_HANDLER_STATUS):
        return why
    return (
        f"{why} Code in C that lets no thread run, such as a regular expression without end, is ended so when an"
        f" attempt takes longer than its limit of {longest:g} seconds; the log then shows where it stood."
    )


def end_blocked(run_id: str, failure: Failure) -> None:
    """End the attempt that makes the process of a run stand still, when it must be that one: nothing else runs."""
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().get(pk=run_id)
        if run.runtime_id and (alone := _only_attempt(run.runtime_id)):
            _end_as_fault(alone, failure)


def _only_attempt(runtime_id: str) -> EvalAttempt | None:
    """Return the attempt that a process carries out; None when it carries out more, or something else."""
    in_flight = EvalAttempt.objects.filter(run__runtime_id=runtime_id, status=Status.RUNNING)
    others = Run.objects.filter(runtime_id=runtime_id, status=Run.Status.RUNNING)
    found = list(in_flight[:2])
    return found[0] if len(found) == 1 and not others.exists() else None


def _end_as_fault(attempt: EvalAttempt, failure: Failure) -> None:
    """End an attempt that ended its process or made it stand still; once it is judged, that is its judge's doing."""
    if attempt.judged_by:
        failure = replace(
            failure,
            type=JUDGE_ENDED_PROCESS,
            message=f"{failure.message}\n{attempt_status.judging_note(attempt)}",
        )
    finish_attempt(attempt.pk, spending_of(attempt, failure))


def _requeue_or_finish(run: EvalRun, death: ProcessDeath) -> bool:
    """Let a run wait for the next process with what is left of it; False when it has ended."""
    if run.cancel_requested_at is not None:
        finish_run(run.pk, EvalRun.Status.CANCELLED)
        return False
    for attempt in run.attempts.filter(status=Status.RUNNING):
        if attempt.cancel_requested_at is not None:
            cancel_attempt(attempt.pk, CANCELLED_BY_USER)
        else:
            _retry_interrupted(attempt, death)
    if not run.attempts.filter(status=Status.PENDING).exists():
        finish_run(run.pk, EvalRun.Status.DONE)
        return False
    if run.status == EvalRun.Status.PENDING:
        EvalRun.objects.filter(pk=run.pk).update(runtime=processes.own_id(), queued_at=time.time())
    else:
        run.finished_at = max(time.time(), run.started_at or 0.0)
        requeue_run(run, run.limits_from)
    return True


def repeat_attempt(attempt_pk: int, started_at: float | None, failure: Failure) -> None:
    """Let an attempt in flight wait again whose try was cut off; one that a person cancelled meanwhile ends.

    Args:
        started_at: when that try started. When another one is in flight, or none, nothing changes.
    """
    with transaction.atomic():
        revision = next_revision_of(attempt_pk)
        attempt = EvalAttempt.objects.select_related("run").get(pk=attempt_pk)
        if attempt.status != Status.RUNNING or attempt.started_at != started_at:
            return
        if attempt.cancel_requested_at is not None:
            cancel_attempt(attempt_pk, CANCELLED_BY_USER)
        else:
            _set_interruption(attempt, failure)
            reset_attempt(attempt, "The store failed while it was in flight.", revision)
            change_notification.notify_after_commit()


def _retry_interrupted(attempt: EvalAttempt, death: ProcessDeath) -> None:
    """Let an attempt that was in flight wait again."""
    _set_interruption(attempt, Failure(PROCESS_GONE, str(death)))
    reset_attempt(attempt, "Its process ended while it was in flight.", next_revision(attempt.run_id))


def _set_interruption(attempt: EvalAttempt, failure: Failure) -> None:
    """Give an attempt what its try came to that is to be kept beside it: it came to no end."""
    set_spending(attempt, spending_of(attempt))
    attempt.status, attempt.finished_at = Status.ERROR, end_time(attempt)
    close_traces(attempt)
    attempt.error_type, attempt.error = failure.type, scopes.clean_error(failure.message)


def crash_run(run_id: str, why: str, last_seen: float | None = None) -> bool:
    """Mark an active run whose process is gone: what was running is an error, what waited is cancelled.

    Args:
        last_seen: the last sign of life of its process, when nobody saw it end; None: it ended just now.
    """
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or not run.active:
            return False
        failure = Failure(PROCESS_GONE, why)
        end_run(run_id, EvalRun.Status.CRASHED, EvalAttempt.Status.ERROR, failure, last_seen=last_seen)
        change_notification.notify_after_commit()
    return True


def crash_runs_of(runtime_id: str, why: str) -> int:
    """Mark the active runs of a process that is gone; return how many there were."""
    runs = EvalRun.objects.filter(runtime_id=runtime_id, status__in=EvalRun.ACTIVE).values_list(
        "pk", flat=True
    )
    return sum(crash_run(run_id, why) for run_id in list(runs))


def crash_orphans() -> int:
    """End the active runs that nobody will end: their process has stopped, or none ever took them.

    Call it after `sessions_app.runs.lifecycle.crash_orphans`, which notes the processes that are gone.
    """
    pending = EvalRun.objects.filter(status=EvalRun.Status.PENDING)
    begun = EvalRun.objects.filter(status=EvalRun.Status.RUNNING)
    gone = Q(runtime__stopped_at__isnull=False)
    unassigned = dict(pending.filter(runtime=None).values_list("pk", "queued_at"))
    nobodys = Q(pk__in=_unassigned.unchanged(unassigned, UNASSIGNED_S))
    why = "The process that ran it has ended."
    stopped = list(begun.filter(gone).values_list("pk", "runtime__heartbeat_at"))
    never = list(pending.filter(gone | nobodys).values_list("pk", flat=True))
    ended = sum(crash_run(run_id, why, last_seen) for run_id, last_seen in stopped)
    return ended + sum(crash_run(run_id, "No process took it.") for run_id in never)
