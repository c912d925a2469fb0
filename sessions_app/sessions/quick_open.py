"""Quick open: sessions by words of their names."""

from __future__ import annotations

from django.db.models import Q

from sessions_app.models import AgentSession
from sessions_app.sessions import listing

MOST_WORDS = 8
NAME_COLUMNS = ("title", "first_text", "session_id", "user_id", "app_name")


def find_sessions(text: str, most: int) -> list[AgentSession]:
    """Return the newest sessions whose names contain every word of `text`. One query.

    Each has `run_status` (see `listing.with_run_status`).
    """
    rows = AgentSession.objects.filter(realm="")
    for word in text.split()[:MOST_WORDS]:
        rows = rows.filter(_name_condition(word))
    return list(listing.with_run_status(rows).order_by("-updated_at", "-pk")[:most])


def _name_condition(word: str) -> Q:
    """Return the condition that any name contains a word."""
    condition = Q()
    for column in NAME_COLUMNS:
        condition |= Q(**{f"{column}__icontains": word})
    return condition
