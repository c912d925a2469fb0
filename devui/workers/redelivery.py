"""Requeue runs and attempts whose worker is gone or whose job is lost.

Rows decide: a run that waits gets a new job, a conversation run in progress crashes, and an eval run continues with the
attempts that have not ended, while living workers keep executing theirs. Several workers may do this at the same time.
"""

from __future__ import annotations

import time

from django.db import transaction
from django.db.models import Q, QuerySet
from procrastinate.contrib.django.models import ProcrastinateJob

from devui.workers.models import Worker
from devui.workers.queues import ProcrastinateQueue, attempt_queue
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.writes import crashes, offers
from evals_app.runs.writes import runs as eval_runs
from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store.database.stopwatch import ChangeTimer
from sessions_app.store.models import Run

WITHOUT_JOB_S = 30.0
"""Age of a run in a queue from which a missing job counts as lost."""

UNFINISHED_JOBS = ("todo", "doing")

GONE = crashes.ProcessDeath("Its worker is gone.", by_itself=False)

OF_WORKERS = Q(runtime__server__isnull=False) | Q(runtime__app_name=processes.SERVER_APP)
"""Eval runs of workers and of their processes. They do not crash: other workers continue them."""

_offer_timer = ChangeTimer()
"""Tries of the attempts in the queue, by primary key."""


def take_over() -> None:
    """End the runs and processes without a living owner, and queue what can go on."""
    crashes.crash_orphans(spared=OF_WORKERS)
    _repeat_attempts()
    _continue_eval_runs()
    _requeue_eval_runs()
    _requeue_runs()
    _restore_jobs()
    _restore_attempt_jobs()


def list_gone_engine_ids() -> list[int]:
    """Return the ids in Procrastinate's table of the workers whose process is gone. Their jobs are to be retried."""
    gone = Worker.objects.filter(process__stopped_at__isnull=False, engine_id__isnull=False)
    return list(gone.values_list("engine_id", flat=True))


def _repeat_attempts() -> None:
    """Reset the attempts that processes of gone workers executed. Those of living workers are theirs to reset."""
    running = EvalAttempt.objects.filter(
        runtime__server__stopped_at__isnull=False, status=EvalAttempt.Status.RUNNING
    )
    for runtime_id in sorted(set(running.values_list("runtime_id", flat=True))):
        for run_id in crashes.continue_without_process(runtime_id, GONE):
            queue_eval_run(run_id)


def _continue_eval_runs() -> None:
    """Queue the eval runs whose coordinator is gone."""
    is_gone = Q(runtime__stopped_at__isnull=False, runtime__app_name=processes.SERVER_APP)
    running = EvalRun.objects.filter(is_gone, status=EvalRun.Status.RUNNING)
    for run_id in list(running.values_list("pk", flat=True)):
        if eval_runs.release_run(run_id) or crashes.continue_without_coordinator(run_id):
            queue_eval_run(run_id)


def _requeue_eval_runs() -> None:
    """Queue the pending eval runs that gone workers had taken."""
    for run_id in list(
        _pending_eval_runs().filter(crashes.BELONGS_TO_STOPPED_SERVER).values_list("pk", flat=True)
    ):
        queue_eval_run(run_id)


def _requeue_runs() -> None:
    for run_id, _ in lifecycle.abandoned_runs():
        _give_to_queue(_queued_runs(), run_id)


def queue_eval_run(run_id: str) -> None:
    """Give a pending eval run to the queue of its code."""
    _give_to_queue(_pending_eval_runs(), run_id)


def _queued_runs() -> QuerySet[Run]:
    return Run.objects.filter(status=Run.Status.QUEUED).select_related("session")


def _pending_eval_runs() -> QuerySet[EvalRun]:
    return EvalRun.objects.filter(status=EvalRun.Status.PENDING).only("app_name", "code_version")


def _give_to_queue(waiting: QuerySet[Run] | QuerySet[EvalRun], run_id: str) -> None:
    """Give a run of `waiting` to the queue, unless it is there."""
    with transaction.atomic():
        if waiting.filter(pk=run_id).exclude(runtime_id=QUEUE_ID).update(runtime_id=QUEUE_ID):
            _defer_run(waiting.get(pk=run_id))


def _defer_run(run: Run | EvalRun) -> None:
    """Write the job of a run."""
    if isinstance(run, EvalRun):
        ProcrastinateQueue().defer_eval_run(run.pk, run.app_name, run.code_version)
    else:
        ProcrastinateQueue().defer_run(run.pk, run.session.app_name, run.session_id)


def _restore_jobs() -> None:
    """Write the jobs of runs that have waited in a queue without one."""
    long_ago = time.time() - WITHOUT_JOB_S
    late_runs: list[Run | EvalRun] = [
        *_queued_runs().filter(runtime_id=QUEUE_ID, created_at__lt=long_ago),
        *_pending_eval_runs().filter(runtime_id=QUEUE_ID, queued_at__lt=long_ago),
    ]
    for run in late_runs:
        if not _has_job(run_id=run.pk):
            _defer_run(run)


def _restore_attempt_jobs() -> None:
    """Write the jobs of attempts that have waited in a queue without one."""
    offered = EvalAttempt.objects.filter(offers.OFFERED, run__status=EvalRun.Status.RUNNING)
    waiting = {str(pk): tries for pk, tries in offered.values_list("pk", "tries")}
    late = _offer_timer.find_unchanged(waiting, WITHOUT_JOB_S)
    for attempt in offered.filter(pk__in=late).select_related("run"):
        if not _has_job(attempt_pk=attempt.pk):
            run = attempt.run
            queue = attempt_queue(run.app_name, run.code_version, run.adk_version)
            ProcrastinateQueue().defer_attempts([attempt.pk], queue)


def _has_job(**arguments: str | int) -> bool:
    jobs = ProcrastinateJob.objects.filter(status__in=UNFINISHED_JOBS)
    return jobs.filter(**{f"args__{name}": value for name, value in arguments.items()}).exists()
