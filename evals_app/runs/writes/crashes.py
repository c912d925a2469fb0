"""Writes after a process has died: its runs are queued again or marked as crashed."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import F, Q

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.attempt_status import ENDED_PROCESS, JUDGE_ENDED_PROCESS, PROCESS_GONE
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.writes.attempts import (
    OPEN_STATUSES,
    close_traces,
    end_time,
    end_try,
    finish_attempt,
)
from evals_app.runs.writes.model_usage import with_spending
from evals_app.runs.writes.resumption import continue_run, reset_attempt
from evals_app.runs.writes.revisions import next_attempt_revision, next_revision
from evals_app.runs.writes.runs import assign_runs, crash_run, finish_run, last_step, lock_active, release_run
from sessions_app.agent_processes import processes
from sessions_app.delivery.failure import Failure
from sessions_app.delivery.ownership import HAS_STOPPED_PROCESS, HAS_STOPPED_SERVER, end_rows, find_unassigned
from sessions_app.runs import lifecycle
from sessions_app.store.database import change_notification
from sessions_app.store.models import Run

BELONGS_TO_STOPPED_SERVER = HAS_STOPPED_SERVER | (
    HAS_STOPPED_PROCESS & Q(runtime__app_name=processes.SERVER_APP)
)
"""Runs of a server that has ended, or of a process that it started."""

NOT_TAKEN = "No process took it."

FAULT_HANDLER_STATUS = 1
"""Exit status of a process that Python's fault handler ends (`execution/watchdog`)."""

Status = EvalAttempt.Status


@dataclass(frozen=True)
class ProcessDeath:
    """The end of a process that executed runs.

    Attributes:
        how: such as "exit status 3".
        by_itself: the process was not ended on purpose, so its work may be the cause.
    """

    how: str
    by_itself: bool = True

    def __str__(self) -> str:
        """Return the end as a sentence."""
        return f"The process that ran it ended ({self.how})." if self.by_itself else self.how


def continue_without_process(runtime_id: str, death: ProcessDeath) -> list[str]:
    """Queue the runs of a dead process again; return those that are queued.

    Its attempts in flight are tried again, alone in their process (`attempt_status.must_run_alone`), also those of runs
    that another process coordinates. An attempt whose process dies while it runs alone is the cause, which is its
    outcome. So each death leaves fewer attempts that can cause another one. If no attempt had started, the next process
    would die as well: then the runs have crashed.
    """
    with transaction.atomic():
        runs = _lock_process_runs(runtime_id)
        owned_runs = [run for run in runs if run.runtime_id == runtime_id]
        started_attempts = EvalAttempt.objects.filter(
            run__in=owned_runs, started_at__gte=F("run__started_at")
        )
        if owned_runs and not started_attempts.exists():
            for run in owned_runs:
                crash_run(run.pk, str(death))
            return []
        alone = _only_attempt(runtime_id)
        if death.by_itself and alone is not None and attempt_status.must_run_alone(alone):
            _end_as_fault(alone, Failure(ENDED_PROCESS, _describe_death(alone, death)))
        for run in runs:
            _reset_in_flight(run, runtime_id, death)
        requeued_ids = [run.pk for run in owned_runs if _requeue_or_finish(run)]
        change_notification.notify_after_commit()
    return requeued_ids


def _lock_process_runs(runtime_id: str) -> list[EvalRun]:
    """Return the active runs of a process, and those of its attempts in flight, under their locks."""
    in_flight = EvalAttempt.objects.filter(runtime_id=runtime_id, status=Status.RUNNING)
    is_affected = Q(runtime_id=runtime_id) | Q(pk__in=in_flight.values("run_id"))
    active = EvalRun.objects.select_for_update().filter(is_affected, status__in=EvalRun.ACTIVE)
    return list(active.order_by("pk"))


def continue_without_coordinator(run_id: str, started_at: float | None = None) -> bool:
    """Make a run pending, because its coordinator gives it up or is gone; return False if the run has ended.

    Its attempts in flight continue in their processes.

    Args:
        started_at: the claim of the coordinator (`lock_active`).
    """
    with transaction.atomic():
        run = lock_active(run_id, started_at)
        if run is None or run.started_at is None:
            return False
        change_notification.notify_after_commit()
        return _requeue_or_finish(run)


