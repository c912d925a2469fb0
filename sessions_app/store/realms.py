"""Realms: isolated namespaces of sessions, by the prefix of the realm's name. The default realm is empty."""

from __future__ import annotations

from django.db.models import QuerySet

from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession

ATTEMPT = "eval/"
"""Prefix for eval attempts, which are read-only."""

FORK = "fork/"
"""Prefix for forks with isolated state."""

COPYING = "forming/"
"""Prefix for forks that are still being copied."""

PURGED = "purged/"
"""Prefix for sessions that are being removed; the session's primary key follows."""

DELETED = "deleted/"
"""Prefix for deleted sessions that can be restored; the session's primary key follows."""

HIDDEN = (COPYING, PURGED, DELETED)


def is_hidden(session: AgentSession) -> bool:
    """Tell whether a session is hidden: it is deleted, being removed or being copied."""
    return session.realm.startswith(HIDDEN)


def exclude_hidden(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Leave out hidden sessions."""
    for unseen in HIDDEN:
        rows = rows.exclude(realm__startswith=unseen)
    return rows


def is_read_only(session: AgentSession) -> bool:
    """Tell whether a session is read-only because it belongs to an eval attempt."""
    return session.realm.startswith(ATTEMPT)


def refuse_read_only(session: AgentSession) -> None:
    """Refuse to change a read-only session.

    Raises:
        BadInput: the session belongs to an eval attempt.
    """
    if is_read_only(session):
        raise BadInput(
            f"Session {session.session_id!r} belongs to an eval attempt and is read-only.",
            hint="Use another session, or fork this one.",
        )


def is_isolated_fork(session: AgentSession) -> bool:
    """Tell whether a session is a fork with isolated state."""
    return session.realm.startswith(FORK)
