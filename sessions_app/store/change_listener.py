"""Hearing the doorbell: a listener is told to look again when somebody, in any process, has committed.

The tables are the truth; a ring says nothing but "look". One `_Bell` per event loop watches while anybody
listens: on SQLite by `PRAGMA data_version` on a connection of its own that never writes (it counts the commits
of all other connections, costs microseconds and needs no thread), on PostgreSQL by LISTEN. Whatever happens to
it, every listener looks again by itself within `RECHECK_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

from django.db import connections

from sessions_app.store.change_notification import CHANNEL

POLL_S = 0.01
"""How often SQLite is watched: half of it is the median delay from a commit to its ring."""

RECHECK_S = 1.0
"""A lost ring costs no more than this."""

RETRY_S = 1.0
"""How long a broken watch waits before it starts again."""

log = logging.getLogger(__name__)


class Subscription:
    """One listener's bell. Rings that come while it looks are kept as one."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def strike(self) -> None:
        """Say that there may be something new."""
        self._rung.set()

    async def wait(self) -> None:
        """Return when there may be something new, and after `RECHECK_S` anyway. Look after it, not before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECHECK_S):
                await self._rung.wait()
        self._rung.clear()


@contextlib.asynccontextmanager
async def subscribe() -> AsyncIterator[Subscription]:
    """Listen to the bell of the store while the block runs."""
    bell = _notifiers.setdefault(asyncio.get_running_loop(), _Notifier())
    ring = Subscription()
    bell.add(ring)
    try:
        yield ring
    finally:
        await bell.remove(ring)


class _Notifier:
    """Strikes every ring of one event loop; watches only while there are any."""

    def __init__(self) -> None:
        self._rings: set[Subscription] = set()
        self._watch: asyncio.Task[None] | None = None

    def add(self, ring: Subscription) -> None:
        self._rings.add(ring)
        if self._watch is None:
            self._watch = asyncio.create_task(self._keep_watching(), name="devui-bell")

    async def remove(self, ring: Subscription) -> None:
        self._rings.discard(ring)
        if not self._rings and self._watch is not None:
            watch, self._watch = self._watch, None
            watch.cancel()
            await asyncio.wait([watch])

    async def _keep_watching(self) -> None:
        """Watch for ever: a watch that breaks starts again, and the rings' own look covers the gap."""
        while True:
            try:
                await self._watch_store()
            except _connection_errors() as error:
                log.warning("The bell is deaf for a moment: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _watch_store(self) -> None:
        if connections["default"].vendor == "postgresql":
            await self._watch_postgres()
        else:
            await self._watch_sqlite()

    async def _watch_sqlite(self) -> None:
        name = str(connections["default"].settings_dict["NAME"])
        with contextlib.closing(
            sqlite3.connect(name, uri=name.startswith("file:"), isolation_level=None)
        ) as own:
            version = _data_version(own)
            self._strike()
            while True:
                await asyncio.sleep(POLL_S)
                version, before = _data_version(own), version
                if version != before:
                    self._strike()

    async def _watch_postgres(self) -> None:
        import psycopg.conninfo

        address = psycopg.conninfo.make_conninfo(**_postgres_address())
        async with await psycopg.AsyncConnection.connect(address, autocommit=True) as own:
            await own.execute(f"LISTEN {CHANNEL}")
            self._strike()
            async for _ in own.notifies():
                self._strike()

    def _strike(self) -> None:
        for ring in self._rings:
            ring.strike()


_notifiers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Notifier] = WeakKeyDictionary()


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _postgres_address() -> dict[str, str]:
    """Return where the store is, for psycopg; Django's own parameters name classes for synchronous use."""
    settings = connections["default"].settings_dict
    named = {name: settings[setting] for name, setting in _LIBPQ_NAMES.items() if settings.get(setting)}
    return {
        **named,
        **{name: str(value) for name, value in settings["OPTIONS"].items() if name in _LIBPQ_OPTIONS},
    }


_LIBPQ_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
_LIBPQ_OPTIONS = frozenset(
    {"service", "sslmode", "sslrootcert", "sslcert", "sslkey", "options", "connect_timeout"}
)


def _connection_errors() -> tuple[type[Exception], ...]:
    """Return what a lost store raises. psycopg is an extra: where it is missing, there is no PostgreSQL."""
    try:
        import psycopg
    except ImportError:
        return (sqlite3.Error, OSError)
    return (sqlite3.Error, OSError, psycopg.Error)
