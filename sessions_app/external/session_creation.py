"""Creation of sessions: here, or in a service of ADK that owns them, by ADK's server in the app's process.

The service is mirrored there, so the copy exists when the server has responded.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from asgiref.sync import async_to_sync

from sessions_app.agents.folder import find_initial_state
from sessions_app.paths import upstream_path
from sessions_app.runs.runtime_client import provider
from sessions_app.sessions import storage_location
from sessions_app.store.errors import AlreadyExists, BadInput, UpstreamFailed
from sessions_app.store.ids import check_ids
from sessions_app.store.models import AgentSession
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import active_session, writes
from sessions_app.store.short_texts import truncate


def open_session(
    app: str, user: str, session_id: str, state: Mapping[str, Any], *, seeded: bool, continued: bool
) -> AgentSession:
    """Return a new session or, with `continued`, the active one if there is one.

    With `seeded`, a new session also gets the initial state of the agent's folder.

    Raises:
        AlreadyExists, BadInput, RuntimeUnavailable, UpstreamFailed: it cannot be created.
    """
    initial = {**(find_initial_state(app) if seeded else {}), **state}
    is_external = bool(storage_location.find_session_owner(app))
    if continued and not is_external:
        return active_session.get_or_create(app, user, state=initial)[0]
    if continued and (active := active_session.find_active(app, user)):
        return active
    key = check_ids(SessionKey("", app, user, session_id or str(uuid.uuid4())))
    return (create_session if is_external else writes.create_session)(key, initial)


def create_session(key: SessionKey, state: Mapping[str, Any]) -> AgentSession:
    """Create a session outside isolated realms, and return its copy.

    Raises:
        AlreadyExists: the id is in use.
        BadInput: the server rejects it, or the ids do not fit its paths.
        RuntimeUnavailable: the app's process cannot be started.
        UpstreamFailed: the server fails.
    """
    status, body = async_to_sync(_post_session)(key, state)
    if status == AlreadyExists.status:
        raise AlreadyExists(_response_detail(body), hint="Leave the id out to have one made.")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UpstreamFailed(
            _response_detail(body), hint="The log of the server that keeps this app's sessions says why."
        )
    if status >= HTTPStatus.BAD_REQUEST:
        raise BadInput(_response_detail(body), hint="ADK's own server refused this.")
    created = key._replace(session_id=str(json.loads(body).get("id") or key.session_id))
    copy = AgentSession.objects.filter(**created._asdict()).first()
    if copy is None:
        where = storage_location.find_session_owner(key.app_name)
        raise BadInput(
            f"Session {key.session_id!r} was created in {where}, but could not be copied here.",
            hint="The server's log says why; the next run or read of the session tries again.",
        )
    return copy


async def _post_session(key: SessionKey, state: Mapping[str, Any]) -> tuple[int, bytes]:
    """Return the status and body of the response. Some services choose session ids themselves."""
    client = await provider().client(key.app_name)
    path = upstream_path(key.app_name, key.user_id)
    content = json.dumps({"sessionId": key.session_id, "state": state}).encode()
    async with client.open(
        "POST", path, headers={"Content-Type": "application/json"}, content=content
    ) as response:
        body = await response.aread()
    return response.status_code, body


def _response_detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return truncate(body.decode(errors="replace"), 500)
