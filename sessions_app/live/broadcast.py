"""Broadcasts: views that many sockets show are read and rendered once per change notification.

Listeners have no queue. Each takes the newest view when it is ready, so a slow listener delays no other, and reads
what it missed from the tables like a new listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from sessions_app.store.database import units_of_work
from sessions_app.store.database.change_listener import Subscription, subscribe

WAKE_BATCH = 10
"""Listeners woken per turn of the event loop, so that other tasks run in between."""

REST_RATIO = 0.5
"""Pause after reading a view and waking the listeners, as a fraction of the time it took.

Changes meanwhile come in one view, so that reading the views of many sessions leaves time for all else.
"""

View = TypeVar("View")
P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound="Broadcast[Any]")


class Broadcast(Generic[View]):
    """A view of the store that listeners of one event loop follow, each at its own speed.

    Attributes:
        view: the newest view; set once `wait_for_fresh_view` has returned.
        number: increases with each new view.
    """

    view: View
    number = 0

    def __init__(self) -> None:
        self._changes: Subscription | None = None
        self._refreshes_begun = self._refreshes_ended = 0
        self._refreshed = asyncio.Event()
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._reads: dict[Hashable, asyncio.Future[Any]] = {}
        self._texts: dict[Hashable, str] = {}
        self._failure: Exception | None = None
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def join(cls: type[B], key: Hashable, make: Callable[[], B]) -> AsyncIterator[B]:
        """Listen to the broadcast of a key inside the block. The first listener starts it, the last one ends it."""
        broadcasts = _broadcasts.setdefault(asyncio.get_running_loop(), {})
        broadcast = broadcasts.get((cls, key))
        if broadcast is None or broadcast._failure is not None:
            broadcast = broadcasts[cls, key] = make()
        broadcast._listeners += 1
        broadcast._task = broadcast._task or asyncio.create_task(
            broadcast._watch_changes(), name="devui-broadcast"
        )
        try:
            yield broadcast
        finally:
            broadcast._listeners -= 1
            if not broadcast._listeners:
                if broadcasts.get((cls, key)) is broadcast:
                    del broadcasts[cls, key]
                broadcast._task.cancel()
                await asyncio.wait([broadcast._task])

    async def read_view(self) -> View:
        """Read the view from the store."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release the resources of the broadcast. Called when the last listener has left."""

    async def wait_for_fresh_view(self) -> None:
        """Wait for a view that was read after this call.

        Raises:
            Exception: reading the view raised it.
        """
        number = self._refreshes_begun + 1
        if self._changes is not None:
            self._changes.notify()
        while self._refreshes_ended < number:
            await self._refreshed.wait()
            self._raise_failure()

    async def wait_for_view(self, known_number: int, patience: float) -> bool:
        """Wait for a view with a higher number than `known_number`. Return False after `patience` seconds without one.

        Raises:
            Exception: reading the view raised it.
        """
        try:
            async with asyncio.timeout(max(0.0, patience)):
                while self.number <= known_number:
                    self._raise_failure()
                    await self._wait_for_view()
        except TimeoutError:
            return False
        return True

    async def read_once(self, key: Hashable, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of a unit of work, which runs once per key and view for all listeners."""
        if key not in self._reads:
            self._reads[key] = asyncio.ensure_future(units_of_work.read(work, *args, **kwargs))
        result: R = await asyncio.shield(self._reads[key])
        return result

    def render_once(self, key: Hashable, make: Callable[[], str]) -> str:
        """Return the result of `make`, which is called once per key and view for all listeners."""
        key = (self.number, key)
        if key not in self._texts:
            self._texts[key] = make()
        return self._texts[key]

    def forget(self) -> None:
        """Discard the results of `read_once` after a change of the store."""
        self._reads.clear()

    async def publish(self, view: View) -> float:
        """Publish a new view; return the seconds it took to wake the listeners."""
        began = time.monotonic()
        self.view = view
        self.number += 1
        self._texts.clear()
        await self._wake_waiting()
        return time.monotonic() - began

    async def _watch_changes(self) -> None:
        try:
            async with subscribe() as self._changes:
                while True:
                    await self._changes.wait() if self._refreshes_begun else None
                    await asyncio.sleep(REST_RATIO * await self._refresh_once())
        except Exception as error:
            self._failure = error
            self._refreshed.set()
            await self._wake_waiting()
        finally:
            await self.close()

    async def _refresh_once(self) -> float:
        """Refresh the view and release those who wait for it; return the seconds it took."""
        began = time.monotonic()
        self._refreshes_begun += 1
        await self.refresh()
        self._refreshes_ended = self._refreshes_begun
        self._refreshed.set()
        self._refreshed = asyncio.Event()
        return time.monotonic() - began

    async def refresh(self) -> None:
        """Read the view and publish it if it changed."""
        view = await self.read_view()
        if not self.number or view != self.view:
            self.forget()
            await self.publish(view)

    async def _wait_for_view(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    async def _wake_waiting(self) -> None:
        for number, waiter in enumerate(list(self._waiting), 1):
            if not waiter.done():
                waiter.set_result(None)
            if number % WAKE_BATCH == 0:
                await asyncio.sleep(0)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


_broadcasts: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, Any]] = WeakKeyDictionary()
