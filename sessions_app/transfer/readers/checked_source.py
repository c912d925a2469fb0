"""Records of plugins' importers, checked and normalized like a foreign file's."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sessions_app.events.timestamps import parse_timestamp
from sessions_app.transfer.readers.databases import file_fingerprint
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys
from sessions_app.transfer.readers.records import (
    Owner,
    SharedState,
    Source,
    SourceFilter,
    StoredEvent,
    StoredSession,
    StoredState,
    UnreadableRow,
)

T = TypeVar("T")

BAD_RECORD = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""Errors of the checks below."""


class CheckedSource:
    """Source of a plugin's importer. Invalid records become unreadable rows; other sessions are filtered out."""

    def __init__(self, source: Source, format: str, location: str, source_filter: SourceFilter) -> None:
        """Check the records of `source`."""
        self.format, self.location = format, location
        self.remarks = [str(remark) for remark in source.remarks]
        self._source = source
        self._filter = source_filter

    def fingerprint(self) -> str:
        """Return the time and size of the file; empty for a database."""
        return file_fingerprint(Path(self.location))

    def sessions(self) -> Iterator[StoredSession | UnreadableRow]:
        """Yield the sessions."""
        yield from self._check_all("session", self._source.sessions(), _check_session)

    def states(self) -> Iterator[StoredState | UnreadableRow]:
        """Yield the sessions' own state."""
        yield from self._check_all("state", self._source.states(), _check_state)

    def shared_states(self) -> Iterator[SharedState | UnreadableRow]:
        """Yield the state of apps and users."""
        yield from self._check_all("shared state", self._source.shared_states(), _check_shared)

    def count_events(self) -> int | None:
        """Return None: a plugin is asked for its events only."""
        return None

    def events(self, only: Collection[Owner] | None = None) -> Iterator[StoredEvent | UnreadableRow]:
        """Yield the events."""
        for item in self._check_all("event", self._source.events(only), _check_event):
            if isinstance(item, UnreadableRow) or only is None or item.owner in only:
                yield item

    def close(self) -> None:
        """Close the source."""
        with suppress(Exception):
            self._source.close()

    def _check_all(
        self, what: str, items: Iterable[Any], check: Callable[[Any], T]
    ) -> Iterator[T | UnreadableRow]:
        for number, item in enumerate(items, 1):
            if isinstance(item, UnreadableRow):
                yield UnreadableRow(str(item.where), str(item.why))
                continue
            try:
                record: Any = check(item)
            except BAD_RECORD as error:
                yield UnreadableRow(f"{what} {number}", f"it is not valid: {error!r}"[:500])
                continue
            owner = record if isinstance(record, SharedState) else record.owner
            if self._filter.matches(owner.app_name, owner.user_id or ""):
                yield record


def _check_owner(owner: Owner) -> Owner:
    names = Owner(*owner)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("the names of app, user and session are not texts")
    return names


def _check_object(value: Any) -> dict[str, Any]:
    """Return an object as plain JSON."""
    plain = json.loads(json.dumps(value))
    if not isinstance(plain, dict):
        raise ValueError(f"it is a {type(value).__name__}, not an object")
    return plain


def _check_session(session: StoredSession) -> StoredSession:
    created_at, updated_at = parse_timestamp(session.created_at), parse_timestamp(session.updated_at)
    tags = tuple(map(str, session.tags))
    return StoredSession(_check_owner(session.owner), created_at, updated_at, str(session.title), tags)


def _check_state(state: StoredState) -> StoredState:
    return StoredState(_check_owner(state.owner), _check_object(state.values), _check_object(state.seeds))


def _check_shared(state: SharedState) -> SharedState:
    _check_owner(Owner(state.app_name, state.user_id or "", ""))
    return replace(
        state,
        values=_check_object(state.values),
        seeds=_check_object(state.seeds),
        updated_at=parse_timestamp(state.updated_at),
    )


def _check_event(event: StoredEvent) -> StoredEvent:
    wire, changes = normalize_event(_check_object(event.wire))
    parse_timestamp(wire["timestamp"])
    if not wire["id"]:
        raise ValueError("the event has no id")
    wire.setdefault("invocationId", "")
    removed = removed_keys(wire) | frozenset(map(str, event.removed))
    return StoredEvent(_check_owner(event.owner), wire, changes, str(event.unread), removed)
