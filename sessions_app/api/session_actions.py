"""Operations on sessions of a list: title, tags, pin, deletion with undo, export."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import P, QueryEx, Schema
from pydantic import ConfigDict, Field

from sessions_app import roles
from sessions_app.api import snapshots
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS, ROW_PK, ErrorBody
from sessions_app.forms.lists import MAX_SESSIONS_PER_ACTION
from sessions_app.http import download, download_page, note_object
from sessions_app.lookup import find_session
from sessions_app.sessions import deletion
from sessions_app.store.database import units_of_work
from sessions_app.store.ids import RowKey
from sessions_app.transfer import exports, html_page

router = Router()

Keys = QueryEx[
    list[RowKey], P(description="Keys of sessions.", min_length=1, max_length=MAX_SESSIONS_PER_ACTION)
]


class SessionChange(Schema):
    """Changes to a session's title, pin and tags; omitted fields stay. The state and the revision stay, too."""

    model_config = ConfigDict(extra="forbid")

    title: str | None = Field(default=None, description="Empty: no title; pages then show the first text.")
    pinned: bool | None = None
    add_tags: list[str] = []
    remove_tags: list[str] = []


class Sessions(Schema):
    """Sessions by their keys."""

    model_config = ConfigDict(extra="forbid")

    sessions: list[RowKey] = Field(min_length=1, max_length=MAX_SESSIONS_PER_ACTION)


class DeletionOut(Schema):
    """A deletion of one or more sessions that can be undone."""

    id: str = Field(description="For POST /api/v1/deletions/{id}/undo.")
    deleted_at: float
    until: float = Field(description="Time at which the sessions are removed for good.")
    sessions: list[Annotated[int, ROW_PK]] = Field(description="Their keys.")


class Deleted(Schema):
    """Result of a deletion."""

    deletion: DeletionOut | None = Field(validation_alias="batch", description="null: nothing was deleted.")
    skipped: list[str] = Field(description="Sessions that were not deleted, each with the reason.")


class Deletions(Schema):
    """Deletions that can be undone, newest first."""

    deletions: list[DeletionOut]


@router.get("/sessions/export", response={200: None, 404: ErrorBody, 422: ErrorBody}, tags=["sessions"])
@needs(get=roles.EXPORT)
async def export_sessions(request: HttpRequest, session: Keys) -> StreamingHttpResponse:
    """Return the sessions as `manage.py export_sessions` writes them (JSON Lines), without credentials."""
    note_object(request, ", ".join(map(str, session)))
    file = await units_of_work.read(exports.open_export, exports.ExportFilter(pks=tuple(session)))
    return download(file, "sessions.jsonl", exports.CONTENT_TYPE)


@router.get(
    "/sessions/{int:session}/html", response={200: None, 404: ErrorBody, 422: ErrorBody}, tags=["sessions"]
)
@needs(get=roles.EXPORT)
async def export_session(request: HttpRequest, session: int) -> HttpResponse:
    """Return a session's timeline and state as one HTML file, without credentials."""
    page = await units_of_work.read(lambda: html_page.session_html(find_session(session)))
    return download_page(page, f"session-{session}")


@router.get(
    "/sessions/{int:session}/adk", response={200: None, 404: ErrorBody, 422: ErrorBody}, tags=["sessions"]
)
@needs(get=roles.EXPORT)
async def export_adk_session(request: HttpRequest, session: int) -> StreamingHttpResponse:
    """Return a session as a file of ADK's JSON, as its front end downloads it, without credentials."""
    snapshot = await units_of_work.read(snapshots.take_snapshot_by_key, session)
    headers = {"Content-Disposition": f'attachment; filename="session-{session}.json"'}
    return StreamingHttpResponse(
        snapshots.stream_json(snapshot), content_type="application/json", headers=headers
    )


@router.post("/sessions/delete", response={200: Deleted, **REFUSALS}, tags=["sessions"])
@needs(post=roles.DELETE)
async def delete_sessions(request: HttpRequest, body: Sessions) -> deletion.DeletionResult:
    """Delete sessions; the deletion can be undone. Sessions with an active run are skipped; 409 if all have one."""
    note_object(request, ", ".join(map(str, body.sessions)))
    return await units_of_work.write(deletion.delete, body.sessions)


@router.get("/deletions", response=Deletions, tags=["sessions"])
async def list_deletions(request: HttpRequest) -> dict[str, Any]:
    """List deletions that can be undone."""
    return {"deletions": await units_of_work.read(deletion.recent_batches)}


@router.post("/deletions/{batch}/undo", response={200: Sessions, **REFUSALS}, tags=["sessions"])
@needs(post=roles.RESTORE)
async def undo_deletion(request: HttpRequest, batch: str) -> Sessions:
    """Undo a deletion: restore all of its sessions, or none."""
    return Sessions(sessions=[row.pk for row in await units_of_work.write(deletion.undo, batch)])
