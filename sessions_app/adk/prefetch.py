"""The next turn's copy of a long session, made while the agent works on this turn's.

A session that is handed out belongs to the agent: its events can be changed, and agents do change them. So no
event is handed out twice. After each read the events are made once more from the stored rows, a few at a time with
pauses between, and the next read finds them made and adds what is new. Making them all takes as long as a cold
read does, in processor time; it is spent where nobody waits for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from sessions_app.adk.session_loading import EventPrefix
from sessions_app.ids import SessionKey
from sessions_app.store import units_of_work
from sessions_app.store.gc_tuning import pause_collector

log = logging.getLogger(__name__)

MIN_EVENTS = 500
"""A session of fewer events is read in a few milliseconds anyway."""

MAX_BYTES = 128 * 2**20
"""Most memory for events that wait to be handed out, about: those of 20,000 usual events."""

EVENT_BYTES = 5000
"""What an event takes beside its texts, measured."""

BATCH = 200
DELAY = 0.5
"""Seconds that a turn is left alone after its read: that is when it makes its first request."""

PAUSE = 3.0
"""How long to pause after a slice, in times of what the slice took."""


@dataclass(slots=True)
class _PrefetchedCopy:
    made: EventPrefix
    size: int = 0


class ReadAhead:
    """The events made ahead in this process, those of the session read last first to stay.

    Args:
        min_events: the shortest session, in events, whose copy is made ahead.
        max_bytes: most memory for all of them, about.
        delay: seconds between a read and the making of the next copy.
    """

    def __init__(
        self, *, min_events: int = MIN_EVENTS, max_bytes: int = MAX_BYTES, delay: float = DELAY
    ) -> None:
        self._min_events = min_events
        self._max_bytes = max_bytes
        self._delay = delay
        self._lock = threading.Lock()
        self._drafts: OrderedDict[SessionKey, _PrefetchedCopy] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def size(self) -> int:
        """How much memory is in use, in bytes, about."""
        with self._lock:
            return sum(draft.size for draft in self._drafts.values())

    def take(self, key: SessionKey) -> EventPrefix | None:
        """Return what is made of a session, for one caller: nobody gets it again. It may be out of date."""
        with self._lock:
            draft = self._drafts.pop(key, None)
            return draft.made if draft else None

    def start(self, key: SessionKey, read: EventPrefix) -> None:
        """Begin with the next copy of a session that was just read as far as `read` says."""
        if read.upto < self._min_events:
            return
        draft = _PrefetchedCopy(EventPrefix(read.session_pk, read.rewrites))
        with self._lock:
            if key in self._drafts:
                return
            self._drafts[key] = draft
        # A context of its own: a turn's spans and variables are not to live as long as this.
        task = asyncio.get_running_loop().create_task(
            self._make(key, draft), name="devui-read-ahead", context=contextvars.Context()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Wait until everything that was begun is made, or was taken or dropped on the way."""
        await asyncio.gather(*self._tasks)

    async def _make(self, key: SessionKey, draft: _PrefetchedCopy) -> None:
        await asyncio.sleep(self._delay)
        try:
            took = await units_of_work.read(self._go_on, key, draft)
            while took:
                await asyncio.sleep(PAUSE * took)
                took = await units_of_work.read(self._go_on, key, draft)
        except Exception:  # nothing depends on it: the next read reads for itself
            log.warning("The next copy of session %r could not be made ahead.", key.session_id, exc_info=True)

    def _go_on(self, key: SessionKey, draft: _PrefetchedCopy) -> float:
        """Make the events of the next slice. Return the seconds it took; 0 when there is nothing more to do."""
        began = time.perf_counter()
        rows = list(draft.made.following()[:BATCH]) if self._drafts.get(key) is draft else []
        if not rows:
            return 0
        slice_ = EventPrefix(draft.made.session_pk, draft.made.rewrites)
        with pause_collector():
            slice_.extend(rows)
        size = sum(EVENT_BYTES + 2 * len(private or data) for _, data, private, *_ in rows)
        return time.perf_counter() - began if self._keep(key, draft, slice_, size) else 0

    def _keep(self, key: SessionKey, draft: _PrefetchedCopy, more: EventPrefix, size: int) -> bool:
        """Add events to a draft, if it is still wanted and there is room; older drafts make room."""
        with self._lock:
            if self._drafts.get(key) is not draft:
                return False
            used = size + sum(other.size for other in self._drafts.values())
            while used > self._max_bytes and next(iter(self._drafts)) != key:
                used -= self._drafts.popitem(last=False)[1].size
            if used > self._max_bytes:
                return False
            draft.made.events += more.events
            draft.made.upto = more.upto
            draft.size += size
            return True
