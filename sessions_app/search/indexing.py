"""Writes the search indexes after appends: words and traits of events, and values of state; also sums of tokens.

The text and the traits of nested runs are indexed at the event with their call, when they have ended.

Each session has a cursor (see `index_backlog`), and searches scan the events behind it. So indexing costs an append
nothing, and an event can be found as soon as it is stored. Out-of-order commits do not matter, because the seqs of a
session have no gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from django.db import transaction
from django.db.models import F

from sessions_app.prices import session_usage
from sessions_app.search import nested_content
from sessions_app.store.database import tokens
from sessions_app.store.events import event_text
from sessions_app.store.events.call_usage import CallUsage, parse_call_usage
from sessions_app.store.index import event_index, index_backlog, index_entries
from sessions_app.store.models import (
    UNINDEXED_NESTED,
    AgentSession,
    Event,
    NestedRun,
    SessionTrait,
    StateChange,
    StateValue,
)

BATCH_EVENTS = 64
"""Events indexed in one transaction, which holds SQLite's only write lock."""

BATCH_CHARACTERS = 1_000_000
"""Characters of event data in one batch, unless one event alone has more."""

BATCH_SESSIONS = 16
"""Maximum number of sessions in one batch."""

BATCH_NESTED = 16
"""Maximum number of nested runs in one batch."""


@dataclass(slots=True)
class IndexBatch:
    """Index entries of one session's events behind `start` up to `end`.

    A batch with `nested` (stored counts by primary key of nested runs) only replaces entries of indexed events, and
    adds traits that the session does not have yet.
    """

    session_pk: int
    start: int
    end: int
    words: list[event_index.EventEntry] = field(default_factory=list)
    traits: dict[event_text.Trait, int] = field(default_factory=dict)
    values: list[StateValue] = field(default_factory=list)
    nested: dict[int, int] = field(default_factory=dict)
    calls: list[CallUsage] = field(default_factory=list)


def read_batches() -> list[IndexBatch]:
    """Read the next events to index, newest sessions first; an empty list when all are indexed."""
    batches: list[IndexBatch] = []
    limit = BATCH_EVENTS
    for pk, start, last in _backlog_rows():
        batch = _read_batch(pk, start, last, limit)
        batches.append(batch)
        limit -= len(batch.words)
        if limit <= 0:
            break
    return batches or _read_nested_batches()


def store_batches(batches: Iterable[IndexBatch]) -> None:
    """Write batches; a batch that another process indexed meanwhile is skipped."""
    for batch in batches:
        _store_batch(batch)


def index_all(progress: Callable[[int], None] = lambda events: None) -> int:
    """Index all unindexed events and return their number; `progress` gets it after each batch."""
    events = 0
    while batches := read_batches():
        store_batches(batches)
        events += sum(len(batch.words) for batch in batches)
        progress(events)
    return events


def reset() -> None:
    """Delete all index entries, so that everything is indexed again."""
    for pk in AgentSession.objects.filter(indexed_seq__gte=0).order_by("pk").values_list("pk", flat=True):
        index_entries.reset_session(pk)


def _backlog_rows() -> list[tuple[int, int, int]]:
    rows = index_backlog.sessions().order_by("-pk").values_list("pk", "indexed_seq", "last_seq")
    return list(rows[:BATCH_SESSIONS])


