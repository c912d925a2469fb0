"""Copies of sessions that an ADK service owns. The service is the source; pages show the copy.

Writes go to the source first, then to the copy. Changes that other processes made at the source are copied when the
session is read next (`sessions_app.adk.mirror`). A copy that differs records the difference. Nothing is deleted from a
copy because the source lacks it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from django.db import transaction
from django.db.models import F

from sessions_app.store import scopes
from sessions_app.store.database import change_notification, statements, units_of_work
from sessions_app.store.errors import AlreadyExists, BadInput, DuplicateEvent
from sessions_app.store.events import EventRecord, StateWrite, event_text, is_error
from sessions_app.store.index import index_entries
from sessions_app.store.models import (
    AgentSession,
    AppState,
    ChangeCause,
    Event,
    MirroredSession,
    Scope,
    SessionState,
    UserState,
)
from sessions_app.store.session_key import SessionKey, StorableKey
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.ledger import Provenance, take_owners, write_keys
from sessions_app.store.sessions.writes import AppendResult

BATCH = 200
"""Events copied in one transaction."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session in the service that owns it, without its events.

    Attributes:
        place: URI of the service, without a password.
        state: merged state with prefixed keys.
    """

    key: StorableKey
    place: str
    state: Mapping[str, Any]
    updated_at: float


@dataclass(frozen=True, slots=True)
class MirrorState:
    """The copy of a session: its revision and event ids. `revision` is None if there is no copy."""

    revision: int | None = None
    event_ids: frozenset[str] = frozenset()


class SourceEvent(NamedTuple):
    """An event of the source session, to be copied."""

    record: EventRecord
    cause: ChangeCause


@dataclass(frozen=True, slots=True)
class SourceEvents(Generic[T]):
    """The events of a session in the service that owns it.

    Attributes:
        items: all events, in order.
        id_of: returns the id of an event.
        arrival_of: converts an event to a row; called in a thread.
        doubtful: ids of events stored from a stream, which the service may correct.
    """

    items: Sequence[T]
    id_of: Callable[[T], str]
    arrival_of: Callable[[T], SourceEvent]
    doubtful: Collection[str] = frozenset()


def read_mirror(key: SessionKey) -> MirrorState:
    """Return the state of a session's copy."""
    session = _find_copy(key)
    if session is None:
        return MirrorState()
    return MirrorState(
        session.revision, frozenset(Event.objects.filter(session=session).values_list("event_id", flat=True))
    )


def create_mirror(source: SourceSession, seeds: Mapping[str, Any], created_at: float) -> int:
    """Create the copy of a session, unless another process just has. Return its revision.

    Raises:
        BadInput: an id cannot be stored.
    """
    with transaction.atomic():
        try:
            session = writes.create_session(source.key, seeds, now=created_at)
        except AlreadyExists:
            session = AgentSession.objects.get(**source.key._asdict())
        MirroredSession.objects.get_or_create(session=session, defaults={"place": source.place})
    return session.revision


def append_event(key: SessionKey, arrival: SourceEvent, updated_at: float) -> AppendResult:
    """Append an event that the source has stored; the session gets the source's update time.

    Raises:
        SessionMissing, DuplicateEvent, BadInput: see `writes.append_event`.
    """
    with transaction.atomic():
        appended = writes.append_event(key, arrival.record, cause=arrival.cause)
        if updated_at != arrival.record.timestamp:
            AgentSession.objects.filter(pk=appended.session_pk).update(updated_at=updated_at)
    return appended


def append_missing(
    key: SessionKey, arrivals: Iterable[SourceEvent], correct: bool = False
) -> tuple[int, list[str]]:
    """Append missing events of the source. Return the number of new revisions, and the errors of rejected events.

    Args:
        correct: replace the body of an event that differs from the source's.

    Raises:
        SessionMissing: there is no copy.
    """
    grown, refused = 0, list[str]()
    with transaction.atomic():
        for arrival in arrivals:
            try:
                grown += not writes.append_event(key, arrival.record, cause=arrival.cause).duplicate
            except (
                DuplicateEvent
            ):  # else the process that wrote it to the source has stored it here meanwhile
                grown += correct and _correct_event(key, arrival.record, refused)
            except BadInput as error:
                refused.append(error.message)
    return grown, refused


