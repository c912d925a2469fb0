"""What the search indexes do not have yet, by the cursor of each session: `indexed_seq`.

What was written up to it is in the indexes (see `indexing`); searches look at the rest themselves (see `execution`).
"""

from __future__ import annotations

from django.db.models import F, Q, QuerySet

from sessions_app.models import UNINDEXED, AgentSession

BEHIND_CURSOR = Q(seq__gt=F("session__indexed_seq"))
"""Of events, and of rows of the ledger that a session wrote."""


def sessions() -> QuerySet[AgentSession]:
    """Return the sessions that went on since they were indexed."""
    return AgentSession.objects.filter(UNINDEXED)


def has_any() -> bool:
    """Tell whether something is not indexed yet. Sorted, so that PostgreSQL asks the index and reads no sessions."""
    return bool(sessions().order_by("-pk").values_list("pk", flat=True)[:1])
