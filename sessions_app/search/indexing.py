"""What finds sessions and events, written behind the appends: words and traits of events, values of state.

Each session has a cursor of its own (see `unindexed`), and searches look at what stands behind it. So an append pays
nothing, and an event is found as soon as it is stored. Ids that commit out of order do not matter: a session's seqs
have no holes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from django.db import transaction
from django.db.models import F

from sessions_app.events import event_text
from sessions_app.models import AgentSession, Event, Scope, SessionTrait, StateChange, StateValue
from sessions_app.search import event_index, index_backlog
from sessions_app.store import json_sql, tokens

BATCH_EVENTS = 64
"""Events that are indexed in one transaction, which holds SQLite's one write lock."""

BATCH_SESSIONS = 16
"""Sessions that a batch may be of."""

CHUNK = 500
"""Rows removed at a time."""


@dataclass(slots=True)
class IndexBatch:
    """What a session's cursor passes next: events behind `start` up to `end`, read and split into words."""

    session_pk: int
    start: int
    end: int
    words: list[event_index.EventEntry] = field(default_factory=list)
    traits: dict[event_text.Trait, int] = field(default_factory=dict)
    values: list[StateValue] = field(default_factory=list)


def read_batches() -> list[IndexBatch]:
    """Return what is to be indexed next, newest sessions first; nothing when everything is. Only reads."""
    pieces: list[IndexBatch] = []
    room = BATCH_EVENTS
    for pk, start, last in _backlog_rows():
        piece = _read_batch(pk, start, last, room)
        pieces.append(piece)
        room -= len(piece.words)
        if room <= 0:
            break
    return pieces


def store_batches(pieces: Iterable[IndexBatch]) -> None:
    """Write what was gathered. What somebody else has indexed meanwhile is left as it is."""
    for piece in pieces:
        _store_batch(piece)


def index_all(progress: Callable[[int], None] = lambda events: None) -> int:
    """Index everything that waits. Return how many events that were; `progress` is told it batch by batch."""
    events = 0
    while pieces := read_batches():
        store_batches(pieces)
        events += sum(len(piece.words) for piece in pieces)
        progress(events)
    return events


def forget_session(session_pk: int) -> None:
    """Remove what finds a session that is about to go, in small transactions. Its traits go with its row.

    What it wrote to the state of its user and app stays to be found by.
    """
    shared = StateChange.objects.filter(index_backlog.BEHIND_CURSOR, session=session_pk, removed=False)
    put_values(shared.exclude(scope=Scope.SESSION).only("scope", "key_id", "owner_id", "value").iterator())
    AgentSession.objects.filter(pk=session_pk).update(indexed_seq=F("last_seq"))
    while _delete_chunk(session_pk):
        pass


def reset() -> None:
    """Forget everything that was indexed, so that it is indexed anew."""
    for pk in AgentSession.objects.filter(indexed_seq__gte=0).order_by("pk").values_list("pk", flat=True):
        reset_session(pk)


def reset_session(session_pk: int) -> None:
    """Forget what was indexed of a session, so that it is indexed anew."""
    forget_session(session_pk)
    with transaction.atomic():
        SessionTrait.objects.filter(session=session_pk).delete()
        AgentSession.objects.filter(pk=session_pk).update(indexed_seq=-1)


def forget_owner(scope: Scope, owner_id: int) -> None:
    """Remove the values that find an owner of shared state."""
    StateValue.objects.filter(scope=scope, owner_id=owner_id).delete()


def put_values(changes: Iterable[StateChange]) -> None:
    """Let owners be found by values that were written without an event, as an import does."""
    values = (value for change in changes for value in _state_values(change))
    while some := list(islice(values, CHUNK)):
        StateValue.objects.bulk_create(some, ignore_conflicts=True)


def _backlog_rows() -> list[tuple[int, int, int]]:
    rows = index_backlog.sessions().order_by("-pk").values_list("pk", "indexed_seq", "last_seq")
    return list(rows[:BATCH_SESSIONS])


def _read_batch(pk: int, start: int, last: int, room: int) -> IndexBatch:
    """Read what a session's cursor passes next. Seqs have no holes, so a full batch says where the next one begins."""
    rows = Event.objects.filter(session=pk, seq__gt=start, seq__lte=last).order_by("seq")
    events = list(rows.only(*event_text.COLUMNS)[:room])
    piece = IndexBatch(pk, start, events[-1].seq if len(events) == room else last)
    seen: set[str] = set()
    for event in events:
        words = tokens.tokenize(event_text.text_of_data(event.data))
        ids = {"event": event.event_id, "invocation": event.invocation_id}
        piece.words.append(event_index.make_entry(pk, event.seq, words, ids, seen))
        traits = event_text.traits_of(event.kind, event.author, event.branch, event.summary)
        piece.traits.update(dict.fromkeys(traits, event.seq))
    changes = StateChange.objects.filter(session=pk, seq__gt=start, seq__lte=piece.end, removed=False)
    wanted = changes.only("scope", "key_id", "owner_id", "value")
    values = (value for change in wanted.iterator() for value in _state_values(change))
    piece.values = list(
        {(value.scope, value.key_id, value.mark, value.owner_id): value for value in values}.values()
    )
    return piece


def _state_values(change: StateChange) -> Iterator[StateValue]:
    """Yield what finds the owner of a change by the value that it wrote, and by any value."""
    if change.value is not None:
        for mark in (json_sql.ANY, json_sql.mark(change.value)):
            yield StateValue(scope=change.scope, key_id=change.key_id, mark=mark, owner_id=change.owner_id)


def _store_batch(piece: IndexBatch) -> None:
    """Write one piece. The session's row is touched last, so that an append to it hardly waits."""
    with transaction.atomic():
        event_index.write_entries(piece.words)
        SessionTrait.objects.bulk_create(
            [
                SessionTrait(session_id=piece.session_pk, name=name, value=value, seq=seq)
                for (name, value), seq in piece.traits.items()
            ],
            update_conflicts=True,
            unique_fields=["session", "name", "value"],
            update_fields=["seq"],
        )
        StateValue.objects.bulk_create(piece.values, ignore_conflicts=True)
        moved = AgentSession.objects.filter(pk=piece.session_pk, indexed_seq=piece.start).update(
            indexed_seq=piece.end
        )
        if not moved:
            transaction.set_rollback(True)


def _delete_chunk(session_pk: int) -> bool:
    """Remove some of what finds a session; return whether there may be more."""
    with transaction.atomic():
        entries = event_index.delete_entries(session_pk, CHUNK)
        values = StateValue.objects.filter(scope=Scope.SESSION, owner_id=session_pk)
        pks = list(values.values_list("pk", flat=True)[:CHUNK])
        StateValue.objects.filter(pk__in=pks).delete()
    return entries == CHUNK or len(pks) == CHUNK
