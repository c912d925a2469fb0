"""Add, search and remove memory entries. Each function is one synchronous unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet

from sessions_app.store import scopes
from sessions_app.store.database import change_notification, full_text, tokens
from sessions_app.store.ids import check_id, check_ids
from sessions_app.store.models import MemoryEntry
from sessions_app.store.session_key import SessionKey

MAX_RESULTS = 10
"""Most results of a search, as in ADK's in-memory service: callers put all of them into the prompt."""


class MemoryOwner(NamedTuple):
    """The user that memory entries belong to. Searches cover one owner."""

    realm: str
    app_name: str
    user_id: str


def make_owner(realm: str, app_name: str, user_id: str) -> MemoryOwner:
    """Return the owner of memory entries.

    Raises:
        BadInput: an id cannot be stored.
    """
    check_ids(SessionKey(realm, app_name, user_id, ""))
    return MemoryOwner(realm, app_name, user_id)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to add. `text` is indexed for search; the other fields are as in the `MemoryEntry` model.

    Raises:
        BadInput: the id cannot be stored.
    """

    entry_id: str
    author: str
    timestamp: float
    content: scopes.CanonicalValue
    text: str
    told_time: str = ""
    custom_metadata: str = "{}"

    def __post_init__(self) -> None:
        check_id("memory", self.entry_id)


def known_ids(owner: MemoryOwner, session_id: str) -> set[str]:
    """Return the ids that `add_entries` skips: the session's existing entries and the removed ones.

    Raises:
        BadInput: the session's id cannot be stored.
    """
    check_id("session", session_id)
    session_entry_ids = _owner_entries(owner).filter(session_id=session_id).values_list("entry_id", flat=True)
    removed = _owner_entries(owner).filter(removed=True).values_list("entry_id", flat=True)
    return {*session_entry_ids, *removed}


def add_entries(owner: MemoryOwner, session_id: str, drafts: Sequence[NewEntry]) -> None:
    """Add entries of a session. Existing entries stay unchanged, removed entries stay removed.

    Raises:
        BadInput: the session's id cannot be stored.
    """
    with transaction.atomic():
        existing_ids = known_ids(owner, session_id)
        fresh: dict[str, NewEntry] = {}
        for draft in drafts:
            if draft.entry_id not in existing_ids:
                fresh.setdefault(draft.entry_id, draft)
        _insert_entries(owner, session_id, fresh)


def replace_entries(owner: MemoryOwner, drafts: Sequence[NewEntry]) -> None:
    """Add entries without a session, replacing existing and removed entries with the same ids."""
    last_of_each = {draft.entry_id: draft for draft in drafts}
    with transaction.atomic():
        same = _owner_entries(owner).filter(Q(session_id="") | Q(removed=True), entry_id__in=last_of_each)
        full_text.unindex_rows(MemoryEntry, same.values_list("pk", flat=True))
        same.delete()
        _insert_entries(owner, "", last_of_each)


def remove_entry(owner: MemoryOwner, entry_id: str) -> bool:
    """Remove an entry permanently: adding its session again does not restore it. Return whether it existed.

    Raises:
        BadInput: the id is not valid.
    """
    check_id("memory", entry_id)
    with transaction.atomic():
        rows = _owner_entries(owner).filter(entry_id=entry_id, removed=False)
        pks = list(rows.values_list("pk", flat=True))
        full_text.unindex_rows(MemoryEntry, pks)
        rows.filter(pk__in=pks).update(removed=True, content="{}", private=None, custom_metadata="{}")
        change_notification.notify_after_commit()
    return bool(pks)


def search(owner: MemoryOwner, query: str, limit: int) -> list[MemoryEntry]:
    """Return the entries that share words with a query, best first, then newest first."""
    terms = tokens.single_tokens(tokens.parse_phrases(query))
    pks = full_text.find_ranked(MemoryEntry, full_text.owner_id(*owner), terms, limit, every=False)
    entries = MemoryEntry.objects.filter(removed=False).defer("words").in_bulk(pks)
    return [entries[pk] for pk in pks if pk in entries]


def _insert_entries(owner: MemoryOwner, session_id: str, drafts: Mapping[str, NewEntry]) -> None:
    """Insert and index entries, except those that were inserted concurrently."""
    rows = [_make_row(owner, session_id, draft) for draft in drafts.values()]
    MemoryEntry.objects.bulk_create(rows, ignore_conflicts=True)
    stored = _owner_entries(owner).filter(session_id=session_id, entry_id__in=drafts).order_by("pk")
    mark, ids = full_text.owner_id(*owner), stored.values_list("pk", "entry_id")
    full_text.index_rows(
        MemoryEntry, [full_text.IndexEntry(pk, mark, drafts[entry_id].text) for pk, entry_id in ids]
    )
    change_notification.notify_after_commit()


def _owner_entries(owner: MemoryOwner) -> QuerySet[MemoryEntry]:
    return MemoryEntry.objects.filter(**owner._asdict())


def _make_row(owner: MemoryOwner, session_id: str, draft: NewEntry) -> MemoryEntry:
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
