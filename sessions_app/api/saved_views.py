"""Saved views: named searches of the session list."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from sessions_app.api.schemas import REFUSALS, Problem
from sessions_app.errors import NotFound
from sessions_app.sessions import saved_views
from sessions_app.store import units_of_work

router = Router()


class ViewIn(Schema):
    """A view to save."""

    model_config = ConfigDict(extra="forbid")

    name: str
    query: str = Field(description="Query string of the session browser: q=…&app=…")
    replace: bool = Field(default=False, description="Replace the view of this name, if there is one.")


class ViewName(Schema):
    """New name of a view."""

    model_config = ConfigDict(extra="forbid")

    name: str


class ViewOut(Schema):
    """A saved view."""

    id: int
    name: str
    query: str
    created_at: float
    updated_at: float


class Views(Schema):
    """Saved views, ordered by name."""

    views: list[ViewOut]


@router.get("/views", response=Views, tags=["views"])
async def list_views(request: HttpRequest) -> Views:
    """List the saved views."""
    return Views(views=[ViewOut.from_orm(view) for view in await units_of_work.read(saved_views.all_views)])


@router.post("/views", response={201: ViewOut, **REFUSALS}, tags=["views"])
async def save_view(request: HttpRequest, body: ViewIn) -> Status[ViewOut]:
    """Save a view."""
    view = await units_of_work.write(saved_views.save, body.name, body.query, replace=body.replace)
    return Status(201, ViewOut.from_orm(view))


@router.patch("/views/{int:view}", response={200: ViewOut, **REFUSALS}, tags=["views"])
async def rename_view(request: HttpRequest, view: int, body: ViewName) -> ViewOut:
    """Rename a saved view."""
    return ViewOut.from_orm(await units_of_work.write(saved_views.rename, view, body.name))


@router.delete("/views/{int:view}", response={204: None, 404: Problem}, tags=["views"])
async def delete_view(request: HttpRequest, view: int) -> Status[None]:
    """Delete a saved view."""
    if not await units_of_work.write(saved_views.delete, view):
        raise NotFound(f"There is no view {view}.", hint="GET /api/v1/views lists them.")
    return Status(204, None)
