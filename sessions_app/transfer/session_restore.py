"""Creation of a session with all its events, as ADK's front end imports its own exports.

ADK's own server accepts only events without actions (`_validate_session_initialization_events`), so its front end
cannot re-import a session whose agent wrote state. DevUI imports it like any other session: events keep their times and
changes, and existing shared state keeps its values.
"""

from __future__ import annotations

import time
from typing import Any

from sessions_app.store.errors import AlreadyExists, BadInput
from sessions_app.store.ids import check_ids
from sessions_app.store.models import AgentSession
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from sessions_app.transfer.readers.documents import SessionDocument
from sessions_app.transfer.writers import import_sessions


def restore_session(key: SessionKey, events: list[Any], state: dict[str, Any], title: str = "") -> None:
    """Import a session with its events. `state` is its final state, with prefixed keys.

    Events without a time get the present time, as in ADK's server.

    Raises:
        AlreadyExists: the id is taken.
        BadInput: an id cannot be stored, or an event cannot be read.
    """
    key = check_ids(key)
    if AgentSession.objects.filter(**key._asdict()).exists():
        raise AlreadyExists(
            f"Session already exists: {key.session_id}", hint="Leave the id out to have one made."
        )
    now = time.time()
    session = {
        "appName": key.app_name,
        "userId": key.user_id,
        "id": key.session_id,
        "events": [{"timestamp": now, **event} if isinstance(event, dict) else event for event in events],
        "state": state,
    }
    report = import_sessions(SessionDocument([session], f"sent: {'/'.join(key[1:])}"))
    if report.unread or not report.created:
        reasons = [*report.unread, *report.conflicts]
        problems = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3:,} more" if len(reasons) > 3 else "")
        raise BadInput(
            f"The session could not be imported: {problems}",
            hint="Send the session as ADK's REST API returns it.",
        )
    if title:
        writes.rename_session(AgentSession.objects.get(**key._asdict()).pk, title)
