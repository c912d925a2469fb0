"""Import of sessions: create them, compare or append their events, then reconcile their state."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, TypeVar

from sessions_app.plugins import FAILURES
from sessions_app.store import events, scopes
from sessions_app.store.database import change_notification
from sessions_app.store.database.batched_transactions import BatchedTransactions
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.events import EventRecord
from sessions_app.store.ids import check_event_ids, check_ids, is_storable
from sessions_app.store.models import AgentSession, Event, ImportedSession, ImportSource
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions.ledger import OwnerPositions
from sessions_app.transfer.readers.records import (
    Owner,
    Source,
    SourceError,
    StoredEvent,
    StoredSession,
    UnreadableRow,
)
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers import import_rows, reconciliation
from sessions_app.transfer.writers.import_rows import ImportedWrite, PendingEvent, StateOwners
from sessions_app.transfer.writers.session_plan import SessionPlan, plan_session

MAX_EVENTS = 200
"""Most events in one transaction."""

MAX_KEYS = 2_000
"""Most state keys in one transaction; a single event may have more."""

MAX_TEXT = 4_000_000
"""Characters of events that are held for one transaction; a single event may have more."""

_CORE_FIELDS = ("invocationId", "author", "timestamp", "content")
"""Fields of an event by which a stored one is recognized."""

Progress = Callable[[int], None]
"""Callback with the number of events read."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def import_sessions(
    source: Source, *, dry_run: bool = False, progress: Progress | None = None
) -> ImportReport:
    """Import all sessions of a source.

    Args:
        source: an open source.
        dry_run: report what would be imported without writing.
        progress: called after each batch.
    """
    return _Import(source, dry_run, progress or (lambda done: None)).run()


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Stored event with the same id."""

    seq: int
    body: str

    def is_same_event(self, record: EventRecord) -> bool:
        """Tell whether it is the same event. Details may differ when an older DevUI imported it."""
        body = record.private or record.data
        if self.body == body:
            return True
        stored, sent = json.loads(self.body), json.loads(body)
        return all(stored.get(name) == sent.get(name) for name in _CORE_FIELDS)


class Duplicates:
    """Events with the ids of a batch, in the store and earlier in the batch."""

    def __init__(self, keys: Mapping[int, SessionKey], event_ids: Iterable[str]) -> None:
        """Load the events with these ids from these sessions (pk to key)."""
        self._event_ids = {event_id for event_id in event_ids if is_storable(event_id)}
        rows = Event.objects.filter(session_id__in=keys, event_id__in=self._event_ids)
        columns = ("session_id", "event_id", "seq", "data", "private")
        self._duplicates = {
            (keys[pk], event_id): Duplicate(seq, private or data)
            for pk, event_id, seq, data, private in rows.values_list(*columns)
        }

    def find(self, plan: SessionPlan, event_id: str) -> Duplicate | None:
        """Return the session's event with this id."""
        if event_id not in self._event_ids and plan.pk:
            row = Event.objects.filter(session_id=plan.pk, event_id=event_id).first()
            if row:
                return Duplicate(row.seq, row.private or row.data)
        return self._duplicates.get((plan.key, event_id))

    def add(self, plan: SessionPlan, record: EventRecord) -> None:
        """Add an event that is about to be stored."""
        self._duplicates[plan.key, record.event_id] = Duplicate(
            plan.events_read, record.private or record.data
        )


class _ParsedEvent(NamedTuple):
    event: StoredEvent
    record: EventRecord


