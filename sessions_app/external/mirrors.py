"""Copies of sessions that one of ADK's own services keeps: that service is the truth, the copy is what pages show.

What the truth was given is written here after it; what other processes gave it is taken over when the session is
read next (`sessions_app.adk.mirror`). The truth is never judged here: a copy that differs says so. Nothing of a copy
is ever deleted because the truth lacks it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import F

from sessions_app import scopes
from sessions_app.errors import AlreadyExists, BadInput, DuplicateEvent
from sessions_app.events import EventRecord, KeyWrite, event_text, is_error
from sessions_app.ids import SessionKey
from sessions_app.models import (
    AgentSession,
    AppState,
    ChangeCause,
    Event,
    MirroredSession,
    Scope,
    SessionState,
    UserState,
)
from sessions_app.search import indexing
from sessions_app.sessions import writes
from sessions_app.sessions.ledger import Provenance, take_owners, write_keys
from sessions_app.sessions.writes import AppendResult
from sessions_app.store import change_notification, statements


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session as its own service has it, without its events.

    Attributes:
        place: the service's URI, without a password.
        state: merged, keys with their prefixes.
    """

    key: SessionKey
    place: str
    state: Mapping[str, Any]
    updated_at: float


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What is here of a session: nothing, when `revision` is None."""

    revision: int | None = None
    event_ids: frozenset[str] = frozenset()


class SourceEvent(NamedTuple):
    """An event of the truth on its way here."""

    record: EventRecord
    cause: ChangeCause


def read_mirror(key: SessionKey) -> MirrorState:
    """Return what is here of a session."""
    session = _find(key)
    if session is None:
        return MirrorState()
    return MirrorState(
        session.revision, frozenset(Event.objects.filter(session=session).values_list("event_id", flat=True))
    )


def create_mirror(truth: SourceSession, seeds: Mapping[str, Any], created_at: float) -> int:
    """Make a session's copy, unless somebody else has just made it. Return its revision.

    Raises:
        BadInput: an id that this store cannot hold.
    """
    with transaction.atomic():
        try:
            session = writes.create_session(truth.key, seeds, now=created_at)
        except AlreadyExists:
            session = AgentSession.objects.get(**truth.key._asdict())
        MirroredSession.objects.get_or_create(session=session, defaults={"place": truth.place})
    return session.revision


def append_event(key: SessionKey, arrival: SourceEvent, updated_at: float) -> AppendResult:
    """Append an event that the truth has been given; the session gets the truth's time of it.

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
    """Append events of the truth that are missing here. Return by how much the revision grew, and what is refused why.

    Args:
        correct: an event that stands here with another body gets that of the truth.

    Raises:
        SessionMissing: there is no copy.
    """
    grown, refused = 0, list[str]()
    with transaction.atomic():
        for arrival in arrivals:
            try:
                grown += not writes.append_event(key, arrival.record, cause=arrival.cause).duplicate
            except DuplicateEvent:  # else the process that gave it to the truth has stored it here meanwhile
                grown += correct and _correct(key, arrival.record, refused)
            except BadInput as error:
                refused.append(error.message)
    return grown, refused


def _correct(key: SessionKey, record: EventRecord, refused: list[str]) -> bool:
    """Let a stored event say what the truth says of it. Return whether it does now.

    What it writes to the state stands in the ledger already, so one with another delta is left as it is.
    """
    session = AgentSession.objects.select_for_update().get(**key._asdict())
    stored = Event.objects.get(session=session, event_id=record.event_id)
    before, after = (
        json.loads(body) for body in (stored.private or stored.data, record.private or record.data)
    )
    if before["actions"]["stateDelta"] != after["actions"]["stateDelta"]:
        refused.append(f"event {record.event_id!r} came with another change of state than it is kept with")
        return False
    said_before = event_text.text_of_data(stored.data)
    AgentSession.objects.filter(pk=session.pk).update(
        revision=F("revision") + 1,
        total_tokens=F("total_tokens") + record.total_tokens - stored.total_tokens,
        error_count=F("error_count") + int(record.is_error) - int(is_error(before)),
    )
    for name in ("invocation_id", "author", "kind", "timestamp", "branch", "is_final", "total_tokens"):
        setattr(stored, name, getattr(record, name))
    stored.summary, stored.data, stored.private = record.summary, record.data, record.private
    stored.save()
    if event_text.text_of_data(record.data) != said_before:
        indexing.reset_session(session.pk)
    return True