def list_active(runtime_id: str) -> list[str]:
    """Return the active runs of a process."""
    active = EvalRun.objects.filter(runtime_id=runtime_id, status__in=EvalRun.ACTIVE)
    return list(active.order_by("pk").values_list("pk", flat=True))


def list_pending(run_ids: list[str]) -> list[str]:
    """Return those of the runs that are pending, whatever process owns them."""
    waiting = EvalRun.objects.filter(pk__in=run_ids, status=EvalRun.Status.PENDING)
    return list(waiting.order_by("pk").values_list("pk", flat=True))


def _describe_death(alone: EvalAttempt, death: ProcessDeath) -> str:
    """Describe how the process of an attempt that ran alone ended.

    The first line does not name the case, so that cases that end their process alike have one cause. Only the exit
    status hints at the fault handler: the attempt's duration is known only to the clock of the dead process.
    """
    why = f"The process ended with {death.how}.\nCase {alone.case_id!r} ran alone in it."
    longest = EvalRunLimits.read(alone.run.limits).attempt_seconds
    if longest is None or death.how != processes.describe_exit(FAULT_HANDLER_STATUS):
        return why
    return (
        f"{why} Code in C that lets no thread run, such as a regular expression without end, is ended so when an"
        f" attempt takes longer than its limit of {longest:g} seconds; the log then shows where it stood."
    )


def end_blocked(run_id: str, runtime_id: str | None, failure: Failure, now: float) -> None:
    """End the attempt of a run that blocks its process, if nothing else runs in it.

    Args:
        now: time of the run's stopwatch.
    """
    with transaction.atomic():
        EvalRun.objects.select_for_update().get(pk=run_id)
        EvalRun.objects.filter(pk=run_id).update(last_step_at=now)
        if runtime_id and (alone := _only_attempt(runtime_id)):
            _end_as_fault(alone, failure)


def _only_attempt(runtime_id: str) -> EvalAttempt | None:
    """Return the only attempt that a process executes; None if it executes more, or another run."""
    in_flight = EvalAttempt.objects.filter(runtime_id=runtime_id, status=Status.RUNNING)
    other_runs = Run.objects.filter(runtime_id=runtime_id, status=Run.Status.RUNNING)
    attempts = list(in_flight[:2])
    return attempts[0] if len(attempts) == 1 and not other_runs.exists() else None


def _end_as_fault(attempt: EvalAttempt, failure: Failure) -> None:
    """End an attempt that ended or blocked its process; if it was being judged, its judge is at fault."""
    if attempt.judged_by:
        failure = replace(
            failure,
            type=JUDGE_ENDED_PROCESS,
            message=f"{failure.message}\n{attempt_status.judging_note(attempt)}",
        )
    finish_attempt(attempt.pk, with_spending(attempt, failure), last_step(attempt.run_id))


def _reset_in_flight(run: EvalRun, runtime_id: str, death: ProcessDeath) -> None:
    """Reset the attempts of a run that a dead process executed. Those of a run that is cancelled end with it."""
    if run.cancel_requested_at is not None:
        return
    ended_at = last_step(run.pk)
    for attempt in run.attempts.filter(runtime_id=runtime_id, status=Status.RUNNING):
        failure = Failure(PROCESS_GONE, str(death))
        _repeat_or_cancel(attempt, failure, ended_at, "Its process ended while it was in flight.")


def _requeue_or_finish(run: EvalRun) -> bool:
    """Queue a run again with its remaining attempts; return False if it has ended."""
    if run.cancel_requested_at is not None:
        finish_run(run.pk, EvalRun.Status.CANCELLED)
        return False
    if not run.attempts.filter(status__in=OPEN_STATUSES).exists():
        finish_run(run.pk, EvalRun.Status.DONE)
        return False
    if run.status == EvalRun.Status.PENDING:
        EvalRun.objects.filter(pk=run.pk).update(runtime=processes.own_id(), queued_at=time.time())
    else:
        continue_run(run)
    return True


