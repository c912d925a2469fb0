"""Reconciliation at the end of an import: state that no event explains becomes equal to the source's.

The writes are computed first, then made in short transactions that check whether another writer has changed the data.
When an import is stopped in between, the next run computes the remaining writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from sessions_app.store import events, scopes
from sessions_app.store.database import change_notification
from sessions_app.store.database.batched_transactions import BatchedTransactions
from sessions_app.store.events.attribution import Writer
from sessions_app.store.ids import is_storable
from sessions_app.store.models import (
    STATE_ROWS,
    AgentSession,
    ChangeCause,
    ImportedSession,
    ImportSource,
    Scope,
    StateChange,
)
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions.ledger import Provenance
from sessions_app.store.short_texts import join_names
from sessions_app.transfer.readers.records import Owner, SharedState, StoredState
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers import import_rows
from sessions_app.transfer.writers.import_rows import ImportedWrite, StateOwner
from sessions_app.transfer.writers.session_plan import SessionPlan

BATCH = 100
KEYS_NAMED = 10
"""Keys that a line of a report names."""

CHANGED_MEANWHILE = "it was changed or deleted before its state was set to that of the source"


class _Seeder(NamedTuple):
    """Writer of state that no event explains: the source. `session_pk`: of the session, if it is the owner."""

    owner: StateOwner
    key: SessionKey
    location: str
    timestamp: float
    session_pk: int | None = None

    def write(
        self, key: str, value: Any, position: int, *, removed: bool = False, is_past: bool = False
    ) -> ImportedWrite:
        """Return the write of a key."""
        writer = Writer("seed", self.location, inferred=False)
        write = events.StateWrite(self.owner.scope, key, scopes.canonicalize(value, key), writer, removed)
        provenance = Provenance(self.key, self.session_pk, 0, self.timestamp, ChangeCause.IMPORT)
        change = import_rows.ledger_row(self.owner, position, write, provenance)
        return ImportedWrite(self.owner, change, is_past)


def reconcile_state(
    source_row: ImportSource,
    states: Iterable[StoredState],
    shared_states: Iterable[SharedState],
    plans: Mapping[Owner, SessionPlan],
    report: ImportReport,
) -> None:
    """Reconcile all complete sessions, then the state of users and apps."""
    slices = BatchedTransactions()
    whole_plans = {name: plan for name, plan in plans.items() if plan.is_whole}
    for stored in states:
        if plan := whole_plans.get(stored.owner):
            for change in stored.changes:
                report.changed.add(f"{stored.owner}: {change}")
            _reconcile_session(slices, source_row, plan, stored, report)
    for shared in shared_states:
        _reconcile_shared(slices, source_row, shared, report)
    _mark_settled(slices, whole_plans.values())


def _reconcile_session(
    slices: BatchedTransactions,
    source: ImportSource,
    plan: SessionPlan,
    stored: StoredState,
    report: ImportReport,
) -> None:
    """Write the session keys whose value in the source differs from that of its events."""
    session = AgentSession.objects.filter(**plan.key._asdict(), last_seq=plan.events_read).first()
    if session is None:
        report.conflicts.add(f"{stored.owner}: {CHANGED_MEANWHILE}")
        return
    owner = import_rows.session_owner(session, session.last_seq)
    seeder = _Seeder(owner, plan.key, source.location, plan.stored.created_at, session.pk)
    late = session.last_seq if plan.was_settled else 0
    settled = _write_to_session(slices, session, _missing_seeds(seeder, stored.values, stored.seeds, late))
    if settled:
        corrector = seeder._replace(timestamp=plan.stored.updated_at)
        settled = _write_to_session(
            slices, session, _corrected_writes(corrector, stored.values, session.last_seq)
        )
    if not settled:
        report.conflicts.add(f"{stored.owner}: {CHANGED_MEANWHILE}")


def _write_to_session(
    slices: BatchedTransactions, session: AgentSession, writes: list[ImportedWrite]
) -> bool:
    """Write keys of a session. Return False if another writer has changed it meanwhile."""
    for batch in _write_batches(slices, writes):
        with slices.one():
            same = AgentSession.objects.select_for_update().filter(pk=session.pk, revision=session.revision)
            if not same.exists():
                return False
            import_rows.store_writes(batch)
            change_notification.notify_after_commit()
    return True


def _reconcile_shared(
    slices: BatchedTransactions,
    source: ImportSource,
    shared: SharedState,
    report: ImportReport,
) -> None:
    user_id = shared.user_id or ""
    scope = Scope.APP if shared.user_id is None else Scope.USER
    if not is_storable(shared.app_name, user_id):
        return
    key = SessionKey("", shared.app_name, user_id, "")
    lock_owner = partial(import_rows.lock_shared_owner, source, key, scope)
    with slices.one():
        owner = lock_owner(make=bool(shared.values))
    if owner is None:
        return
    first = 0 if not owner.is_kept else owner.version
    seeder = _Seeder(owner, key, source.location, shared.updated_at)
    for batch in _write_batches(slices, _missing_seeds(seeder, shared.values, shared.seeds, first)):
        with slices.one():
            now = lock_owner(make=False)
            if now is None or now.is_kept != owner.is_kept:
                report.conflicts.add(f"state of {_owner_name(shared)}: {CHANGED_MEANWHILE}")
                return
            import_rows.store_writes(batch)
            change_notification.notify_after_commit()
    if owner.is_kept:
        _report_kept_keys(owner, shared, report)
        return
    corrections = _corrected_writes(seeder, shared.values, owner.version)
    for batch in _write_batches(slices, corrections) if corrections else [[]]:
        with slices.one():
            now = lock_owner(make=False)
            if now is None or now.is_kept:
                report.conflicts.add(f"state of {_owner_name(shared)}: {CHANGED_MEANWHILE}")
                return
            if batch:
                now.take_version()
            for write in batch:
                write.change.position = now.version
            import_rows.store_writes([replace(write, owner=now) for write in batch])
            import_rows.save_versions(source, now)
            change_notification.notify_after_commit()


def _write_batches(slices: BatchedTransactions, writes: list[ImportedWrite]) -> Iterator[list[ImportedWrite]]:
    start = 0
    while batch := writes[start : start + slices.rows]:
        yield batch
        start += len(batch)


def _mark_settled(slices: BatchedTransactions, plans: Iterable[SessionPlan]) -> None:
    ready = iter(plans)
    while batch := list(islice(ready, BATCH)):
        with slices.one():
            for plan in batch:
                same = AgentSession.objects.filter(**plan.key._asdict(), last_seq=plan.events_read)
                if same.update(updated_at=plan.stored.updated_at):
                    ImportedSession.objects.filter(session__in=same).update(is_settled=True)


def _missing_seeds(
    seeder: _Seeder, values: Mapping[str, Any], seeds: Mapping[str, Any], position: int
) -> list[ImportedWrite]:
    """Return first writes for keys that no write explains: the known seed, else the source's present value."""
    ledger = StateChange.objects.filter(scope=seeder.owner.scope, owner_id=seeder.owner.row.pk)
    explained = set(ledger.values_list("key_id", flat=True).distinct())
    seeded = set(ledger.filter(position=0).values_list("key_id", flat=True))
    values_by_key = {scopes.canonicalize_key(key): value for key, value in {**values, **seeds}.items()}
    known_seeds = {scopes.canonicalize_key(key) for key in seeds}
    return [
        seeder.write(key, value, position, is_past=scopes.key_id(key) in explained)
        for key, value in values_by_key.items()
        if scopes.key_id(key) not in explained
        or (key in known_seeds and position == 0 and scopes.key_id(key) not in seeded)
    ]


