"""The events and sessions that the search indexes do not cover yet.

Each session has a cursor, `indexed_seq`: events up to it are indexed (see `indexing`), and searches scan the later ones
themselves (see `execution.unindexed_scan`).
"""

from __future__ import annotations

from django.db.models import F, Q, QuerySet

from sessions_app.models import UNINDEXED, AgentSession

BEHIND_CURSOR = Q(seq__gt=F("session__indexed_seq"))
"""Condition on events and on ledger rows that their session's cursor has not reached them."""


def sessions() -> QuerySet[AgentSession]:
    """Return the sessions with events that are not indexed yet."""
    return AgentSession.objects.filter(UNINDEXED)
