"""Realms: isolated namespaces of sessions, by the prefix of the realm's name. The default realm is empty."""

from __future__ import annotations

from django.db.models import QuerySet

from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, NestedRun
from sessions_app.store.session_key import SessionKey

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

NESTED = "nested/"
"""Prefix for sessions of nested runs, which are read-only; the outer session's primary key and ADK's id follow."""

TRACED = "traced/"
"""Realm of sessions that are read out of received traces, which are read-only. It has no further name."""

LASTING = ("", TRACED)
"""Realms whose sessions expire and are purged by the time to live of their app."""

HIDDEN = (COPYING, PURGED, DELETED)


def nested_key(outer: SessionKey, outer_pk: int, ref: str) -> SessionKey:
    """Return the key of the session of a nested run.

    Args:
        outer: key of the outer session.
        outer_pk: its primary key.
        ref: ADK's id of the nested invocation.
    """
    return SessionKey(f"{NESTED}{outer_pk}/{ref}", outer.app_name, outer.user_id, ref)


def find_nested_run(session: AgentSession) -> NestedRun | None:
    """Return the nested run whose session it is, with the session of its call; None if the session is not nested."""
    if not session.realm.startswith(NESTED):
        return None
    return NestedRun.objects.filter(child=session).select_related("caller", "outer").first()


def is_hidden(session: AgentSession) -> bool:
    """Tell whether a session, or the one around it, is hidden: it is deleted, being removed or being copied."""
    nested = find_nested_run(session)
    return (nested.outer if nested else session).realm.startswith(HIDDEN)


def exclude_inside_hidden(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Leave out nested sessions whose outer session is hidden."""
    for unseen in HIDDEN:
        rows = rows.exclude(nested_run__outer__realm__startswith=unseen)
    return rows


def exclude_hidden(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Leave out hidden sessions. See `exclude_inside_hidden` for the nested sessions inside them."""
    for unseen in HIDDEN:
        rows = rows.exclude(realm__startswith=unseen)
    return rows


def is_read_only(session: AgentSession) -> bool:
    """Tell whether a session is read-only: it belongs to an eval attempt or a nested run, or only traces tell of it."""
    return session.realm.startswith((ATTEMPT, NESTED, TRACED))


def refuse_read_only(session: AgentSession) -> None:
    """Refuse to change a read-only session.

    Raises:
        BadInput: the session belongs to an eval attempt or to a nested run, or only traces tell of it.
    """
    if is_read_only(session):
        raise BadInput(
            f"Session {session.session_id!r} {read_only_reason(session)} and is read-only.",
            hint="Use another session, or fork this one.",
        )


def read_only_reason(session: AgentSession) -> str:
    """Return why a session is read-only, as the predicate of a sentence about it."""
    if session.realm == TRACED:
        return "is read out of received traces"
    return (
        f"belongs to {'a call of another session' if session.realm.startswith(NESTED) else 'an eval attempt'}"
    )


def refuse_nested(session: AgentSession) -> None:
    """Refuse to send the messages of a nested session to the app's root agent, which never had them.

    Raises:
        BadInput: the session belongs to a nested run.
    """
    if nested := find_nested_run(session):
        raise BadInput(
            f"Session {session.session_id!r} is that of agent {nested.agent!r} inside a call. Its messages cannot be"
            " sent again: they would go to the root agent of the app.",
            hint=f"Use the outer session {nested.outer.session_id!r}.",
        )


def is_isolated_fork(session: AgentSession) -> bool:
    """Tell whether a session is a fork with isolated state."""
    return session.realm.startswith(FORK)