def _correct_event(key: SessionKey, record: EventRecord, refused: list[str]) -> bool:
    """Replace a stored event by the source's version. Return whether it was replaced.

    Its state delta is in the ledger already, so an event with another delta is not replaced.
    """
    session = AgentSession.objects.select_for_update().get(**key._asdict())
    stored = Event.objects.get(session=session, event_id=record.event_id)
    before, after = (
        json.loads(body) for body in (stored.private or stored.data, record.private or record.data)
    )
    if before["actions"]["stateDelta"] != after["actions"]["stateDelta"]:
        refused.append(f"event {record.event_id!r} has another state delta than the stored copy")
        return False
    text_before, summary_before = event_text.data_text(stored.data), stored.decoded_summary
    AgentSession.objects.filter(pk=session.pk).update(
        revision=F("revision") + 1,
        total_tokens=F("total_tokens") + record.total_tokens - stored.total_tokens,
        error_count=F("error_count") + int(record.is_error) - int(is_error(before)),
    )
    for name in ("invocation_id", "author", "kind", "timestamp", "branch", "is_final", "total_tokens"):
        setattr(stored, name, getattr(record, name))
    stored.summary, stored.data, stored.private = record.summary, record.data, record.private
    stored.save()
    has_other_tokens = json.loads(record.summary).get("tokens") != summary_before["tokens"]
    if has_other_tokens or event_text.data_text(record.data) != text_before:
        index_entries.reset_session(session.pk)
    return True


def is_in_sync(source: SourceSession, behind: str = "") -> bool:
    """Return whether the state, time and mirror record of a copy match the source. Events are not compared."""
    session = _find_copy(source.key)
    return (
        session is not None and _has_mark(session, source, behind) and not _state_differences(session, source)
    )


def is_current(key: SessionKey, location: str, updated_at: float) -> bool:
    """Return whether a copy has the source's time and no recorded difference, without comparing events and state."""
    session = _find_copy(key)
    return session is not None and _has_mark(
        session, SourceSession(session.key, location, {}, updated_at), ""
    )


def update_mirror(source: SourceSession, behind: str, revision: int) -> None:
    """Set the state and time of a copy to the source's, and record the remaining difference.

    If the copy's revision has changed, it is newer than what was read of the source, and nothing is done.
    """
    with transaction.atomic():
        session = (
            AgentSession.objects.select_for_update().filter(**source.key._asdict(), revision=revision).first()
        )
        if session is None:
            return
        _write_differences(session, source)
        MirroredSession.objects.update_or_create(
            session=session, defaults={"place": source.place, "behind": behind}
        )
        change_notification.notify_after_commit()


def remove_mirror(key: SessionKey) -> None:
    """Delete a session's copy. A local session of the same name is left alone."""
    with transaction.atomic():
        session = _find_copy(key)
        if session is not None and hasattr(session, "mirrored"):
            writes.delete_session(key)


def note_difference(key: SessionKey, why: str) -> None:
    """Record the difference of a copy from its source, if there is a copy."""
    names = {f"session__{name}": value for name, value in key._asdict().items()}
    if MirroredSession.objects.filter(**names).exclude(behind=why).update(behind=why):
        change_notification.notify_after_commit()


