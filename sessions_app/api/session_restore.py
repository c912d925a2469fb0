"""Creation of a session with all its events, as ADK's front end imports its own exports.

ADK's own server accepts only events without actions (`_validate_session_initialization_events`), so its front end
cannot re-import a session whose agent wrote state. DevUI imports it like any other session: events keep their times and
changes, and existing shared state keeps its values.
"""

from __future__ import annotations

import json
import time
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from sessions_app.api import snapshots
from sessions_app.errors import AlreadyExists, BadInput
from sessions_app.ids import SessionKey, check_ids
from sessions_app.models import AgentSession
from sessions_app.sessions import writes
from sessions_app.transfer.readers import SessionDocument
from sessions_app.transfer.writers import import_sessions

REFUSAL = "Session initialization event"
"""Prefix of ADK's error for an event with actions; ADK checks the events' validity first."""


def is_refused_for_its_events(response: HttpResponseBase) -> bool:
    """Return whether ADK's server refused a session because its events have actions."""
    if response.status_code != BadInput.status or not isinstance(response, HttpResponse):
        return False
    return str(json.loads(response.content).get("detail", "")).startswith(REFUSAL)


def restore_session(key: SessionKey, events: list[Any], merged: dict[str, Any]) -> None:
    """Import a session with its events. `merged` is its final state, with prefixed keys.

    Events without a time get the present time, as in ADK's server.

    Raises:
        AlreadyExists: the id is taken.
        BadInput: an id cannot be stored, or an event cannot be read.
    """
    check_ids(key)
    if AgentSession.objects.filter(**key._asdict()).exists():
        raise AlreadyExists(
            f"Session already exists: {key.session_id}", hint="Leave the id out to have one made."
        )
    now = time.time()
    state = {name: value for name, value in merged.items() if name != snapshots.TITLE_KEY}
    session = {
        "appName": key.app_name,
        "userId": key.user_id,
        "id": key.session_id,
        "events": [{"timestamp": now, **event} if isinstance(event, dict) else event for event in events],
        "state": state,
    }
    report = import_sessions(SessionDocument([session], f"sent: {'/'.join(key[1:])}"))
    if report.unread or not report.created:
        problems = "; ".join([*report.unread, *report.conflicts][:3])
        raise BadInput(
            f"The session could not be imported: {problems}",
            hint="Send the session as ADK's REST API returns it.",
        )
    title = merged.get(snapshots.TITLE_KEY)
    name = title.get("displayName") if isinstance(title, dict) else None
    if isinstance(name, str) and name:
        writes.rename_session(AgentSession.objects.get(**key._asdict()).pk, name)
