"""Subscriptions to change notifications: wake a subscriber when any process has committed to the store.

A notification carries no data; subscribers query the tables. One `_Notifier` per event loop runs while there are
subscriptions. On SQLite it polls `PRAGMA data_version` on its own read-only connection, which counts the commits of
all other connections and costs microseconds, as often as its most urgent subscription needs. On PostgreSQL it uses
LISTEN. If notifications are lost, subscribers still wake up every `RECHECK_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

from django.db import connections

from sessions_app.store.database import schema
from sessions_app.store.database.change_notification import CHANNEL

POLL_S = 0.01
"""Polling interval on SQLite in seconds. The median delay from a commit to its notification is half of it."""

RECHECK_S = 1.0
"""Longest wait without a notification."""

READ_S = 1.0
"""Longest time to read a notification from PostgreSQL that has begun to arrive."""

RETRY_S = 1.0
"""Delay before a failed watch restarts."""

log = logging.getLogger(__name__)


class Subscription:
    """One subscriber's wake-up signal. Notifications that arrive between two waits are merged into one."""

    def __init__(self, recheck_s: float = RECHECK_S, poll_s: float = POLL_S) -> None:
        self._recheck_s = recheck_s
        self.poll_s = poll_s
        self._rung = asyncio.Event()

    def notify(self) -> None:
        """Wake the subscriber."""
        self._rung.set()

    async def wait(self) -> None:
        """Wait for a notification, at most `recheck_s`. Query the tables after this call, not before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._recheck_s):
                await self._rung.wait()
        self._rung.clear()


@contextlib.asynccontextmanager
async def subscribe(*, recheck_s: float = RECHECK_S, poll_s: float = POLL_S) -> AsyncIterator[Subscription]:
    """Subscribe to change notifications while the block runs; wake up every `recheck_s` without any.

    Args:
        poll_s: longest polling interval on SQLite. Work in the background takes a long one: polling 100 times a second
            costs 1.3 % of a processor.
    """
    notifier = _notifiers.setdefault(asyncio.get_running_loop(), _Notifier())
    subscription = Subscription(recheck_s, poll_s)
    notifier.add(subscription)
    try:
        yield subscription
    finally:
        await notifier.remove(subscription)


class _Notifier:
    """Notifies all subscriptions of one event loop, and watches the store only while there are any."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._has_joined = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)
        self._has_joined.set()
        if self._watch is None:
            self._watch = asyncio.create_task(self._keep_watching(), name="devui-change-notifier")

    async def remove(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        if not self._subscriptions and self._watch is not None:
            watch, self._watch = self._watch, None
            watch.cancel()
            await asyncio.wait([watch])

    async def _keep_watching(self) -> None:
        """Watch the store until cancelled. Restart after errors; subscriptions recheck on their own meanwhile."""
        while True:
            try:
                await self._watch_store()
            except _connection_errors() as error:
                log.warning("Change notifications are interrupted: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _watch_store(self) -> None:
        if connections["default"].vendor == "postgresql":
            await self._watch_postgres()
        else:
            await self._watch_sqlite()

    async def _watch_sqlite(self) -> None:
        file = schema.sqlite_file()  # not created if it is missing
        name = f"{file.as_uri()}?mode=rw" if file else str(connections["default"].settings_dict["NAME"])
        with contextlib.closing(
            sqlite3.connect(name, uri=name.startswith("file:"), isolation_level=None)
        ) as watcher:
            version = _data_version(watcher)
            self._notify_all()
            while True:
                await self._wait_to_poll()
                version, before = _data_version(watcher), version
                if version != before:
                    self._notify_all()

    async def _wait_to_poll(self) -> None:
        """Wait for the shortest polling interval; a new subscription ends the wait, as its interval may be shorter."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(subscription.poll_s for subscription in self._subscriptions)):
                await self._has_joined.wait()
        self._has_joined.clear()

    async def _watch_postgres(self) -> None:
        import psycopg

        parameters = connections["default"].get_connection_params()
        for synchronous in ("context", "cursor_factory", "prepare_threshold"):
            parameters.pop(synchronous, None)
        async with await psycopg.AsyncConnection.connect(**{**parameters, "autocommit": True}) as watcher:
            await watcher.execute(f"LISTEN {CHANNEL}")
            self._notify_all()
            while True:
                await _wait_until_readable(watcher.fileno())  # `notifies` alone wakes up ten times a second
                async for _ in watcher.notifies(timeout=READ_S, stop_after=1):
                    self._notify_all()

    def _notify_all(self) -> None:
        for subscription in self._subscriptions:
            subscription.notify()


_notifiers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Notifier] = WeakKeyDictionary()


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


async def _wait_until_readable(descriptor: int) -> None:
    readable, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


def _connection_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of a lost connection. psycopg is an optional dependency."""
    try:
        import psycopg
    except ImportError:
        return (sqlite3.Error, OSError)
    return (sqlite3.Error, OSError, psycopg.Error)
