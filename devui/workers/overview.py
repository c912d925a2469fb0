"""Read model of the page and API of workers: all workers with their runs, what waits for them, and held models."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Count, Q

from devui.workers import worker_control
from devui.workers.models import Worker
from devui.workers.waiting import Capacity, WaitingRuns, read_capacity, read_waiting
from devui.workers.worker_facts import WorkerFacts
from evals_app.models import EvalAttempt, EvalRun
from evals_app.rates.model_rates import HeldModel, held_models
from sessions_app.agent_processes import processes
from sessions_app.store.models import AgentSession, Run


class WorkerStatus(StrEnum):
    """Status of a worker."""

    ALIVE = "alive"
    DRAINING = "draining"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """A conversation run that a worker executes, or an eval run that it coordinates or executes attempts of.

    Attributes:
        session: the session of a conversation run; None: it is an eval run.
        title: name of the session or evalset.
        attempts: number of attempts of the eval run that the worker executes now.
    """

    run_id: str
    app_name: str
    title: str
    started_at: float | None
    session: AgentSession | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class ListedWorker:
    """A worker, living or gone, and its runs."""

    row: Worker
    facts: WorkerFacts
    status: WorkerStatus
    slots_taken: int
    work: list[WorkerRun]

    @property
    def seconds_silent(self) -> float:
        """Seconds since the last heartbeat, by the clocks of both hosts."""
        heartbeat_at: float = self.row.process.heartbeat_at
        return max(0.0, time.time() - heartbeat_at)

    @property
    def is_silent(self) -> bool:
        """Tell whether a heartbeat is overdue, but the worker does not count as gone yet."""
        return self.status != WorkerStatus.GONE and self.seconds_silent > 2 * processes.HEARTBEAT_S


@dataclass(frozen=True, slots=True)
class WorkerOverview:
    """All workers, the runs that wait for one, and the models that attempts wait for."""

    workers: list[ListedWorker]
    waiting: list[WaitingRuns]
    held_models: list[HeldModel]

    def count(self, status: WorkerStatus) -> int:
        """Return the number of workers with a status."""
        return sum(worker.status == status for worker in self.workers)

    def waiting_counts(self) -> Counter[tuple[str, str, str]]:
        """Return the number of waiting runs by (kind, app, code of the reason)."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for group in self.waiting:
            counts[group.kind, group.app_name, group.reason.code] += group.count
        return counts


def read_overview() -> WorkerOverview:
    """Return all workers and what waits. Ten queries."""
    rows = Worker.objects.select_related("process").filter(removed_at__isnull=True)
    ordered = sorted(
        rows, key=lambda row: (row.process.stopped_at is not None, row.process.started_at, row.pk)
    )
    statuses = {row.pk: _worker_status(row) for row in ordered}
    facts = {row.pk: WorkerFacts.from_row(row) for row in ordered}
    capacity = read_capacity([facts[pk] for pk, status in statuses.items() if status != WorkerStatus.GONE])
    work = _worker_runs([pk for pk, status in statuses.items() if status != WorkerStatus.GONE])
    workers = [
        ListedWorker(
            row, facts[row.pk], statuses[row.pk], _slots_taken(capacity, facts[row.pk]), work[row.pk]
        )
        for row in ordered
    ]
    return WorkerOverview(workers, read_waiting(capacity), held_models())


def find_listed_worker(worker_id: str) -> ListedWorker:
    """Return one worker with its runs.

    Raises:
        NotFound: there is no such worker.
    """
    worker_control.find_worker(worker_id)
    return next(worker for worker in read_overview().workers if worker.row.pk == worker_id)


def _slots_taken(capacity: Capacity, worker: WorkerFacts) -> int:
    return capacity.count_taken_slots(worker) if worker in capacity.workers else 0


def _worker_status(row: Worker) -> WorkerStatus:
    if row.process.stopped_at is not None or not processes.is_alive(row.process):
        return WorkerStatus.GONE
    return WorkerStatus.DRAINING if row.is_draining else WorkerStatus.ALIVE


def _worker_runs(worker_ids: Collection[str]) -> defaultdict[str, list[WorkerRun]]:
    """Return the runs of workers, by the worker's id. Three queries."""
    work: defaultdict[str, list[WorkerRun]] = defaultdict(list)
    for worker_id, run in [*_conversation_runs(worker_ids), *_eval_runs(worker_ids)]:
        work[worker_id].append(run)
    return work


def _conversation_runs(worker_ids: Collection[str]) -> Iterator[tuple[str, WorkerRun]]:
    runs = Run.objects.select_related("session", "runtime").filter(
        runtime__server__in=worker_ids, status=Run.Status.RUNNING
    )
    for run in runs.defer("request").order_by("started_at", "pk"):
        worker_id = str(run.runtime.server_id) if run.runtime else ""
        session = run.session
        yield worker_id, WorkerRun(run.pk, session.app_name, session.name, run.started_at, session)


def _eval_runs(worker_ids: Collection[str]) -> Iterator[tuple[str, WorkerRun]]:
    """Yield the eval runs that workers coordinate or of which they execute attempts, with the number of these."""
    attempts = EvalAttempt.objects.filter(
        runtime__server__in=worker_ids, status=EvalAttempt.Status.RUNNING
    ).values_list("runtime__server_id", "run_id")
    counts = {(str(server), run): count for server, run, count in attempts.annotate(Count("pk")).order_by()}
    is_busy = Q(runtime__in=worker_ids, status=EvalRun.Status.RUNNING)
    is_busy |= Q(pk__in={run for _, run in counts})
    runs = EvalRun.objects.filter(is_busy).select_related("evalset").order_by("started_at", "pk")
    for run in runs.only("app_name", "started_at", "status", "evalset__evalset_id", "runtime"):
        coordinator = str(run.runtime_id) if run.status == EvalRun.Status.RUNNING else ""
        executors = {server for server, run_id in counts if run_id == run.pk}
        for worker_id in (executors | {coordinator}) & set(worker_ids):
            attempt_count = counts.get((worker_id, run.pk), 0)
            yield (
                worker_id,
                WorkerRun(
                    run.pk, run.app_name, run.evalset.evalset_id, run.started_at, attempts=attempt_count
                ),
            )
