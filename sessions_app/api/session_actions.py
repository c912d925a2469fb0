"""What people do to sessions of a list: title, tags, pin, deletion with a way back, export."""

from __future__ import annotations

from typing import Self

from django.db import transaction
from django.http import HttpRequest, StreamingHttpResponse
from ninja import P, QueryEx, Router, Schema
from pydantic import ConfigDict, Field

from sessions_app.api.schemas import REFUSALS, Problem
from sessions_app.forms import MAX_SESSIONS_PER_ACTION
from sessions_app.http import download
from sessions_app.ids import RowKey
from sessions_app.lookup import find_session
from sessions_app.sessions import deletion, labels
from sessions_app.store import units_of_work
from sessions_app.transfer import exports

router = Router()

Keys = QueryEx[
    list[RowKey], P(description="Keys of sessions.", min_length=1, max_length=MAX_SESSIONS_PER_ACTION)
]


class SessionChange(Schema):
    """What to change; what is left out stays. Neither the agent's state nor the revision is touched."""

    model_config = ConfigDict(extra="forbid")

    title: str | None = Field(default=None, description="Empty: none; pages show the first text then.")
    pinned: bool | None = None
    add_tags: list[str] = []
    remove_tags: list[str] = []


class Sessions(Schema):
    """Sessions by their keys."""

    model_config = ConfigDict(extra="forbid")

    sessions: list[RowKey] = Field(min_length=1, max_length=MAX_SESSIONS_PER_ACTION)


class DeletionOut(Schema):
    """Sessions that were deleted together and can come back together."""

    id: str = Field(description="For POST /api/v1/deletions/{id}/undo.")
    deleted_at: float
    until: float = Field(description="When they are removed for good.")
    sessions: list[int] = Field(description="Their keys.")

    @classmethod
    def of(cls, batch: deletion.DeletionBatch) -> Self:
        """Return what is told of a batch."""
        keys = [session.pk for session in batch.sessions]
        return cls(id=batch.id, deleted_at=batch.deleted_at, until=batch.until, sessions=keys)


class Deleted(Schema):
    """What a deletion has done."""

    deletion: DeletionOut | None = Field(description="null: nothing was deleted.")
    left: list[str] = Field(description="Sessions that were left alone, each with the reason.")


class Deletions(Schema):
    """What can come back, the newest deletion first."""

    deletions: list[DeletionOut]


def change_labels(key: int, labels_change: SessionChange) -> None:
    """Change what people call a session by: all that is wanted, or nothing.

    Raises:
        SessionMissing: there is no such session.
        BadInput: a title or a tag cannot be used.
    """
    with transaction.atomic():
        pk = find_session(key).pk
        if labels_change.title is not None:
            labels.rename(pk, labels_change.title)
        if labels_change.pinned is not None:
            labels.pin([pk], pinned=labels_change.pinned)
        for name in labels_change.add_tags:
            labels.tag([pk], name)
        for name in labels_change.remove_tags:
            labels.untag([pk], name)


@router.get("/sessions/export", response={200: None, 404: Problem, 422: Problem}, tags=["sessions"])
async def export_sessions(request: HttpRequest, session: Keys) -> StreamingHttpResponse:
    """Return a ZIP file with a file a session, as `manage.py export_sessions` writes it, without credentials."""
    file = await units_of_work.read(exports.export_zip, exports.Wanted(pks=tuple(session)))
    return download(file, "sessions.zip", "application/zip")


@router.post("/sessions/delete", response={200: Deleted, **REFUSALS}, tags=["sessions"])
async def delete_sessions(request: HttpRequest, body: Sessions) -> Deleted:
    """Delete sessions with a way back. Those on which a run is active are left alone; 409 when all are."""
    result = await units_of_work.write(deletion.delete, body.sessions)
    return Deleted(deletion=DeletionOut.of(result.batch) if result.batch else None, left=result.left)


@router.get("/deletions", response=Deletions, tags=["sessions"])
async def list_deletions(request: HttpRequest) -> Deletions:
    """List what was deleted and can come back."""
    return Deletions(
        deletions=[DeletionOut.of(batch) for batch in await units_of_work.read(deletion.recent_batches)]
    )


@router.post("/deletions/{batch}/undo", response={200: Sessions, **REFUSALS}, tags=["sessions"])
async def undo_deletion(request: HttpRequest, batch: str) -> Sessions:
    """Bring back what was deleted together, all of it or nothing."""
    return Sessions(sessions=[row.pk for row in await units_of_work.write(deletion.undo, batch)])
