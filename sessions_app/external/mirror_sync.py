"""Synchronization of a copy with the session that another service owns: its events, its state and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sessions_app.external import mirrors
from sessions_app.external.mirrors import MirrorState, SourceEvent, SourceSession
from sessions_app.store import units_of_work

BATCH = 200
"""Events copied in one transaction."""

T = TypeVar("T")


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


async def sync_mirror(
    source: SourceSession,
    here: MirrorState,
    events: SourceEvents[T],
    *,
    seeds: Mapping[str, Any],
    created_at: float,
) -> None:
    """Create or update a copy to match its source session; note a difference that remains.

    Args:
        here: the copy before the source was read: later events of the copy are not differences.
        seeds: initial state of the session; used if there is no copy yet.

    Raises:
        BadInput: an id cannot be stored.
    """
    revision, refused = here.revision, list[str]()
    if revision is None:
        revision = await units_of_work.write(mirrors.create_mirror, source, seeds, created_at)
    ids = [events.id_of(event) for event in events.items]
    missing = [
        event
        for name, event in zip(ids, events.items, strict=True)
        if name not in here.event_ids or name in events.doubtful
    ]
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        arrivals = await asyncio.to_thread(lambda some: [events.arrival_of(event) for event in some], batch)
        grown, left_out = await units_of_work.write(
            mirrors.append_missing, source.key, arrivals, bool(events.doubtful)
        )
        revision, refused = revision + grown, refused + left_out
    behind = _describe_difference(source.place, len(here.event_ids.difference(ids)), refused)
    if not await units_of_work.read(mirrors.is_in_sync, source, behind):
        await units_of_work.write(mirrors.update_mirror, source, behind, revision)


def _describe_difference(place: str, only_here: int, refused: list[str]) -> str:
    sentences = []
    if only_here:
        sentences.append(f"{only_here} of the events here are not in {place}.")
    if refused:
        sentences.append(f"{len(refused)} of its events cannot be stored here: {refused[0]}")
    return " ".join(sentences)