def repeat_attempt(attempt_pk: int, started_at: float | None, failure: Failure, now: float) -> None:
    """Reset an interrupted attempt to pending; one that a person cancelled meanwhile ends.

    Args:
        started_at: start of the interrupted try. If another try is in flight, or none, nothing changes.
        now: time of the run's stopwatch.
    """
    with transaction.atomic():
        next_attempt_revision(attempt_pk)  # which locks the run
        attempt = EvalAttempt.objects.select_related("run").get(pk=attempt_pk)
        if attempt.status == Status.RUNNING and attempt.started_at == started_at:
            _repeat_or_cancel(attempt, failure, now, "The store failed while it was in flight.")
            change_notification.notify_after_commit()


def _repeat_or_cancel(attempt: EvalAttempt, failure: Failure, now: float, reason: str) -> None:
    """Reset an interrupted attempt to pending, for a `reason`; one that a person has cancelled ends."""
    if attempt.cancel_requested_at is not None:
        finish_attempt(attempt.pk, with_spending(attempt, status=Status.CANCELLED), now)
        return
    end_try(attempt, Status.ERROR, failure, end_time(attempt, now))
    close_traces(attempt)
    reset_attempt(attempt, reason, next_revision(attempt.run_id))


def crash_abandoned(run_id: str) -> None:
    """End the runs without a living owner, and this one if its server has ended: another process can resume it now."""
    crash_orphans()
    end_rows(
        EvalRun.objects.filter(BELONGS_TO_STOPPED_SERVER, pk=run_id, status=EvalRun.Status.PENDING),
        crash_run,
        NOT_TAKEN,
    )


def end_with_process(
    runtime_id: str,
    why: str,
    spared: Collection[str] = (),
    *,
    is_closing: bool = False,
    continue_evals: bool = False,
) -> list[str]:
    """End the runs and eval runs of a process that is gone, except `spared` runs. Return the ids of the runs.

    If its server is closing too, eval runs are left for the next server unless they have started an attempt; with
    `continue_evals` all are left.
    """
    evals = EvalRun.objects.filter(runtime_id=runtime_id, status__in=EvalRun.ACTIVE)
    if is_closing and continue_evals:
        evals = evals.none()
    elif is_closing:
        for run_id in list(evals.values_list("pk", flat=True)):
            release_run(run_id)
        evals = evals.exclude(status=EvalRun.Status.PENDING)
    end_rows(evals, crash_run, why)
    return lifecycle.crash_runs(runtime_id, why, spared)


def adopt_abandoned(server_id: str, app_names: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """Assign the pending runs of servers that have ended to another server; return (run id, app name), oldest first.

    Args:
        app_names: the apps whose runs are adopted; None: all.
    """
    with transaction.atomic():
        runs = EvalRun.objects.filter(BELONGS_TO_STOPPED_SERVER, status=EvalRun.Status.PENDING)
        if app_names is not None:
            runs = runs.filter(app_name__in=app_names)
        abandoned = list(runs.order_by("queued_at", "pk").values_list("pk", "app_name"))
        assign_runs([run_id for run_id, _ in abandoned], server_id)
    return abandoned


def crash_orphans(spared: Q | None = None) -> int:
    """End the conversation runs and eval runs that no process will end; return the number of eval runs.

    The process of an eval run has stopped, or none took the run. Pending ones of a server that has ended are not among
    them: the next server adopts them (`adopt_abandoned`). `spared` ones go on elsewhere.
    """
    lifecycle.crash_orphans()  # which first marks the processes that are gone
    concerned = EvalRun.objects.exclude(spared) if spared else EvalRun.objects.all()
    pending = concerned.filter(status=EvalRun.Status.PENDING)
    running = concerned.filter(HAS_STOPPED_PROCESS, status=EvalRun.Status.RUNNING)
    never_started = pending.filter(HAS_STOPPED_PROCESS | find_unassigned(pending, "queued_at")).exclude(
        BELONGS_TO_STOPPED_SERVER
    )
    ended = end_rows(running, crash_run, "The process that ran it has ended.")
    return len(ended) + len(end_rows(never_started, crash_run, NOT_TAKEN))
