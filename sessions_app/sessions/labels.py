"""Labels of sessions: titles, tags, pins. They are not part of an agent's state.

Labels do not change a session's revision, so an agent that works on the session is not affected.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from django.db import transaction
from django.db.models import Count

from sessions_app.lookup import find_session
from sessions_app.search.query.terms import tag_name as spelled_tag
from sessions_app.store import realms, scopes
from sessions_app.store.database import change_notification
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, SessionTag
from sessions_app.store.sessions.writes import rename_session

MAX_TAGS_LISTED = 100

TITLE_LENGTH = 200
TAG_LENGTH = 64
MAX_TAGS = 20
"""Maximum tags of a session."""


def rename(session_pk: int, title: str, *, person: str = "") -> None:
    """Set a session's title; an empty one removes it. `person` is the name of who sets it, here and below.

    Raises:
        SessionMissing: no such session.
        BadInput: the title is too long.
    """
    cleaned = " ".join(title.split())
    if len(cleaned) > TITLE_LENGTH:
        raise BadInput(
            f"The title has {len(cleaned)} characters; at most {TITLE_LENGTH} are allowed.",
            hint="Shorten it.",
        )
    rename_session(find_session(session_pk).pk, cleaned, person if cleaned else "")


def change(
    session_pk: int,
    *,
    title: str | None = None,
    pinned: bool | None = None,
    add_tags: Collection[str] = (),
    remove_tags: Collection[str] = (),
    person: str = "",
) -> None:
    """Change a session's title, pin and tags in one transaction; None stays.

    Raises:
        SessionMissing: no such session.
        BadInput: the title or a tag is invalid.
    """
    with transaction.atomic():
        pk = find_session(session_pk).pk
        if title is not None:
            rename(pk, title, person=person)
        if pinned is not None:
            pin([pk], pinned=pinned, person=person)
        for name in add_tags:
            tag([pk], name, person=person)
        for name in remove_tags:
            untag([pk], name)


def tag_name(text: str) -> str:
    """Return the canonical form of a tag: lower case, single spaces.

    Raises:
        BadInput: it is empty or too long.
    """
    name = spelled_tag(scopes.clean_text(text))
    if not 0 < len(name) <= TAG_LENGTH:
        raise BadInput(
            f"A tag has 1 to {TAG_LENGTH} characters; this one has {len(name)}.", hint="Choose another one."
        )
    return name


def tag(pks: Collection[int], text: str, *, person: str = "") -> None:
    """Add a tag to sessions.

    Raises:
        BadInput: the tag is invalid, or a session has too many.
    """
    name = tag_name(text)
    with transaction.atomic():
        present = list(_present_pks(pks))
        SessionTag.objects.bulk_create(
            [SessionTag(session_id=pk, name=name, person=person) for pk in present], ignore_conflicts=True
        )
        counted = SessionTag.objects.filter(session__in=present).values_list("session__session_id")
        if full := counted.annotate(Count("pk")).filter(pk__count__gt=MAX_TAGS).order_by("session").first():
            raise BadInput(
                f"Session {full[0]!r} already has {MAX_TAGS} tags, the maximum.",
                hint="Remove one of them first.",
            )
        change_notification.notify_after_commit()


def untag(pks: Collection[int], text: str) -> None:
    """Remove a tag from sessions.

    Raises:
        BadInput: the tag is invalid.
    """
    with transaction.atomic():
        SessionTag.objects.filter(session__in=pks, name=tag_name(text)).delete()
        change_notification.notify_after_commit()


def pin(pks: Collection[int], *, pinned: bool = True, person: str = "") -> None:
    """Pin sessions, or unpin them."""
    with transaction.atomic():
        present = AgentSession.objects.filter(pk__in=_present_pks(pks))
        rows = present.filter(pinned_at=None) if pinned else present  # a pinned session keeps its place
        rows.update(pinned_at=time.time() if pinned else None, pinned_person=person if pinned else "")
        change_notification.notify_after_commit()


def tags_in_use() -> list[str]:
    """Return the first tags in use, sorted."""
    names = SessionTag.objects.order_by("name").values_list("name", flat=True).distinct()
    return list(names[:MAX_TAGS_LISTED])


def _present_pks(pks: Collection[int]) -> Collection[int]:
    return list(realms.exclude_hidden(AgentSession.objects.filter(pk__in=pks)).values_list("pk", flat=True))
