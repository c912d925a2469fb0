"""What people put on sessions to find them by: titles, tags, pins. No part of any agent's state.

Nothing here touches the revision: an agent that works on the session does not notice.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from django.db import transaction
from django.db.models import Count

from sessions_app import realms, scopes
from sessions_app.errors import BadInput
from sessions_app.lookup import find_session
from sessions_app.models import AgentSession, SessionTag
from sessions_app.search.query import tag_name as spelled_tag
from sessions_app.sessions.writes import rename_session
from sessions_app.store import change_notification

TITLE_LENGTH = 200
TAG_LENGTH = 64
MOST_TAGS = 20
"""Tags of one session."""


def rename(session_pk: int, title: str) -> None:
    """Give a session a title; an empty one takes it away.

    Raises:
        SessionMissing: no such session.
        BadInput: the title is too long.
    """
    told = " ".join(title.split())
    if len(told) > TITLE_LENGTH:
        raise BadInput(
            f"The title has {len(told)} characters; {TITLE_LENGTH} is the most.", hint="Shorten it."
        )
    rename_session(find_session(session_pk).pk, told)


def tag_name(text: str) -> str:
    """Return a tag as it is kept: in lower case, blanks run together.

    Raises:
        BadInput: nothing is left of it, or too much.
    """
    name = spelled_tag(scopes.clean_text(text))
    if not 0 < len(name) <= TAG_LENGTH:
        raise BadInput(
            f"A tag has 1 to {TAG_LENGTH} characters; this one has {len(name)}.", hint="Choose another one."
        )
    return name


def tag(pks: Collection[int], text: str) -> int:
    """Put a tag on sessions; those that have it keep it. Return how many have it now.

    Raises:
        BadInput: the tag cannot be used, or a session has too many.
    """
    name = tag_name(text)
    with transaction.atomic():
        found = list(_present_pks(pks))
        SessionTag.objects.bulk_create(
            [SessionTag(session_id=pk, name=name) for pk in found], ignore_conflicts=True
        )
        counted = SessionTag.objects.filter(session__in=found).values_list("session__session_id")
        if full := counted.annotate(Count("pk")).filter(pk__count__gt=MOST_TAGS).order_by("session").first():
            raise BadInput(
                f"Session {full[0]!r} has {MOST_TAGS} tags already, which is the most.",
                hint="Take one of them away first.",
            )
        change_notification.notify_after_commit()
    return len(found)


def untag(pks: Collection[int], text: str) -> int:
    """Take a tag off sessions. Return how many had it.

    Raises:
        BadInput: there can be no such tag.
    """
    with transaction.atomic():
        removed, _ = SessionTag.objects.filter(session__in=pks, name=tag_name(text)).delete()
        change_notification.notify_after_commit()
    return removed


def pin(pks: Collection[int], *, pinned: bool = True) -> int:
    """Pin sessions, or unpin them. Return how many there are."""
    with transaction.atomic():
        changed = AgentSession.objects.filter(pk__in=list(_present_pks(pks)))
        if pinned:
            count = changed.count()
            changed.filter(pinned_at=None).update(pinned_at=time.time())
        else:
            count = changed.update(pinned_at=None)
        change_notification.notify_after_commit()
    return count


def tags_in_use(limit: int = 100) -> list[str]:
    """Return the tags that sessions have, sorted."""
    names = SessionTag.objects.order_by("name").values_list("name", flat=True).distinct()
    return list(names[:limit])


def _present_pks(pks: Collection[int]) -> Collection[int]:
    return list(realms.exclude_hidden(AgentSession.objects.filter(pk__in=pks)).values_list("pk", flat=True))