async def sync_mirror(
    source: SourceSession,
    mirror_state: MirrorState,
    events: SourceEvents[T],
    *,
    seeds: Mapping[str, Any],
    created_at: float,
) -> None:
    """Create or update a copy to match its source session; note a difference that remains.

    Args:
        mirror_state: the copy before the source was read: later events of the copy are not differences.
        seeds: initial state of the session; used if there is no copy yet.

    Raises:
        BadInput: an id cannot be stored.
    """
    revision, refused = mirror_state.revision, list[str]()
    if revision is None:
        revision = await units_of_work.write(create_mirror, source, seeds, created_at)
    ids = [events.id_of(event) for event in events.items]
    missing = [
        event
        for name, event in zip(ids, events.items, strict=True)
        if name not in mirror_state.event_ids or name in events.doubtful
    ]
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        arrivals = await asyncio.to_thread(
            lambda batch_events: [events.arrival_of(event) for event in batch_events], batch
        )
        grown, left_out = await units_of_work.write(
            append_missing, source.key, arrivals, bool(events.doubtful)
        )
        revision, refused = revision + grown, refused + left_out
    behind = _describe_difference(source.place, len(mirror_state.event_ids.difference(ids)), refused)
    if not await units_of_work.read(is_in_sync, source, behind):
        await units_of_work.write(update_mirror, source, behind, revision)


def _describe_difference(location: str, only_here: int, refused: list[str]) -> str:
    sentences = []
    if only_here:
        sentences.append(f"{only_here} of the events here are not in {location}.")
    if refused:
        sentences.append(f"{len(refused)} of its events cannot be stored here: {refused[0]}")
    return " ".join(sentences)


def _find_copy(key: SessionKey) -> AgentSession | None:
    return AgentSession.objects.select_related("mirrored").filter(**key._asdict()).first()


def _has_mark(session: AgentSession, source: SourceSession, behind: str) -> bool:
    mark: MirroredSession | None = getattr(session, "mirrored", None)
    return mark is not None and (mark.place, mark.behind, session.updated_at) == (
        source.place,
        behind,
        source.updated_at,
    )


def _write_differences(session: AgentSession, source: SourceSession) -> None:
    """Write differing keys as changes without an event: the source got them in another way."""
    differences = _state_differences(session, source)
    if differences:
        with statements.open_statements() as cursor:
            owners = take_owners(cursor, source.key, session.pk, differences, position=session.last_seq)
            provenance = Provenance(source.key, session.pk, 0, source.updated_at, ChangeCause.IMPORT)
            write_keys(cursor, owners, differences, provenance)
    if differences or session.updated_at != source.updated_at:
        AgentSession.objects.filter(pk=session.pk).update(
            updated_at=source.updated_at, revision=F("revision") + 1
        )


def _state_differences(session: AgentSession, source: SourceSession) -> list[StateWrite]:
    """Return the keys whose value differs from the source, and the session's own keys that the source lacks.

    User and app keys that only the copy has are retained: sessions that this store owns may have written them.
    """
    copied = {(scope, key): text for scope, rows in _state_rows(session) for key, text in rows}
    source_values = {
        (scope, key): value for scope, key, value in scopes.split_delta(source.state).canonical_values()
    }
    changed = [
        StateWrite(scope, key, value)
        for (scope, key), value in source_values.items()
        if not _is_same_value(copied.get((scope, key)), value.private or value.public)
    ]
    removed_keys = [
        StateWrite(scope, key, scopes.canonicalize(None, key), removed=True)
        for scope, key in sorted(copied.keys() - source_values.keys())
        if scope is Scope.SESSION
    ]
    return changed + removed_keys


def _is_same_value(copied: str | None, source: str) -> bool:
    return copied is not None and scopes.is_same_json(copied, source)


def _state_rows(session: AgentSession) -> Iterable[tuple[Scope, Collection[tuple[str, str]]]]:
    app = {"owner__realm": session.realm, "owner__app_name": session.app_name}
    for scope, rows in (
        (Scope.SESSION, SessionState.objects.filter(owner=session)),
        (Scope.USER, UserState.objects.filter(**app, owner__user_id=session.user_id)),
        (Scope.APP, AppState.objects.filter(**app)),
    ):
        yield (
            scope,
            [(key, private or value) for key, value, private in rows.values_list("key", "value", "private")],
        )
