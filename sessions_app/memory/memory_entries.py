"""Memory entries as rows, and their search. Each function is one synchronous unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet

from sessions_app import scopes
from sessions_app.ids import SessionKey, check_id, check_ids
from sessions_app.models import MemoryEntry
from sessions_app.store import change_notification, full_text, tokens

MOST_RECALLED = 10
"""Most memories of a search, as in ADK's in-memory service: callers put all of them into the prompt."""


class Owner(NamedTuple):
    """Whose memory it is. Nobody else finds it."""

    realm: str
    app_name: str
    user_id: str


def owner(realm: str, app_name: str, user_id: str) -> Owner:
    """Return whose memory is meant.

    Raises:
        BadInput: an id cannot be stored.
    """
    check_ids(SessionKey(realm, app_name, user_id, ""))
    return Owner(realm, app_name, user_id)


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry to be added. `text` is what it is found by; the rest is as in the `MemoryEntry` model.

    Raises:
        BadInput: the id cannot be stored.
    """

    entry_id: str
    author: str
    timestamp: float
    content: scopes.Value
    text: str
    told_time: str = ""
    custom_metadata: str = "{}"

    def __post_init__(self) -> None:
        check_id("memory", self.entry_id)


def known_ids(owner: Owner, session_id: str) -> set[str]:
    """Return the ids that `add` would leave out: those of the session's entries, and those the user removed.

    Raises:
        BadInput: the session's id cannot be stored.
    """
    check_id("session", session_id)
    own = _of(owner).filter(session_id=session_id).values_list("entry_id", flat=True)
    removed = _of(owner).filter(removed=True).values_list("entry_id", flat=True)
    return {*own, *removed}


def add(owner: Owner, session_id: str, drafts: Sequence[Draft]) -> None:
    """Remember entries of a session. Known ones stay as they are, removed ones stay removed.

    Raises:
        BadInput: the session's id cannot be stored.
    """
    with transaction.atomic():
        known = known_ids(owner, session_id)
        fresh: dict[str, Draft] = {}
        for draft in drafts:
            if draft.entry_id not in known:
                fresh.setdefault(draft.entry_id, draft)
        _insert(owner, session_id, fresh)


def put(owner: Owner, drafts: Sequence[Draft]) -> None:
    """Remember entries that come from no session, in place of those that had their ids, removed ones too."""
    last_of_each = {draft.entry_id: draft for draft in drafts}
    with transaction.atomic():
        same = _of(owner).filter(Q(session_id="") | Q(removed=True), entry_id__in=last_of_each)
        full_text.forget(MemoryEntry, same.values_list("pk", flat=True))
        same.delete()
        _insert(owner, "", last_of_each)


def remove(owner: Owner, entry_id: str) -> bool:
    """Forget an entry for good: adding its session again does not bring it back. Return whether it was there.

    Raises:
        BadInput: the id cannot be one.
    """
    check_id("memory", entry_id)
    with transaction.atomic():
        rows = _of(owner).filter(entry_id=entry_id, removed=False)
        pks = list(rows.values_list("pk", flat=True))
        full_text.forget(MemoryEntry, pks)
        rows.filter(pk__in=pks).update(removed=True, content="{}", private=None, custom_metadata="{}")
        change_notification.ring_after_commit()
    return bool(pks)


def find(owner: Owner, query: str, limit: int) -> list[MemoryEntry]:
    """Return what an agent recalls by a query: entries that share words with it, best first, then newest first."""
    wanted = tokens.loose(tokens.phrases(query))
    pks = full_text.ranked(MemoryEntry, full_text.owner_id(*owner), wanted, limit, every=False)
    found = MemoryEntry.objects.filter(removed=False).defer("words").in_bulk(pks)
    return [found[pk] for pk in pks if pk in found]


def _insert(owner: Owner, session_id: str, drafts: Mapping[str, Draft]) -> None:
    """Insert and index entries by their ids, but for those that somebody else has inserted meanwhile."""
    rows = [_row(owner, session_id, draft) for draft in drafts.values()]
    MemoryEntry.objects.bulk_create(rows, ignore_conflicts=True)
    stored = _of(owner).filter(session_id=session_id, entry_id__in=drafts).order_by("pk")
    mark, ids = full_text.owner_id(*owner), stored.values_list("pk", "entry_id")
    full_text.put(MemoryEntry, [full_text.Entry(pk, mark, drafts[entry_id].text) for pk, entry_id in ids])
    change_notification.ring_after_commit()


def _of(owner: Owner) -> QuerySet[MemoryEntry]:
    return MemoryEntry.objects.filter(**owner._asdict())


def _row(owner: Owner, session_id: str, draft: Draft) -> MemoryEntry:
    return MemoryEntry(
        **owner._asdict(),
        session_id=session_id,
        entry_id=draft.entry_id,
        author=scopes.clean_text(draft.author),
        timestamp=draft.timestamp,
        told_time=scopes.clean_text(draft.told_time),
        content=draft.content.public,
        private=draft.content.private,
        custom_metadata=draft.custom_metadata,
    )