def _corrected_writes(seeder: _Seeder, values: Mapping[str, Any], position: int) -> list[ImportedWrite]:
    """Return writes for keys whose value in the source differs from that of its events, or is missing."""
    stored, source_values = (
        _stored_state(seeder.owner),
        {scopes.canonicalize_key(key): values[key] for key in values},
    )
    changed = [
        seeder.write(key, value, position)
        for key, value in source_values.items()
        if key in stored and not _is_same(value, key, stored[key])
    ]
    removed = [
        seeder.write(key, None, position, removed=True) for key in stored.keys() - source_values.keys()
    ]
    return changed + removed


def _stored_state(owner: StateOwner) -> dict[str, Any]:
    return {row.key: row for row in STATE_ROWS[owner.scope]._default_manager.filter(owner=owner.row)}


def _is_same(value: Any, key: str, row: Any) -> bool:
    canonical = scopes.canonicalize(value, key)
    return scopes.is_same_json(canonical.private or canonical.public, row.private or row.value)


def _report_kept_keys(owner: StateOwner, shared: SharedState, report: ImportReport) -> None:
    stored = _stored_state(owner)
    other = [
        key for key, value in shared.values.items() if key in stored and not _is_same(value, key, stored[key])
    ]
    if other:
        key_names = join_names(sorted(other), KEYS_NAMED)
        report.conflicts.add(
            f"state of {_owner_name(shared)}: {len(other)} key(s) keep their value here: {key_names}"
        )


def _owner_name(shared: SharedState) -> str:
    if shared.user_id is None:
        return f"app {shared.app_name}"
    return f"user {shared.app_name}/{shared.user_id}"