class _Import:
    def __init__(self, source: Source, dry_run: bool, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self._report = ImportReport(source.format, source.location, dry_run)
        self._row: ImportSource | None = None
        self._plans: dict[Owner, SessionPlan] = {}
        self._slices = BatchedTransactions()

    def run(self) -> ImportReport:
        for remark in self._source.remarks:
            self._report.remarks.add(remark)
        try:
            self._import_sessions()
        except SourceError as error:
            self._report.unread.add(str(error))
        self._count_sessions()
        return self._report

    def _import_sessions(self) -> None:
        """Import everything."""
        sessions = list(self._iter_readable(self._source.sessions()))
        if not self._report.dry_run:
            self._row, _ = ImportSource.objects.update_or_create(
                location=self._source.location, defaults={"format": self._source.format}
            )
        remaining = iter(sessions)
        while batch := list(islice(remaining, min(MAX_EVENTS, self._slices.rows))):
            self._plan_sessions(batch)
        has_work = any(not plan.skip_reason for plan in self._plans.values())
        if has_work:
            self._replay_events()
        if self._row and has_work:
            states, shared = (
                self._iter_readable(self._source.states()),
                self._iter_readable(self._source.shared_states()),
            )
            reconciliation.reconcile_state(self._row, states, shared, self._plans, self._report)
        if self._row:
            self._row.fingerprint, self._row.read_at = self._source.fingerprint, time.time()
            self._row.save()

    def _iter_readable(self, items: Iterable[T | UnreadableRow]) -> Iterator[T]:
        """Yield the readable items; report the others."""
        try:
            for item in items:
                if isinstance(item, UnreadableRow):
                    self._report.unread.add(f"{item.where}: {item.why}")
                else:
                    yield item
        except DevUIError:
            raise
        except FAILURES as error:
            log.exception("Reading %s stopped.", self._source.location)
            raise SourceError(
                f"the importer {self._source.format!r} failed, the rest was not read:"
                f" {type(error).__name__}: {error}"
            ) from error

    def _plan_sessions(self, sessions: list[StoredSession]) -> None:
        with self._slices.one():
            for stored in sessions:
                name = stored.owner
                try:
                    key = check_ids(SessionKey("", name.app_name, name.user_id, name.session_id))
                except BadInput as error:
                    self._report.unread.add(f"session {name}: {error.message}")
                    continue
                if name in self._plans:
                    self._report.conflicts.add(f"{name}: the source has two sessions of this name")
                    continue
                plan = plan_session(stored, key, self._source.location, self._row)
                self._plans[name] = plan
                if plan.skip_reason and not plan.is_unchanged:
                    self._report.conflicts.add(f"{name}: {plan.skip_reason}")
            change_notification.notify_after_commit()

    def _skip_session(self, plan: SessionPlan, why: str) -> None:
        plan.skip_reason = why
        self._report.conflicts.add(f"{plan.stored.owner}: {why}")

    def _replay_events(self) -> None:
        read = 0
        for batch in self._event_batches(self._iter_readable(self._source.events())):
            self._import_batch(batch)
            read += len(batch)
            self._progress(read)

    def _event_batches(self, events: Iterable[StoredEvent]) -> Iterator[list[_ParsedEvent]]:
        """Yield the events in batches for a transaction each. Most of the work is done before the transaction."""
        batch: list[_ParsedEvent] = []
        keys = size = 0
        try:
            for event in events:
                parsed = _ParsedEvent(event, _build_record(event))
                batch.append(parsed)
                keys += len(parsed.record.writes)
                size += len(parsed.record.data)
                is_full = len(batch) >= min(MAX_EVENTS, self._slices.rows)
                if is_full or keys >= MAX_KEYS or size >= MAX_TEXT:
                    yield batch
                    batch, keys, size = [], 0, 0
        except SourceError:
            yield batch
            raise
        if batch:
            yield batch

    def _import_batch(self, batch: list[_ParsedEvent]) -> None:
        """Compare the stored events and append the new ones in one transaction."""
        with self._slices.one():
            planned_events = [(self._find_plan(event.event), event) for event in batch]
            sessions = self._lock_sessions([plan for plan, _ in planned_events if plan])
            keys = {plan.pk: plan.key for plan, _ in planned_events if plan and plan.pk}
            duplicates = Duplicates(keys, (event.event.wire["id"] for event in batch))
            arrivals = []
            for plan, event in planned_events:
                if plan is None or plan.skip_reason:
                    continue
                record = self._find_new_record(plan, event, duplicates)
                self._report.events += record is not None
                if record and plan.pk:
                    judgement = event.event.judgement
                    arrivals.append(PendingEvent(sessions[plan.pk], plan.events_read, record, judgement))
            if self._row and arrivals:
                _append_events(self._row, arrivals)

    def _find_plan(self, event: StoredEvent) -> SessionPlan | None:
        plan = self._plans.get(event.owner)
        if plan is None:
            self._report.unread.add(f"event {event.wire['id']}: its session {event.owner} is missing")
        return plan

    def _lock_sessions(self, plans: list[SessionPlan]) -> dict[int, AgentSession]:
        """Lock the sessions of a batch. Skip sessions that another writer has changed or deleted."""
        pks = {plan.pk for plan in plans if plan.pk}
        rows_of_batch = AgentSession.objects.select_for_update().filter(pk__in=pks).order_by("pk")
        sessions = {row.pk: row for row in rows_of_batch}
        for plan in plans:
            if plan.pk and not plan.skip_reason:
                row = sessions.get(plan.pk)
                if row is None or row.last_seq != plan.last_seq:
                    self._skip_session(plan, "it was changed or deleted during the import")
        return sessions

    def _find_new_record(
        self, plan: SessionPlan, read: _ParsedEvent, duplicates: Duplicates
    ) -> EventRecord | None:
        """Return the record of an event to append; None if it is stored already or rejected."""
        event, record = read
        try:
            check_event_ids(record.event_id, record.invocation_id)
        except BadInput as error:
            self._report.unread.add(f"event {record.event_id[:40]!r} of {event.owner}: {error.message}")
            return None
        position = plan.events_read + 1
        duplicate = duplicates.find(plan, record.event_id)
        if duplicate and duplicate.seq < position:
            if duplicate.is_same_event(record):
                self._report.changed.add(
                    f"event {record.event_id} of {event.owner}: stored twice, imported once"
                )
                return None
            event = _with_new_id(event, position)
            record, duplicate = _build_record(event), duplicates.find(plan, event.wire["id"])
        if duplicate and duplicate.seq == position and duplicate.is_same_event(record):
            plan.events_read = position
            return None
        if why := (
            f"its event {position} is stored with other content"
            if duplicate
            else plan.why_not_append(position)
        ):
            self._skip_session(plan, why)
            return None
        plan.events_read = position
        duplicates.add(plan, record)
        self._report_changes(event, record)
        return record

    def _report_changes(self, event: StoredEvent, record: EventRecord) -> None:
        where = f"event {event.wire['id']} of {event.owner}"
        if event.unread:
            self._report.unread.add(f"{where}: {event.unread}. The event was imported without them")
        delta = (event.wire.get("actions") or {}).get("stateDelta") or {}
        for change in (*event.changes, *scopes.split_delta(delta).changes):
            self._report.changed.add(f"{where}: {change}")
        if scopes.has_cut_value(record.data):
            self._report.changed.add(f"{where}: values deeper than {scopes.MAX_DEPTH} levels were cut off")

    def _count_sessions(self) -> None:
        for plan in self._plans.values():
            if plan.is_new:
                self._report.created += 1
            elif not plan.skip_reason and plan.events_read > plan.stored_seq:
                self._report.extended += 1
            elif plan.is_unchanged or not plan.skip_reason:
                self._report.unchanged += 1


def _append_events(source: ImportSource, arrivals: list[PendingEvent]) -> None:
    owners = StateOwners(source, arrivals)
    events_with_owners: list[tuple[PendingEvent, OwnerPositions]] = []
    writes: list[ImportedWrite] = []
    for arrival in arrivals:
        writes += owners.writes(arrival)
        events_with_owners.append((arrival, owners.positions(arrival.session)))
    import_rows.store_events(events_with_owners)
    import_rows.store_writes(writes)
    import_rows.store_judgements(arrivals)
    for session_pk, seq in {arrival.session.pk: arrival.seq for arrival in arrivals}.items():
        ImportedSession.objects.filter(session=session_pk).update(last_seq=seq, is_settled=False)
    owners.save_versions()
    change_notification.notify_after_commit()


def _build_record(event: StoredEvent) -> EventRecord:
    record = events.build_record(dict(event.wire))
    return events.mark_removed(record, event.removed) if event.removed else record


def _with_new_id(event: StoredEvent, position: int) -> StoredEvent:
    """Return the event with a new id, since an earlier event of its session has the same."""
    change = f"id: {event.wire['id']} is that of an earlier event"
    return replace(
        event,
        wire={**event.wire, "id": f"{event.wire['id']}~{position}"},
        changes=(*event.changes, change),
    )
