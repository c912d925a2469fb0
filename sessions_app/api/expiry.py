"""Time to live of an app's sessions, and the user's active session."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field, Strict

from sessions_app import roles
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import ErrorBody, SessionOut
from sessions_app.http import note_object
from sessions_app.sessions import app_settings, overview
from sessions_app.store import durations, expiry
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import NotFound
from sessions_app.store.sessions import active_session

router = Router()

Span = Annotated[float, Strict()] | str


class AppSettingsOut(Schema):
    """Settings of an app."""

    app: str
    session_ttl_s: float | None = Field(description="Seconds without an event; null: sessions never expire.")
    session_ttl: str | None = Field(description="The same as a span, such as 30d.")


class AppSettingsIn(Schema):
    """New settings of an app."""

    model_config = ConfigDict(extra="forbid")

    session_ttl: Span | None = Field(description="Seconds, or a span: 30d, 12h, 90m; null: never expire.")


class ActiveIn(Schema):
    """App and user of the session to continue, and the maximum age of its last event."""

    model_config = ConfigDict(extra="forbid")

    app: str
    user: str
    ttl: Span | None = Field(
        default=None, description="Seconds, or a span: 30d, 12h, 90m; null: the app's setting, else no limit."
    )
    state: dict[str, Any] | None = Field(default=None, description="Initial state of a new session.")


class ActiveOut(Schema):
    """The session to continue."""

    created: bool = Field(description="The session is new: there was none to continue.")
    session: SessionOut


@router.get("/apps/{seg:app}/settings", response={200: AppSettingsOut, 404: ErrorBody}, tags=["apps"])
async def get_settings(request: HttpRequest, app: str) -> AppSettingsOut:
    """Return the settings of an app."""
    return await units_of_work.read(_read_settings, app)


@router.put(
    "/apps/{seg:app}/settings",
    response={200: AppSettingsOut, 400: ErrorBody, 404: ErrorBody, 422: ErrorBody},
    tags=["apps"],
)
@needs(put=roles.CHANGE_SETTINGS)
async def put_settings(request: HttpRequest, app: str, body: AppSettingsIn) -> AppSettingsOut:
    """Set the time to live of an app's sessions. Expired sessions are marked, not removed."""
    await units_of_work.read(_read_settings, app)
    await units_of_work.write(app_settings.set_session_ttl, app, _parse_seconds(body.session_ttl))
    return await retry.read(_read_settings, app)


@router.post(
    "/sessions/active",
    response={200: ActiveOut, 201: ActiveOut, 400: ErrorBody, 422: ErrorBody},
    tags=["sessions"],
)
@needs(post=roles.CREATE)
async def get_or_create_session(request: HttpRequest, body: ActiveIn) -> Status[ActiveOut]:
    """Return a user's newest session in an app if its last event is recent enough, else create one (201)."""
    session, created = await units_of_work.write(
        active_session.get_or_create, body.app, body.user, _parse_seconds(body.ttl), state=body.state
    )
    note_object(request, session.pk, app=body.app)
    active = await retry.read(ActiveOut.model_validate, {"created": created, "session": session})
    return Status(201 if created else 200, active)


def _parse_seconds(span: Span | None) -> float | None:
    return durations.parse(span) if isinstance(span, str) else span


def _read_settings(app: str) -> AppSettingsOut:
    ttl_s = expiry.app_ttl(app)
    if ttl_s is None and overview.find_agent(app) is None:
        raise NotFound(f"No app {app!r}.", hint="GET /list-apps names the apps.")
    ttl_text = None if ttl_s is None else durations.format_seconds(ttl_s)
    return AppSettingsOut(app=app, session_ttl_s=ttl_s, session_ttl=ttl_text)
