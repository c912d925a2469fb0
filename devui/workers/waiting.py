"""Runs and attempts that wait for a worker, and the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, QuerySet
from procrastinate.contrib.django.models import ProcrastinateJob

from devui.workers.queues import ATTEMPTS, CONVERSATIONS, EVALS
from devui.workers.worker_facts import WorkerFacts, living_workers
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.writes import offers
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store.models import Run

CODE_LENGTH = 7
"""Characters of a code hash in texts, as on pages."""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """The reason for which a run or attempt waits: a code for programs, and a sentence for people."""

    code: str
    text: str


STARTING = WaitReason("starting", "A worker has it: the agent's process is starting, or is being replaced.")
DELIVERY = WaitReason("delivery", "A worker is about to take it.")
SESSION_BUSY = WaitReason("session_busy", "Another run of its session is active.")
PROCESSES_BUSY = WaitReason("processes_busy", "The processes with its code are busy with other attempts.")
NO_WORKER = WaitReason("no_worker", "No worker is running.")


@dataclass(frozen=True, slots=True)
class Capacity:
    """The slots of living workers, and which of them are taken.

    Attributes:
        slots_taken: number of jobs by the worker's id in Procrastinate's table.
    """

    workers: Sequence[WorkerFacts]
    slots_taken: Mapping[int, int] = field(default_factory=dict)

    def count_taken_slots(self, worker: WorkerFacts) -> int:
        """Return the number of slots of a worker that are taken."""
        return self.slots_taken.get(worker.engine_id or 0, 0)

    def explain(self, kind: str, app_name: str, code_version: str = "", adk_version: str = "") -> WaitReason:
        """Return why no worker has begun a run or attempt.

        Args:
            kind: kind of queues.
            code_version, adk_version: what the run or attempt needs; empty: any.
        """
        if not self.workers:
            return NO_WORKER
        with_app = [worker for worker in self.workers if app_name in worker.apps]
        if not with_app:
            return WaitReason("no_app", f"No worker has app {app_name}.")
        if code_version:
            with_app = [worker for worker in with_app if worker.apps[app_name] == code_version]
        if not with_app:
            return WaitReason(
                "no_code", f"No worker has code {code_version[:CODE_LENGTH]} of app {app_name}."
            )
        if adk_version:
            with_app = [worker for worker in with_app if worker.adk_version == adk_version]
        if not with_app:
            return WaitReason("no_adk", f"No worker with the code of app {app_name} has ADK {adk_version}.")
        of_kind = [worker for worker in with_app if kind in worker.kinds]
        if not of_kind:
            return WaitReason("no_queue", f"No worker with app {app_name} takes {kind} (--queues).")
        ready = [worker for worker in of_kind if not worker.is_draining]
        if not ready:
            return WaitReason("draining", f"All workers with app {app_name} are draining.")
        if all(self.count_taken_slots(worker) >= worker.concurrency for worker in ready):
            slots = sum(worker.concurrency for worker in ready)
            subject, verb = (f"All {slots} slots", "are") if slots > 1 else ("The only slot", "is")
            return WaitReason("slots", f"{subject} of the workers with app {app_name} {verb} taken.")
        return DELIVERY


@dataclass(frozen=True, slots=True)
class WaitingRuns:
    """Runs of one app, or attempts of one eval run, that wait for the same reason.

    Attributes:
        kind: `conversations`, `evals` or `attempts`.
        since: when the oldest was queued, or the run of the attempts started, in epoch seconds.
        run_id, title: an eval run and the name of its evalset, if the group is only that; else empty.
    """

    kind: str
    app_name: str
    reason: WaitReason
    count: int
    since: float
    run_id: str = ""
    title: str = ""


def read_capacity(workers: Sequence[WorkerFacts] | None = None) -> Capacity:
    """Return the living workers and the slots that are taken. One query, and one for the workers unless given."""
    jobs = ProcrastinateJob.objects.filter(status="doing", worker_id__isnull=False)
    taken = Counter(dict(jobs.values_list("worker_id").annotate(Count("pk")).order_by()))
    return Capacity(living_workers() if workers is None else workers, taken)


def read_waiting(capacity: Capacity) -> list[WaitingRuns]:
    """Return what waits, grouped by app and reason, the oldest first. Three queries."""
    groups = [*_waiting_conversations(capacity), *_eval_runs(capacity), *_waiting_attempts(capacity)]
    return sorted(groups, key=lambda group: group.since)


def explain(run: Run | EvalRun) -> str:
    """Return why a queued run, a pending eval run or the attempts of a running one wait. At most three queries."""
    return _wait_reason(run).text


def _wait_reason(run: Run | EvalRun) -> WaitReason:
    if run.status == EvalRun.Status.RUNNING and isinstance(run, EvalRun):
        return read_capacity().explain(EVALS, run.app_name, run.code_version, run.adk_version)
    if run.runtime_id != QUEUE_ID:
        return STARTING
    if isinstance(run, EvalRun):
        return read_capacity().explain(EVALS, run.app_name, run.code_version)
    if _older_runs(run.session_id, run.created_at).exists():
        return SESSION_BUSY
    return read_capacity().explain(CONVERSATIONS, run.session.app_name)


def _waiting_conversations(capacity: Capacity) -> Iterable[WaitingRuns]:
    queued = Run.objects.filter(status=Run.Status.QUEUED).annotate(
        is_session_busy=Exists(_older_runs(OuterRef("session_id"), OuterRef("created_at")))
    )
    groups = queued.values_list("session__app_name", "runtime_id", "is_session_busy")
    by_reason: dict[tuple[str, WaitReason], WaitingRuns] = {}
    for app_name, runtime_id, is_busy, count, since in groups.annotate(
        Count("pk"), Min("created_at")
    ).order_by():
        if runtime_id != QUEUE_ID:
            reason = STARTING
        else:
            reason = SESSION_BUSY if is_busy else capacity.explain(CONVERSATIONS, app_name)
        group = by_reason.get((app_name, reason))
        by_reason[app_name, reason] = WaitingRuns(
            CONVERSATIONS,
            app_name,
            reason,
            count + (group.count if group else 0),
            min(since, group.since) if group else since,
        )
    return by_reason.values()


def _eval_runs(capacity: Capacity) -> Iterable[WaitingRuns]:
    """Yield each pending eval run: there are few, and each has a page."""
    pending = EvalRun.objects.filter(status=EvalRun.Status.PENDING).order_by("queued_at")
    for run in pending.select_related("evalset").only(
        "app_name", "code_version", "runtime", "queued_at", "created_at", "evalset__evalset_id"
    ):
        is_queued = run.runtime_id == QUEUE_ID
        reason = capacity.explain(EVALS, run.app_name, run.code_version) if is_queued else STARTING
        since = run.queued_at or run.created_at
        yield WaitingRuns(EVALS, run.app_name, reason, 1, since, run.pk, run.evalset.evalset_id)


def _waiting_attempts(capacity: Capacity) -> Iterable[WaitingRuns]:
    """Yield the offered attempts of each running eval run."""
    running = EvalAttempt.objects.filter(run=OuterRef("run"), status=EvalAttempt.Status.RUNNING)
    offered = EvalAttempt.objects.filter(offers.OFFERED, run__status=EvalRun.Status.RUNNING)
    columns = ("run_id", "run__app_name", "run__code_version", "run__adk_version", "run__started_at")
    groups = offered.annotate(others_run=Exists(running)).values_list(
        *columns, "run__evalset__evalset_id", "others_run"
    )
    for run_id, app_name, code, adk, since, title, others_run, count in groups.annotate(
        Count("pk")
    ).order_by():
        reason = capacity.explain(EVALS, app_name, code, adk)
        if others_run and reason.code not in ("slots", DELIVERY.code):
            reason = PROCESSES_BUSY  # which loaded the code before it changed
        yield WaitingRuns(ATTEMPTS, app_name, reason, count, since or 0.0, run_id, title)


def _older_runs(session_pk: Any, created_at: Any) -> QuerySet[Run]:
    """Return the active runs of a session that come before a run."""
    return Run.objects.filter(session_id=session_pk, status__in=Run.ACTIVE, created_at__lt=created_at)
