"""ADK's own REST paths: its front end and any ADK client work with DevUI unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import uuid
from contextlib import suppress
from http import HTTPStatus
from importlib.metadata import version as version_of
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from sessions_app import roles
from sessions_app.agents.folder import find_initial_state
from sessions_app.api import app_details, proxy, quota_check, request_bodies, snapshots
from sessions_app.api.routing import Router, needs
from sessions_app.http import json_text, note_object, person_name
from sessions_app.paths import upstream_path
from sessions_app.runs.runtime_client import provider
from sessions_app.sessions import deletion, state_edits, storage_location
from sessions_app.store import scopes
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import BadInput, SessionMissing
from sessions_app.store.ids import check_ids
from sessions_app.store.runs import session_runs
from sessions_app.store.session_key import SessionKey, StorableKey
from sessions_app.store.sessions import writes
from sessions_app.transfer.session_restore import restore_session

SESSIONS = "/apps/{seg:app_name}/users/{seg:user_id}/sessions"
SESSION = SESSIONS + "/{seg:session_id}"

REFUSAL = "Session initialization event"
"""Prefix of ADK's error for an event with actions; ADK checks the events' validity first."""

SESSION_FIELDS = (("userId", "user_id"), ("sessionId", "session_id"))
"""Fields of a run's body that name its session, in both spellings."""

router = Router()


@router.get("/health")
@needs(get=roles.PUBLIC)
async def health(request: HttpRequest) -> dict[str, str]:
    """Report that the server is up."""
    return {"status": "ok"}


@router.get("/version")
async def version(request: HttpRequest) -> dict[str, str]:
    """Return the versions of ADK and of the language, under ADK's names."""
    return {
        "version": version_of("google-adk"),
        "language": "python",
        "language_version": platform.python_version(),
    }


@router.get("/list-apps")
async def list_apps(request: HttpRequest, detailed: bool = False) -> Any:
    """List the apps by name or, with `detailed`, with their agents' descriptions."""
    if detailed:
        return {"apps": await app_details.details()}
    return provider().apps()


@router.get(SESSIONS)
async def list_sessions(request: HttpRequest, app_name: str, user_id: str) -> HttpResponseBase:
    """List a user's sessions with state and without events; sessions of evals are left out."""
    if storage_location.find_session_owner(app_name):
        return await proxy.forward(request, app_name, upstream_path(app_name, user_id))
    return json_text(await units_of_work.read(snapshots.sessions_json, app_name, user_id))


@router.get(SESSION)
async def get_session(request: HttpRequest, app_name: str, user_id: str, session_id: str) -> HttpResponseBase:
    """Return a session with all its events, also that of an eval attempt."""
    if storage_location.find_session_owner(app_name) and not await units_of_work.read(
        _has_realm, app_name, user_id, session_id
    ):
        return await proxy.forward(request, app_name, upstream_path(app_name, user_id, session_id))
    snapshot = await units_of_work.read(snapshots.take_snapshot, app_name, user_id, session_id)
    return StreamingHttpResponse(snapshots.stream_json(snapshot), content_type="application/json")


@router.post(SESSIONS)
@needs(post=roles.CREATE)
async def create_session(request: HttpRequest, app_name: str, user_id: str) -> HttpResponseBase:
    """Create a session. A request with events is forwarded to ADK's own server, which validates them.

    That server refuses events that changed state or called tools, and thereby exports of its own front end; such a
    session is imported.
    """
    body = request_bodies.parse(request)
    new_session = (
        request_bodies.validate_optional(body, request_bodies.CreateSession) or request_bodies.CreateSession()
    )
    if session_id := (new_session.session_id or "").strip():
        note_object(request, user_id, session_id)
    if new_session.events or storage_location.find_session_owner(app_name):
        await asyncio.to_thread(request_bodies.refuse_deep_nesting, body)
        response = await proxy.forward(request, app_name, upstream_path(app_name, user_id))
        if storage_location.find_session_owner(app_name) or not _is_refused_for_its_events(response):
            return response
        key = SessionKey("", app_name, user_id, (new_session.session_id or "").strip() or str(uuid.uuid4()))
        # In the pool of readers: it writes in many small transactions of its own.
        await units_of_work.read(_restore_session, key, new_session.events or [], new_session.state or {})
        return await _stored_session(*key[1:])
    request_bodies.refuse_options(new_session.options)
    return await _create_session(app_name, user_id, new_session.session_id, new_session.state)