def _read_batch(pk: int, start: int, last: int, limit: int) -> IndexBatch:
    """Read the next events of a session. Seqs have no gaps, so the last event of a full batch is the next start."""
    rows = Event.objects.filter(session=pk, seq__gt=start, seq__lte=last).order_by("seq")
    read_events = list(rows.only(*event_text.COLUMNS)[:limit])
    events = _limit_text(read_events)
    has_all = events == read_events and len(events) < limit
    batch = IndexBatch(pk, start, last if has_all else events[-1].seq)
    nested = nested_content.read_nested_contents(pk, events)
    batch.words = _build_entries(pk, events, nested)
    for event in events:
        if content := nested.get(event.seq):
            batch.traits.update(dict.fromkeys(content.traits, event.seq))
        traits = event_text.event_traits(event.kind, event.author, event.branch, event.summary)
        batch.traits.update(dict.fromkeys(traits, event.seq))
        if call := parse_call_usage(event.summary, event.timestamp):
            batch.calls.append(call)
    changes = StateChange.objects.filter(session=pk, seq__gt=start, seq__lte=batch.end, removed=False)
    columns = changes.only("scope", "key_id", "owner_id", "value")
    values = (value for change in columns.iterator() for value in index_entries.state_values(change))
    batch.values = list(
        {(value.scope, value.key_id, value.mark, value.owner_id): value for value in values}.values()
    )
    return batch


def _limit_text(events: list[Event]) -> list[Event]:
    """Return the first of these events, at least one, up to the limit of a batch's text."""
    sizes = accumulate(len(event.data) for event in events)
    return [event for event, size in zip(events, sizes, strict=True) if size <= BATCH_CHARACTERS] or events[
        :1
    ]


def _read_nested_batches() -> list[IndexBatch]:
    """Read the indexed events whose nested runs have ended since, to index them again with the text of these runs."""
    waiting = NestedRun.objects.filter(UNINDEXED_NESTED, outer_seq__lte=F("outer__indexed_seq")).order_by(
        "pk"
    )
    batches: dict[int, IndexBatch] = {}
    events: dict[int, set[int]] = defaultdict(set)
    for run in waiting.only("outer_id", "outer_seq", "stored_count")[:BATCH_NESTED]:
        batch = batches.setdefault(run.outer_id, IndexBatch(run.outer_id, 0, 0))
        batch.nested[run.pk] = run.stored_count
        events[run.outer_id].add(run.outer_seq or 0)
    for pk, batch in batches.items():
        rows = Event.objects.filter(session=pk, seq__in=events[pk]).order_by("seq")
        calling_events = list(rows.only(*event_text.COLUMNS))
        nested = nested_content.read_nested_contents(pk, calling_events)
        batch.words = _build_entries(pk, calling_events, nested)
        for seq, content in nested.items():
            batch.traits.update(dict.fromkeys(content.traits, seq))
    return list(batches.values())


def _build_entries(
    pk: int, events: list[Event], nested: Mapping[int, nested_content.NestedContent]
) -> list[event_index.EventEntry]:
    """Return the entries of events of a session, with the text of the nested runs inside them."""
    entries: list[event_index.EventEntry] = []
    earlier_words: set[str] = set()
    for event in events:
        content = nested.get(event.seq)
        text = "\n".join([event_text.data_text(event.data), *(content.texts if content else ())])
        ids = {"event": event.event_id, "invocation": event.invocation_id}
        entries.append(event_index.make_entry(pk, event.seq, tokens.tokenize(text), ids, earlier_words))
    return entries


def _store_batch(batch: IndexBatch) -> None:
    """Write one batch. The session's row is updated last, so that an append to it hardly waits."""
    with transaction.atomic():
        event_index.write_entries(batch.words)
        traits = [
            SessionTrait(session_id=batch.session_pk, name=name, value=value, seq=seq)
            for (name, value), seq in batch.traits.items()
        ]
        if batch.nested:
            SessionTrait.objects.bulk_create(traits, ignore_conflicts=True)  # other events may be newer
            for pk, count in batch.nested.items():
                NestedRun.objects.filter(pk=pk).update(indexed_count=count)
            return
        SessionTrait.objects.bulk_create(
            traits,
            update_conflicts=True,
            unique_fields=["session", "name", "value"],
            update_fields=["seq"],
        )
        StateValue.objects.bulk_create(batch.values, ignore_conflicts=True)
        session_usage.add_usage(batch.session_pk, batch.calls)
        is_current = AgentSession.objects.filter(pk=batch.session_pk, indexed_seq=batch.start).update(
            indexed_seq=batch.end
        )
        if not is_current:
            transaction.set_rollback(True)
