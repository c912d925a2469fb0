"""A copy brought up to date with a session that somebody else keeps: its events, then its state and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sessions_app.external import mirrors
from sessions_app.external.mirrors import MirrorState, SourceEvent, SourceSession
from sessions_app.store import units_of_work

BATCH = 200
"""Events that are taken over in one transaction."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceEvents(Generic[T]):
    """The events of a session as its keeper tells them.

    Attributes:
        told: all of them, in order.
        id_of: how the id of one is read.
        arrival_of: how one becomes a row; called in a thread.
        doubtful: ids of events that stand here as they were told while they came: what the session has counts.
    """

    told: Sequence[T]
    id_of: Callable[[T], str]
    arrival_of: Callable[[T], SourceEvent]
    doubtful: Collection[str] = frozenset()


async def sync_mirror(
    truth: SourceSession,
    here: MirrorState,
    events: SourceEvents[T],
    *,
    seeds: Mapping[str, Any],
    created_at: float,
) -> None:
    """Make or mend a copy, so that it is what the truth is; where it cannot be, it says so.

    Args:
        here: the copy as it was before the truth was read: what came to it since is no difference.
        seeds: the state that the session was created with; used where there is no copy yet.

    Raises:
        BadInput: an id that this store cannot hold.
    """
    revision, refused = here.revision, list[str]()
    if revision is None:
        revision = await units_of_work.write(mirrors.create_mirror, truth, seeds, created_at)
    ids = [events.id_of(event) for event in events.told]
    wanted = [
        event
        for name, event in zip(ids, events.told, strict=True)
        if name not in here.event_ids or name in events.doubtful
    ]
    for start in range(0, len(wanted), BATCH):
        batch = wanted[start : start + BATCH]
        arrivals = await asyncio.to_thread(lambda some: [events.arrival_of(event) for event in some], batch)
        grown, left_out = await units_of_work.write(
            mirrors.append_missing, truth.key, arrivals, bool(events.doubtful)
        )
        revision, refused = revision + grown, refused + left_out
    behind = _describe_difference(truth.place, len(here.event_ids.difference(ids)), refused)
    if not await units_of_work.read(mirrors.is_in_sync, truth, behind):
        await units_of_work.write(mirrors.update_mirror, truth, behind, revision)


def _describe_difference(place: str, only_here: int, refused: list[str]) -> str:
    told = []
    if only_here:
        told.append(f"{only_here} of the events here are not in {place}.")
    if refused:
        told.append(f"{len(refused)} of its events cannot be stored here: {refused[0]}")
    return " ".join(told)
