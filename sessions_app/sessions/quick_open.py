"""Sessions by what people call them, for going there at once."""

from __future__ import annotations

from django.db.models import Q

from sessions_app.models import AgentSession
from sessions_app.sessions import listing

MOST_WORDS = 8
NAME_COLUMNS = ("title", "first_text", "session_id", "user_id", "app_name")


def find_sessions(text: str, most: int) -> list[AgentSession]:
    """Return the newest sessions whose names hold every word of `text`; without words, the newest. One query.

    Each has `run_status` (see `listing.with_run_status`).
    """
    rows = AgentSession.objects.filter(realm="")
    for word in text.split()[:MOST_WORDS]:
        rows = rows.filter(_name_condition(word))
    return list(listing.with_run_status(rows).order_by("-updated_at", "-pk")[:most])


def _name_condition(word: str) -> Q:
    """Match a word anywhere in a name: a part of it is enough, as for people who remember a part."""
    found = Q()
    for column in NAME_COLUMNS:
        found |= Q(**{f"{column}__icontains": word})
    return found
