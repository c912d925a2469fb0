"""Requeue runs whose worker is gone or whose job is lost.

Rows decide: a run that waits gets a new job, a conversation run that was in progress has crashed, and an eval run goes
on with the attempts that have not ended. Several workers may look at the same time.
"""

from __future__ import annotations

import time

from django.db import transaction
from django.db.models import Q
from procrastinate.contrib.django.models import ProcrastinateJob

from devui.workers.models import Worker
from devui.workers.queues import QUEUE_ID, ProcrastinateQueue
from evals_app.models import EvalRun
from evals_app.runs.writes import crashes
from evals_app.runs.writes import runs as eval_runs
from sessions_app.models import Run
from sessions_app.runs import lifecycle, processes

WITHOUT_JOB_S = 30.0
"""Age of a run in a queue from which a missing job counts as lost."""

UNFINISHED_JOBS = ("todo", "doing")

GONE = crashes.ProcessDeath("Its worker is gone.", by_itself=False)


def take_over() -> None:
    """End the runs and processes without a living owner, and queue what can go on."""
    processes.mark_gone_stopped()
    _continue_eval_runs()
    _requeue_eval_runs()
    crashes.crash_orphans(spared=Q(runtime__server__isnull=False))
    lifecycle.crash_orphans()
    _requeue_runs()
    _restore_jobs()


def engine_ids_of_gone_workers() -> list[int]:
    """Return the ids in Procrastinate's table of the workers whose process is gone. Their jobs are to be retried."""
    gone = Worker.objects.filter(process__stopped_at__isnull=False, engine_id__isnull=False)
    return list(gone.values_list("engine_id", flat=True))


def _continue_eval_runs() -> None:
    """Make the eval runs pending that a gone worker executed. Those of living workers are theirs to continue."""
    running = EvalRun.objects.filter(runtime__server__stopped_at__isnull=False, status=EvalRun.Status.RUNNING)
    for run_id, runtime_id in list(running.values_list("pk", "runtime_id")):
        if not eval_runs.release_run(run_id):
            for continued in crashes.continue_without_process(runtime_id, GONE):
                _queue_eval_run(continued)


def _requeue_eval_runs() -> None:
    """Queue the pending eval runs that gone workers had taken."""
    pending = EvalRun.objects.filter(crashes.SERVER_GONE, status=EvalRun.Status.PENDING)
    for run_id in list(pending.values_list("pk", flat=True)):
        _queue_eval_run(run_id)


def _queue_eval_run(run_id: str) -> None:
    with transaction.atomic():
        pending = EvalRun.objects.filter(pk=run_id, status=EvalRun.Status.PENDING).exclude(
            runtime_id=QUEUE_ID
        )
        if pending.update(runtime_id=QUEUE_ID):
            run = EvalRun.objects.get(pk=run_id)
            ProcrastinateQueue().defer_eval_run(run.pk, run.app_name, run.code_version)


def _requeue_runs() -> None:
    for run_id, _ in lifecycle.abandoned_runs():
        with transaction.atomic():
            queued = Run.objects.filter(pk=run_id, status=Run.Status.QUEUED).exclude(runtime_id=QUEUE_ID)
            if queued.update(runtime_id=QUEUE_ID):
                _defer(Run.objects.select_related("session").get(pk=run_id))


def _restore_jobs() -> None:
    """Write the jobs of runs that have waited in a queue without one."""
    long_ago = time.time() - WITHOUT_JOB_S
    runs = Run.objects.filter(runtime_id=QUEUE_ID, status=Run.Status.QUEUED, created_at__lt=long_ago)
    for run in runs.select_related("session"):
        if not _has_job(run.pk):
            _defer(run)
    pending = EvalRun.objects.filter(
        runtime_id=QUEUE_ID, status=EvalRun.Status.PENDING, queued_at__lt=long_ago
    )
    for eval_run in pending.only("app_name", "code_version"):
        if not _has_job(eval_run.pk):
            ProcrastinateQueue().defer_eval_run(eval_run.pk, eval_run.app_name, eval_run.code_version)


def _defer(run: Run) -> None:
    ProcrastinateQueue().defer_run(run.pk, run.session.app_name, run.session_id)


def _has_job(run_id: str) -> bool:
    return bool(ProcrastinateJob.objects.filter(status__in=UNFINISHED_JOBS, args__run_id=run_id).exists())
