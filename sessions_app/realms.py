"""Private worlds beside real life, whose realm is empty: what a realm is for is told by how its name begins."""

from __future__ import annotations

from django.db.models import QuerySet

from sessions_app.errors import BadInput
from sessions_app.models import AgentSession

ATTEMPT = "eval/"
"""Of eval attempts, which are kept as they ran."""

FORK = "fork/"
"""Of forks that were given state of their own; what follows is made."""

COPYING = "forming/"
"""Of forks that are being copied: each gets its place when it is whole."""

PURGED = "purged/"
"""Of sessions that are being removed; the session's key follows."""

DELETED = "deleted/"
"""Of sessions that a person deleted and may have back; the session's key follows."""

HIDDEN = (COPYING, PURGED, DELETED)


def is_hidden(session: AgentSession) -> bool:
    """Tell whether nobody sees a session: it was deleted, and may come back or not, or it is not whole yet."""
    return session.realm.startswith(HIDDEN)


def exclude_hidden(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Leave out the sessions that were deleted, or are not whole yet."""
    for unseen in HIDDEN:
        rows = rows.exclude(realm__startswith=unseen)
    return rows


def is_read_only(session: AgentSession) -> bool:
    """Tell whether a session is kept as it ran: an eval attempt's."""
    return session.realm.startswith(ATTEMPT)


def refuse_read_only(session: AgentSession) -> None:
    """Refuse to change a session that is kept as it ran.

    Raises:
        BadInput: it is an eval attempt's.
    """
    if is_read_only(session):
        raise BadInput(
            f"Session {session.session_id!r} is an eval attempt and is kept as it ran.",
            hint="Do this in a session of its own.",
        )


def is_isolated_fork(session: AgentSession) -> bool:
    """Tell whether a session is a fork with a private world, which is nobody's result and may go on."""
    return session.realm.startswith(FORK)
