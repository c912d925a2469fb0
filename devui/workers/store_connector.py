"""Procrastinate's connections to PostgreSQL, which outlast its restarts and outages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, LiteralString, TypeVar

import psycopg
from procrastinate import PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from psycopg_pool import AsyncConnectionPool, PoolClosed
from typing_extensions import override

from sessions_app.store.database import retry
from sessions_app.store.errors import StoreUnavailable

WAIT_S = 2.0
"""Seconds that a query waits for a connection before it asks again, which starts an attempt to connect."""

RECONNECT_S = 1.0
"""Seconds for which the pool retries to connect. It doubles its pauses, so longer retries would wait too long."""

R = TypeVar("R")


def new_pool() -> AsyncConnectionPool[Any]:
    """Return a pool for the store, which is opened as a context. Opening it does not wait for PostgreSQL."""
    return AsyncConnectionPool(
        kwargs=connector_params(),
        open=False,
        check=AsyncConnectionPool.check_connection,
        timeout=WAIT_S,
        reconnect_timeout=RECONNECT_S,
    )


class StoreConnector(PsycopgConnector):
    """Repeats what fails because PostgreSQL does not answer.

    Otherwise Procrastinate would take no more jobs until the current ones have ended, and would stop its heartbeats
    and notifications. A query whose answer was lost may be executed twice.
    """

    @override
    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        await _outlast_outage(partial(super().execute_query_async, query, **arguments))

    @override
    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        return await _outlast_outage(partial(super().execute_query_one_async, query, **arguments))

    @override
    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        return await _outlast_outage(partial(super().execute_query_all_async, query, **arguments))

    @override
    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        await _outlast_outage(partial(super().listen_notify, on_notification, channels))


async def _outlast_outage(query: Callable[[], Awaitable[R]]) -> R:
    """Call `query` until PostgreSQL answers.

    Raises:
        ConnectorException: PostgreSQL refuses the query, or the pool was closed.
    """
    return await retry.run(partial(_find_outage, query))


async def _find_outage(query: Callable[[], Awaitable[R]]) -> R:
    """Call `query`.

    Raises:
        StoreUnavailable: the connection is lost, or there is none.
        ConnectorException: see `_outlast_outage`.
    """
    try:
        return await query()
    except ConnectorException as error:
        cause = error.__cause__
        is_outage = isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
        if is_outage and not isinstance(cause, PoolClosed):
            raise StoreUnavailable(f"Jobs wait for the store: {cause}") from error
        raise
