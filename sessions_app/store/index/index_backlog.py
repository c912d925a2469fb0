"""The events and sessions that the search indexes do not cover yet.

Each session has a cursor, `indexed_seq`: events up to it are indexed (see `indexing`), and searches scan the later ones
themselves (see `execution.scans`). A second cursor, `problems_seq`, belongs to the checks for
problems (see `problems.session_checks`); it is here because the writers of runs and traces, which move it back, may not
import `problems`.
"""

from __future__ import annotations

from django.db import connection
from django.db.models import F, Q, QuerySet

from sessions_app.store.models import UNCHECKED, UNINDEXED, AgentSession

BEHIND_CURSOR = Q(seq__gt=F("session__indexed_seq"))
"""Condition on events and on ledger rows that their session's cursor has not reached them."""


def sessions() -> QuerySet[AgentSession]:
    """Return the sessions with events that are not indexed yet."""
    return AgentSession.objects.filter(UNINDEXED)


def sessions_to_check() -> QuerySet[AgentSession]:
    """Return the indexed sessions with events that were not checked for problems yet: checks use the index."""
    return AgentSession.objects.filter(UNCHECKED).exclude(UNINDEXED)


def recheck(session_pk: int, invocation_id: str) -> None:
    """Check an invocation for problems again, because its trace or run has changed; an empty id: only the state.

    The cursor moves back by at least one event: only sessions that are behind are checked.
    """
    with connection.cursor() as cursor:  # plain SQL: this runs with every invocation
        cursor.execute(_MOVE_BACK, (session_pk, invocation_id, session_pk))


_MOVE_BACK = """
    UPDATE sessions_app_agentsession SET problems_version = problems_version + 1, problems_seq = (
        SELECT min(seq) FROM (
            SELECT problems_seq AS seq UNION ALL SELECT last_seq - 1 UNION ALL
            SELECT min(e.seq) - 1 FROM sessions_app_event e
            WHERE e.session_id = %s AND e.invocation_id = %s AND e.invocation_id <> ''
        ) AS cursors
    ) WHERE id = %s
"""
