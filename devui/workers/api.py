"""Workers in DevUI's API."""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest
from ninja import P, PathEx, Router, Schema
from ninja.responses import Status
from pydantic import Field

from devui.workers import worker_control
from devui.workers.overview import ListedWorker, WorkerRun, read_overview
from devui.workers.waiting import WaitingRuns
from sessions_app.api.schemas import Problem
from sessions_app.store.database import units_of_work

router = Router(tags=["workers"])

WorkerId = PathEx[str, P(description="The worker's id.")]


class WorkerRunOut(Schema):
    """A conversation run that a worker executes, or an eval run that it coordinates or executes attempts of."""

    kind: Literal["conversation", "eval"]
    run: str = Field(description="Id of the run or eval run.")
    app: str
    title: str = Field(description="Name of the session or evalset.")
    session: int | None = Field(description="Key of the session of a conversation run.")
    attempts: int = Field(description="Attempts of the eval run that this worker executes now.")
    started_at: float | None


class WorkerOut(Schema):
    """A worker."""

    id: str
    status: Literal["alive", "draining", "gone"]
    host: str
    pid: int
    address: str = Field(description="HOST:PORT at which web processes reach it.")
    apps: dict[str, str] = Field(description="App → hash of its code.")
    adk_version: str
    queues: list[str] = Field(description="Kinds of runs that it takes: conversations, evals.")
    slots: int = Field(description="Conversation runs and eval attempts that it executes at once.")
    slots_taken: int
    work: list[WorkerRunOut]
    started_at: float
    heartbeat_at: float = Field(description="By the clock of its host.")


class WaitingOut(Schema):
    """Runs of an app, or attempts of an eval run, that wait for the same reason."""

    kind: str = Field(description="conversations, evals or attempts.")
    app: str
    reason: str = Field(description="Code of the reason, such as no_app, no_code, slots or session_busy.")
    detail: str = Field(description="The reason as a sentence.")
    count: int
    run: str | None = Field(description="Id of an eval run; null for conversations.")
    since: float = Field(description="When the oldest was queued, or the run of the attempts started.")


class HeldModelOut(Schema):
    """A model that must not be asked now, by a rate limit or because its service said so."""

    model: str
    reason: str
    until: float


class OverviewOut(Schema):
    """All workers, those that are gone last, and the runs that wait, the oldest first."""

    workers: list[WorkerOut]
    waiting: list[WaitingOut]
    held_models: list[HeldModelOut] = Field(description="Models that attempts wait for.")


@router.get("", response=OverviewOut)
async def list_workers(request: HttpRequest) -> OverviewOut:
    """List workers and what waits for them."""
    overview = await units_of_work.read(read_overview)
    return OverviewOut(
        workers=[_worker_out(worker) for worker in overview.workers],
        waiting=[_waiting_out(group) for group in overview.waiting],
        held_models=[
            HeldModelOut(model=held.model, reason=held.reason, until=held.until)
            for held in overview.held_models
        ],
    )


@router.post("/{worker_id}/drain", response={204: None, 404: Problem})
async def drain_worker(request: HttpRequest, worker_id: WorkerId) -> Status[None]:
    """Let a worker finish its runs, take no more, and end, as on SIGTERM. Returns before the worker ends.

    Raises:
        NotFound: there is no such worker.
    """
    await units_of_work.write(worker_control.drain_worker, worker_id)
    return Status(204, None)


@router.delete("/{worker_id}", response={204: None, 404: Problem})
async def remove_worker(request: HttpRequest, worker_id: WorkerId) -> Status[None]:
    """Stop listing a worker that is gone, or end a living one at once. Other workers take over its runs.

    Raises:
        NotFound: there is no such worker.
    """
    await units_of_work.write(worker_control.remove_worker, worker_id)
    return Status(204, None)


def _worker_out(worker: ListedWorker) -> WorkerOut:
    facts, process = worker.facts, worker.row.process
    return WorkerOut(
        id=facts.id,
        status=worker.status.value,
        host=facts.host,
        pid=process.pid,
        address=facts.address,
        apps=dict(facts.apps),
        adk_version=worker.row.adk_version,
        queues=list(facts.kinds),
        slots=facts.concurrency,
        slots_taken=worker.slots_taken,
        work=[_run_out(run) for run in worker.work],
        started_at=process.started_at,
        heartbeat_at=process.heartbeat_at,
    )


def _run_out(run: WorkerRun) -> WorkerRunOut:
    return WorkerRunOut(
        kind="conversation" if run.session else "eval",
        run=run.run_id,
        app=run.app_name,
        title=run.title,
        session=run.session.pk if run.session else None,
        attempts=run.attempts,
        started_at=run.started_at,
    )


def _waiting_out(group: WaitingRuns) -> WaitingOut:
    return WaitingOut(
        kind=group.kind,
        app=group.app_name,
        reason=group.reason.code,
        detail=group.reason.text,
        count=group.count,
        run=group.run_id or None,
        since=group.since,
    )