@router.post(SESSION)
@needs(post=roles.CREATE)
async def create_session_with_id(
    request: HttpRequest, app_name: str, user_id: str, session_id: str
) -> HttpResponseBase:
    """Create a session with an id; the body is its state. Deprecated in ADK."""
    body = request_bodies.parse(request)
    if storage_location.find_session_owner(app_name):
        await asyncio.to_thread(request_bodies.refuse_deep_nesting, body)
        return await proxy.forward(request, app_name, upstream_path(app_name, user_id, session_id))
    initial = request_bodies.validate_optional(body, dict[str, Any])
    return await _create_session(app_name, user_id, session_id, initial)


@router.patch(SESSION)
@needs(patch=roles.EDIT_STATE)
async def update_session(
    request: HttpRequest, app_name: str, user_id: str, session_id: str
) -> HttpResponseBase:
    """Change a session's state by an appended event. A title, as ADK's front end sends it, is stored as the title.

    The front end sends the whole unchanged state with a new title; that appends no event. An external service stores
    the title as a state key; the copy of its session gets it as title, too.
    """
    delta = request_bodies.validate(request_bodies.parse(request), request_bodies.UpdateSession).state_delta
    title = _title_in({name: value for name, value in delta.items() if name == snapshots.TITLE_KEY})
    if storage_location.find_session_owner(app_name):
        await asyncio.to_thread(request_bodies.refuse_deep_nesting, delta)
        await units_of_work.read(_refuse_busy, app_name, user_id, session_id)
        path = upstream_path(app_name, user_id, session_id)
        response = await proxy.forward(request, app_name, path)
        if title is not None and response.status_code == HTTPStatus.OK:
            await units_of_work.write(
                _rename_copy, app_name, user_id, session_id, title, person_name(request)
            )
        return response
    other_keys = {name: value for name, value in delta.items() if name != snapshots.TITLE_KEY}
    if title is not None and await units_of_work.read(
        snapshots.has_values, app_name, user_id, session_id, other_keys
    ):
        await units_of_work.write(_rename_session, app_name, user_id, session_id, title, person_name(request))
        return await _stored_session(app_name, user_id, session_id)
    await units_of_work.write(
        lambda: state_edits.append_delta(
            snapshots.find_session(app_name, user_id, session_id).pk, delta, person=person_name(request)
        )
    )
    return await _stored_session(app_name, user_id, session_id, scopes.split_delta(delta).temp)


@router.delete(SESSION)
@needs(delete=roles.DELETE)
async def delete_session(
    request: HttpRequest, app_name: str, user_id: str, session_id: str
) -> HttpResponseBase:
    """Delete a session and its events. Deleting a missing session is not an error."""
    if storage_location.find_session_owner(app_name):
        await units_of_work.read(_refuse_busy, app_name, user_id, session_id)
        return await proxy.forward(request, app_name, upstream_path(app_name, user_id, session_id))
    await units_of_work.write(_delete_session, app_name, user_id, session_id)
    return json_text("null")


@router.post("/run")
@needs(post=roles.RUN.with_app_field("appName"))
async def run(request: HttpRequest) -> HttpResponseBase:
    """Run an agent and return its events when the run has ended."""
    return await _forward_run(request, "/run")


@router.post("/run_sse")
@needs(post=roles.RUN.with_app_field("appName"))
async def run_sse(request: HttpRequest) -> HttpResponseBase:
    """Run an agent and stream its events."""
    return await _forward_run(request, "/run_sse")


async def _forward_run(request: HttpRequest, path: str) -> HttpResponseBase:
    """Forward a run if the quotas of its person allow it. The runtime counts it, and checks them again.

    Raises:
        QuotaUsedUp: a quota of the person is used up.
    """
    app_name = _app_to_run(request)
    sender = await quota_check.require_quota_left(person_name(request), app_name)
    return await proxy.forward(request, app_name, path, sender)


async def _stored_session(
    app_name: str, user_id: str, session_id: str, temp: dict[str, Any] | None = None
) -> HttpResponseBase:
    """Return a session after a write. The read is retried: an error would tell the client that nothing was stored."""
    snapshot = await retry.read(snapshots.take_snapshot, app_name, user_id, session_id, temp)
    return StreamingHttpResponse(snapshots.stream_json(snapshot), content_type="application/json")


