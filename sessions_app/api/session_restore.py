"""A session that is sent with all its events, as ADK's front end imports what it has exported.

ADK's own server takes only events that did nothing (`_validate_session_initialization_events`), so its front end
cannot bring back a session whose agent wrote state. Here it is an import like any other: every event with its time
and its changes, and shared state that is here already keeps its values.
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
from sessions_app.transfer.readers import SentSession
from sessions_app.transfer.writers import import_sessions

REFUSAL = "Session initialization event"
"""How ADK's server begins when it refuses an event that did something; by then all are valid ones."""


def is_refused_for_its_events(response: HttpResponseBase) -> bool:
    """Tell whether ADK's server has refused a session because its events did something."""
    if response.status_code != BadInput.status or not isinstance(response, HttpResponse):
        return False
    return str(json.loads(response.content).get("detail", "")).startswith(REFUSAL)


def restore_session(key: SessionKey, events: list[Any], merged: dict[str, Any]) -> None:
    """Bring in a session with its events. `merged` is the state it had in the end, its scopes by prefix.

    An event that tells no time is one of now, as at ADK's server.

    Raises:
        AlreadyExists: the id is taken.
        BadInput: an id that no store can hold, or an event that cannot be read.
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
    report = import_sessions(SentSession(session, f"sent: {'/'.join(key[1:])}"))
    if report.unread or not report.created:
        problems = "; ".join([*report.unread, *report.conflicts][:3])
        raise BadInput(f"The session could not be brought in: {problems}", hint="Send it as ADK answers it.")
    title = merged.get(snapshots.TITLE_KEY)
    name = title.get("displayName") if isinstance(title, dict) else None
    if isinstance(name, str) and name:
        writes.rename_session(AgentSession.objects.get(**key._asdict()).pk, name)
