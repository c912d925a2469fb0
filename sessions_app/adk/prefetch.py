"""Prefetch of a long session's events for the next turn, while the agent works on the current one.

A session that was returned belongs to the agent, which may change its events, so events cannot be shared between reads.
After each read the events are built again from the stored rows, in batches with pauses; the next read takes them and
adds newer ones. The work takes as much processor time as a cold read, but nobody waits for it.
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
from sessions_app.store.database import units_of_work
from sessions_app.store.database.gc_tuning import pause_collector
from sessions_app.store.session_key import SessionKey

log = logging.getLogger(__name__)

MIN_EVENTS = 500
"""Sessions with fewer events are read in a few milliseconds."""

MAX_BYTES = 128 * 2**20
"""Approximate maximum memory for prefetched events: about 20,000 typical ones."""

EVENT_BYTES = 5000
"""Measured memory of an event in addition to its texts."""

BATCH = 200
DELAY = 0.5
"""Seconds between a read and the prefetch: the turn prepares its first model request meanwhile."""

PAUSE = 3.0
"""Pause after a batch, as a multiple of the batch's duration."""


@dataclass(slots=True)
class _PrefetchedCopy:
    prefix: EventPrefix
    size: int = 0


class Prefetcher:
    """Prefetched events of this process. The least recently read sessions are evicted first.

    Args:
        min_events: minimum length of a session to prefetch, in events.
        max_bytes: approximate maximum memory.
        delay: seconds between a read and the prefetch.
    """

    def __init__(
        self, *, min_events: int = MIN_EVENTS, max_bytes: int = MAX_BYTES, delay: float = DELAY
    ) -> None:
        self._min_events = min_events
        self._max_bytes = max_bytes
        self._delay = delay
        self._lock = threading.Lock()
        self._copies: OrderedDict[SessionKey, _PrefetchedCopy] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def size(self) -> int:
        """Approximate memory in use, in bytes."""
        with self._lock:
            return sum(copy.size for copy in self._copies.values())

    def take(self, key: SessionKey) -> EventPrefix | None:
        """Remove and return the prefetched events of a session, which may be out of date; None without any."""
        with self._lock:
            copy = self._copies.pop(key, None)
            return copy.prefix if copy else None

    def start(self, key: SessionKey, read: EventPrefix) -> None:
        """Start to prefetch a session that was just read as far as `read`."""
        if read.upto < self._min_events:
            return
        copy = _PrefetchedCopy(EventPrefix(read.session_pk, read.rewrites))
        with self._lock:
            if key in self._copies:
                return
            self._copies[key] = copy
        # An empty context: the task must not keep the turn's spans and variables alive.
        task = asyncio.get_running_loop().create_task(
            self._prefetch_events(key, copy), name="devui-read-ahead", context=contextvars.Context()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_copies(self) -> None:
        """Wait until all prefetches have ended."""
        await asyncio.gather(*self._tasks)

    async def _prefetch_events(self, key: SessionKey, copy: _PrefetchedCopy) -> None:
        await asyncio.sleep(self._delay)
        try:
            duration = await units_of_work.read(self._build_batch, key, copy)
            while duration:
                await asyncio.sleep(PAUSE * duration)
                duration = await units_of_work.read(self._build_batch, key, copy)
        except Exception:  # the next read then does without
            log.warning("The next copy of session %r could not be made ahead.", key.session_id, exc_info=True)

    def _build_batch(self, key: SessionKey, copy: _PrefetchedCopy) -> float:
        """Build the events of the next batch. Return its duration in seconds; 0 if there is nothing left."""
        began = time.perf_counter()
        rows = list(copy.prefix.following()[:BATCH]) if self._copies.get(key) is copy else []
        if not rows:
            return 0
        batch = EventPrefix(copy.prefix.session_pk, copy.prefix.rewrites)
        with pause_collector():
            batch.extend(rows)
        size = sum(EVENT_BYTES + 2 * len(private or data) for _, data, private, *_ in rows)
        return time.perf_counter() - began if self._add_to_copy(key, copy, batch, size) else 0

    def _add_to_copy(self, key: SessionKey, copy: _PrefetchedCopy, more: EventPrefix, size: int) -> bool:
        """Add events to a prefetched copy if it is still needed and memory suffices; evict older copies first."""
        with self._lock:
            if self._copies.get(key) is not copy:
                return False
            used = size + sum(other.size for other in self._copies.values())
            while used > self._max_bytes and next(iter(self._copies)) != key:
                used -= self._copies.popitem(last=False)[1].size
            if used > self._max_bytes:
                return False
            copy.prefix.events += more.events
            copy.prefix.upto = more.upto
            copy.size += size
            return True
