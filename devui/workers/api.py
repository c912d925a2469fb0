"""Workers in DevUI's API."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import P, PathEx, Schema
from ninja.responses import Status
from pydantic import Field

from devui.workers import worker_control
from devui.workers.overview import WorkerOverview, WorkerRun, read_overview
from devui.workers.roles import DRAIN, REMOVE
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import NULL_IF_EMPTY, ROW_PK, ErrorBody
from sessions_app.store.database import units_of_work

router = Router(tags=["workers"])

WorkerId = PathEx[str, P(description="The worker's id.")]


class WorkerRunOut(Schema):
    """A conversation run that a worker executes, or an eval run that it coordinates or executes attempts of."""

    kind: Literal["conversation", "eval"]
    run: str = Field(validation_alias="run_id", description="Id of the run or eval run.")
    app: str = Field(validation_alias="app_name")
    title: str = Field(description="Name of the session or evalset.")
    session: Annotated[int, ROW_PK] | None = Field(description="Key of the session of a conversation run.")
    attempts: int = Field(description="Attempts of the eval run that this worker executes now.")
    started_at: float | None

    @staticmethod
    def resolve_kind(run: WorkerRun) -> str:
        """Return the kind of the run."""
        return "conversation" if run.session else "eval"


class WorkerOut(Schema):
    """A worker."""

    id: str = Field(validation_alias="facts.id")
    status: Literal["alive", "draining", "gone"]
    host: str = Field(validation_alias="facts.host")
    pid: int = Field(validation_alias="row.process.pid")
    address: str = Field(
        validation_alias="facts.address", description="HOST:PORT at which web processes reach it."
    )
    apps: dict[str, str] = Field(validation_alias="facts.apps", description="App → hash of its code.")
    adk_version: str = Field(validation_alias="facts.adk_version")
    queues: list[str] = Field(
        validation_alias="facts.kinds", description="Kinds of runs that it takes: conversations, evals."
    )
    slots: int = Field(
        validation_alias="facts.concurrency",
        description="Conversation runs and eval attempts that it executes at once.",
    )
    slots_taken: int
    work: list[WorkerRunOut]
    started_at: float = Field(validation_alias="row.process.started_at")
    heartbeat_at: float = Field(
        validation_alias="row.process.heartbeat_at", description="By the clock of its host."
    )


class WaitingOut(Schema):
    """Runs of an app, or attempts of an eval run, that wait for the same reason."""

    kind: str = Field(description="conversations, evals or attempts.")
    app: str = Field(validation_alias="app_name")
    reason: str = Field(
        validation_alias="reason.code",
        description="Code of the reason, such as no_app, no_code, slots or session_busy.",
    )
    detail: str = Field(validation_alias="reason.text", description="The reason as a sentence.")
    count: int
    run: Annotated[str | None, NULL_IF_EMPTY] = Field(
        validation_alias="run_id", description="Id of an eval run; null for conversations."
    )
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
async def list_workers(request: HttpRequest) -> WorkerOverview:
    """List workers and what waits for them."""
    return await units_of_work.read(read_overview)


@router.post("/{worker_id}/drain", response={204: None, 404: ErrorBody})
@needs(post=DRAIN)
async def drain_worker(request: HttpRequest, worker_id: WorkerId) -> Status[None]:
    """Let a worker finish its runs, take no more, and end, as on SIGTERM. Returns before the worker ends.

    Raises:
        NotFound: there is no such worker.
    """
    await units_of_work.write(worker_control.drain_worker, worker_id)
    return Status(204, None)


@router.delete("/{worker_id}", response={204: None, 404: ErrorBody})
@needs(delete=REMOVE)
async def remove_worker(request: HttpRequest, worker_id: WorkerId) -> Status[None]:
    """Stop listing a worker that is gone, or end a living one at once. Other workers take over its runs.

    Raises:
        NotFound: there is no such worker.
    """
    await units_of_work.write(worker_control.remove_worker, worker_id)
    return Status(204, None)
