"""DevUI's own store: emptying it, and checking its ledger against its state."""

from __future__ import annotations

import json

from asgiref.sync import async_to_sync

from sessions_app.adk import DjangoSessionService
from sessions_app.store.models import AgentSession, AppScope, StateChange, UserScope
from sessions_app.store.state import history as history


def empty_store() -> None:
    for model in (AgentSession, UserScope, AppScope, StateChange):
        model.objects.all().delete()


def ledger_matches_state() -> bool:
    """Return whether the ledger and the state rows of every session and scope agree."""
    for session in AgentSession.objects.all():
        now = history.state_at(session).merge_scopes()
        get = async_to_sync(DjangoSessionService().get_session)
        stored_session = get(
            app_name=session.app_name, user_id=session.user_id, session_id=session.session_id
        )
        if json.dumps(stored_session.state, sort_keys=True) != json.dumps(now, sort_keys=True):
            return False
    return True