def is_in_sync(truth: SourceSession, behind: str = "") -> bool:
    """Tell whether the state, the time and the mark of a copy are those of the truth. Its events are not looked at."""
    session = _find(truth.key)
    return session is not None and _has_mark(session, truth, behind) and not _differences(session, truth)


def is_current(key: SessionKey, place: str, updated_at: float) -> bool:
    """Tell, without a look at events and state, whether a copy is as new as the truth and differs in nothing known."""
    session = _find(key)
    return session is not None and _has_mark(session, SourceSession(key, place, {}, updated_at), "")


def update_mirror(truth: SourceSession, behind: str, revision: int) -> None:
    """Give a copy the state and the time that the truth has, and note how it differs all the same.

    A copy whose revision is another one by now has gone on meanwhile: what the truth was then is no news.
    """
    with transaction.atomic():
        session = (
            AgentSession.objects.select_for_update().filter(**truth.key._asdict(), revision=revision).first()
        )
        if session is None:
            return
        _write_differences(session, truth)
        MirroredSession.objects.update_or_create(
            session=session, defaults={"place": truth.place, "behind": behind}
        )
        change_notification.notify_after_commit()


def remove_mirror(key: SessionKey) -> None:
    """Delete a session's copy. A session of the same name that is none is left alone."""
    with transaction.atomic():
        session = _find(key)
        if session is not None and hasattr(session, "mirrored"):
            writes.delete_session(key)


def note_difference(key: SessionKey, why: str) -> None:
    """Note how a copy differs from the truth, where there is a copy."""
    names = {f"session__{name}": value for name, value in key._asdict().items()}
    if MirroredSession.objects.filter(**names).exclude(behind=why).update(behind=why):
        change_notification.notify_after_commit()


def _find(key: SessionKey) -> AgentSession | None:
    return AgentSession.objects.select_related("mirrored").filter(**key._asdict()).first()


def _has_mark(session: AgentSession, truth: SourceSession, behind: str) -> bool:
    mark: MirroredSession | None = getattr(session, "mirrored", None)
    return mark is not None and (mark.place, mark.behind, session.updated_at) == (
        truth.place,
        behind,
        truth.updated_at,
    )


def _write_differences(session: AgentSession, truth: SourceSession) -> None:
    """Write what differs, as keys that no event explains: somebody gave them to the truth in another way."""
    differences = _differences(session, truth)
    if differences:
        with statements.open_statements() as cursor:
            owners = take_owners(cursor, truth.key, session.pk, differences, position=session.last_seq)
            provenance = Provenance(truth.key, session.pk, 0, truth.updated_at, ChangeCause.IMPORT)
            write_keys(cursor, owners, differences, provenance)
    if differences or session.updated_at != truth.updated_at:
        AgentSession.objects.filter(pk=session.pk).update(
            updated_at=truth.updated_at, revision=F("revision") + 1
        )


def _differences(session: AgentSession, truth: SourceSession) -> list[KeyWrite]:
    """Return the keys whose value is another one here, and the session's own keys that are gone.

    Keys of the user and of the app that are here alone stay: sessions that this store keeps may have written them.
    """
    here = {(scope, key): text for scope, rows in _state_rows(session) for key, text in rows}
    there = {
        (scope, key): scopes.canonicalize(value, key)
        for scope, key, value in scopes.split_delta(truth.state).stored()
    }
    changed = [
        KeyWrite(scope, key, value)
        for (scope, key), value in there.items()
        if not _is_same_value(here.get((scope, key)), value.private or value.public)
    ]
    gone = [
        KeyWrite(scope, key, scopes.canonicalize(None, key), removed=True)
        for scope, key in sorted(here.keys() - there.keys())
        if scope is Scope.SESSION
    ]
    return changed + gone


def _is_same_value(here: str | None, there: str) -> bool:
    return here is not None and scopes.is_same_json(here, there)


def _state_rows(session: AgentSession) -> Iterable[tuple[Scope, Collection[tuple[str, str]]]]:
    """Yield the JSON texts of a session's keys, and of those that it shares."""
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
