"""State that no event explains, and the end of an import: everything is as the source has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from django.db import transaction

from sessions_app import bell, state
from sessions_app.ids import SessionKey, can_exist
from sessions_app.importers import Owner as Name
from sessions_app.importers import SharedState, Source, StoredState, Unread
from sessions_app.imports import rows
from sessions_app.imports.report import Report
from sessions_app.imports.rows import Owner, Write
from sessions_app.imports.seats import Seat
from sessions_app.models import AgentSession, ImportedSession, ImportSource, Scope, StateChange

BATCH = 100


def settle(
    source_row: ImportSource,
    source: Source,
    seats: Mapping[Name, Seat],
    into_app: str | None,
    report: Report,
) -> None:
    """Settle all sessions that are open and whole, then the state of their users and apps."""
    whole = {name: seat for name, seat in seats.items() if seat.is_whole}
    states = source.states()
    while batch := list(islice(states, BATCH)):
        with transaction.atomic():
            for stored in _readable(batch, report):
                if seat := whole.get(stored.owner):
                    _settle_session(seat, stored)
            bell.ring_after_commit()
    shared = source.shared()
    while some := list(islice(shared, BATCH)):
        with transaction.atomic():
            for each in _readable(some, report):
                _settle_shared(source_row, into_app or each.app_name, each, report)
            bell.ring_after_commit()
    _finish(whole.values())


def _readable(items: Iterable[Any], report: Report) -> Iterable[Any]:
    for item in items:
        if isinstance(item, Unread):
            report.unread.add(f"{item.where}: {item.why}")
        else:
            yield item


def _settle_session(seat: Seat, stored: StoredState) -> None:
    """Give a session's keys what the source has, where its events say otherwise or nothing."""
    found = AgentSession.objects.select_for_update().filter(**seat.key._asdict(), last_seq=seat.came)
    session = found.first()
    if session is None:
        return
    owner = rows.own_session(session, session.last_seq)
    late = session.last_seq if seat.was_settled else 0
    writes = _missing(owner, stored.values, stored.seeds, late, seat.stored.created_at, seat.key)
    rows.store(writes)
    rows.store(_corrections(owner, stored.values, session.last_seq, seat.stored.updated_at, seat.key))


def _settle_shared(source: ImportSource, app_name: str, shared: SharedState, report: Report) -> None:
    user_id = shared.user_id or ""
    scope = Scope.APP if shared.user_id is None else Scope.USER
    if not can_exist(app_name, user_id):
        return
    key = SessionKey("", app_name, user_id, "")
    owner = rows.own_shared(source, key, scope, make=bool(shared.values))
    if owner is None:
        return
    first = 0 if not owner.is_kept else owner.version
    rows.store(_missing(owner, shared.values, shared.seeds, first, shared.updated_at, key))
    if owner.is_kept:
        _tell_kept(owner, shared, report)
        return
    corrections = _corrections(owner, shared.values, owner.version + 1, shared.updated_at, key)
    if corrections:
        owner.take_version()
        rows.store(corrections)
    rows.release(source, owner)


def _finish(seats: Iterable[Seat]) -> None:
    """Give the sessions their times, and note that they are whole."""
    ready = iter(seats)
    while batch := list(islice(ready, BATCH)):
        with transaction.atomic():
            for seat in batch:
                same = AgentSession.objects.filter(**seat.key._asdict(), last_seq=seat.came)
                if same.update(updated_at=seat.stored.updated_at):
                    ImportedSession.objects.filter(session__in=same).update(is_settled=True)


def _missing(
    owner: Owner,
    wanted: Mapping[str, Any],
    seeds: Mapping[str, Any],
    position: int,
    timestamp: float,
    for_key: SessionKey,
) -> list[Write]:
    """Return seeds for keys that no write explains: known ones, else the value the source has now."""
    ledger = StateChange.objects.filter(scope=owner.scope, owner_id=owner.row.pk)
    explained = set(ledger.values_list("key_id", flat=True).distinct())
    seeded = set(ledger.filter(position=0).values_list("key_id", flat=True))
    given = {state.canonical_key(key): value for key, value in {**wanted, **seeds}.items()}
    known_seeds = {state.canonical_key(key) for key in seeds}
    return [
        Write(owner, position, key, state.canonical(value, key), timestamp, for_key=for_key)
        for key, value in given.items()
        if state.key_id(key) not in explained
        or (key in known_seeds and position == 0 and state.key_id(key) not in seeded)
    ]


def _corrections(
    owner: Owner, wanted: Mapping[str, Any], position: int, timestamp: float, for_key: SessionKey
) -> list[Write]:
    """Return writes for keys whose value in the source is another one than its events say, or that are gone."""
    model = rows.STATE_ROWS[owner.scope]
    here = {row.key: row for row in model._default_manager.filter(owner=owner.row)}
    values = {state.canonical_key(key): state.canonical(value, key) for key, value in wanted.items()}
    changed = [
        Write(owner, position, key, value, timestamp, for_key=for_key)
        for key, value in values.items()
        if key in here
        and not state.same_json(value.private or value.public, here[key].private or here[key].value)
    ]
    gone = [
        Write(owner, position, key, state.canonical(None, key), timestamp, removed=True, for_key=for_key)
        for key in here.keys() - values.keys()
    ]
    return changed + gone


def _tell_kept(owner: Owner, shared: SharedState, report: Report) -> None:
    model = rows.STATE_ROWS[owner.scope]
    here = {row.key: row for row in model._default_manager.filter(owner=owner.row)}
    other = [
        key
        for key, value in shared.values.items()
        if (row := here.get(key)) and not state.same_json(state.canonical(value, key).public, row.value)
    ]
    if other:
        whose = (
            f"app {shared.app_name}" if shared.user_id is None else f"user {shared.app_name}/{shared.user_id}"
        )
        named = ", ".join(sorted(other)[:10])
        report.conflicts.add(f"state of {whose}: {len(other)} key(s) keep their value here: {named}")