async def _create_session(
    app_name: str, user_id: str, session_id: str | None, state: dict[str, Any] | None
) -> HttpResponseBase:
    key = check_ids(SessionKey("", app_name, user_id, (session_id or "").strip() or str(uuid.uuid4())))
    await units_of_work.write(_create_seeded, key, state or {})
    return await _stored_session(*key[1:])


def _create_seeded(key: StorableKey, state: dict[str, Any]) -> None:
    """Create a session with the initial state of the agent's folder; the caller's keys take precedence."""
    initial = {**find_initial_state(key.app_name), **state}
    title = _title_in({name: value for name, value in state.items() if name == snapshots.TITLE_KEY})
    if title is not None:
        del initial[snapshots.TITLE_KEY]
    writes.create_session(key, initial, title=title or "")


def _is_refused_for_its_events(response: HttpResponseBase) -> bool:
    """Return whether ADK's server refused a session because its events have actions."""
    if response.status_code != BadInput.status or not isinstance(response, HttpResponse):
        return False
    return str(json.loads(response.content).get("detail", "")).startswith(REFUSAL)


def _restore_session(key: SessionKey, events: list[Any], merged: dict[str, Any]) -> None:
    """Import a session with its events and its final state, which may contain its title."""
    state = {name: value for name, value in merged.items() if name != snapshots.TITLE_KEY}
    metadata = merged.get(snapshots.TITLE_KEY)
    title = metadata.get("displayName") if isinstance(metadata, dict) else None
    restore_session(key, events, state, title if isinstance(title, str) else "")


def _title_in(delta: dict[str, Any]) -> str | None:
    """Return the title in a delta that holds nothing else, as ADK's front end renames a session."""
    metadata = delta.get(snapshots.TITLE_KEY)
    if len(delta) != 1 or not isinstance(metadata, dict) or set(metadata) != {"displayName"}:
        return None
    title = metadata["displayName"]
    return title if isinstance(title, str) else None


def _rename_session(app_name: str, user_id: str, session_id: str, title: str, person: str) -> None:
    writes.rename_session(snapshots.find_session(app_name, user_id, session_id).pk, title, person)


def _rename_copy(app_name: str, user_id: str, session_id: str, title: str, person: str) -> None:
    """Set the title of a session's copy, if there is one, to the title that its service got."""
    with suppress(SessionMissing):
        _rename_session(app_name, user_id, session_id, title, person)


def _delete_session(app_name: str, user_id: str, session_id: str) -> None:
    with suppress(SessionMissing):
        deletion.delete_for_good(snapshots.find_session(app_name, user_id, session_id).pk)


def _refuse_busy(app_name: str, user_id: str, session_id: str) -> None:
    """Refuse to change a session of an external service while a run is active on it."""
    with suppress(SessionMissing):
        session = snapshots.find_session(app_name, user_id, session_id)
        session_runs.require_idle(session.pk, session_id)


def _has_realm(app_name: str, user_id: str, session_id: str) -> bool:
    with suppress(SessionMissing):
        return bool(snapshots.find_session(app_name, user_id, session_id, attempts=True).realm)
    return False


def _app_to_run(request: HttpRequest) -> str:
    """Return the app that a run's body names, or the default one.

    Raises:
        InvalidBody: the body does not name the session's user.
        BadInput: no app is named and there is no default; worded as ADK's server words it.
    """
    body = request_bodies.parse(request)
    if isinstance(body, dict):
        ids = [body.get(name, body.get(other, "")) for name, other in SESSION_FIELDS]
        requested_app = body.get("appName", body.get("app_name"))
        note_object(request, *ids)
        if requested_app and isinstance(requested_app, str):
            return requested_app
    run_body = request_bodies.validate(body, request_bodies.RunTarget)
    app_name = run_body.app_name or os.environ.get("ADK_DEFAULT_APP_NAME")
    if not app_name:
        raise BadInput(
            "app_name is required when ADK_DEFAULT_APP_NAME is not set",
            hint="Add `appName` to the body; GET /list-apps names the apps.",
        )
    note_object(request, run_body.user_id, run_body.session_id, app=app_name)
    return app_name
