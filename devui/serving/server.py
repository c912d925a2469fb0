"""The web process: serves pages and API, and supervises the runtimes, in one event loop."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

import uvicorn
from django.conf import settings
from django.db import connection

from devui.config import hosts
from devui.http_server import HTTPServer
from devui.runtime.heartbeat import force_exit_after
from devui.serving.deferred_imports import import_after_first_page
from devui.web.idle_connections import TimedHTTPProtocol
from sessions_app.live import indexer
from sessions_app.runs import runtime_client
from sessions_app.runs.runtime_client import RuntimeProvider
from sessions_app.sessions import storage_location
from sessions_app.sessions.housekeeping import run_housekeeping
from sessions_app.store.database import gc_tuning, units_of_work
from sessions_app.store.database.store_guard import guard_store
from sessions_app.store.errors import BadInput

MAX_PORT = 65535

MESSAGE_BYTES = 16 * 1024 * 1024
"""Most bytes of a socket message; one message at a time is buffered."""

GRACE_S = 3
"""Seconds that open pages have to close their sockets when the server ends."""


END_S = 20
"""Seconds after which a server that is to end is killed: a store that hangs must not hold it."""


class ServedRuntimes(RuntimeProvider, Protocol):
    """The runtimes of a web process: an async context manager, inside which they answer."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background until the server ends."""


def open_listener(
    host: str, port: int, *, has_login: bool = False, flags: str = "--host or --port"
) -> socket.socket:
    """Return a listening socket. `has_login`: the server requires a login. `flags`: those that select the address.

    Raises:
        BadInput: the host is not a loopback address and no login is set up, or the port is not available.
    """
    if not has_login and not hosts.is_loopback(host):
        raise BadInput(
            f"--host {host} would let anybody on the network run your agents: no login is set up.",
            hint=f"{_login_hint()} Or serve on 127.0.0.1 and connect through a tunnel:"
            f" ssh -L {port}:127.0.0.1:{port} HOST.",
        )
    if not 0 <= port <= MAX_PORT:
        raise BadInput(
            f"{port} is not a port number.", hint=f"Use a --port from 0 to {MAX_PORT}; 0 selects a free one."
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        created = socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(
                f"Port {port} of {host} is in use.",
                hint=f"Stop the process that uses it, or select another {flags}.",
            ) from error
        raise BadInput(
            f"Cannot serve on {host}:{port}: {error.strerror}.", hint=f"Select another {flags}."
        ) from error
    # asyncio disables Nagle's algorithm only on sockets with the TCP protocol; otherwise responses take 40 ms more.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=created.detach())


def _login_hint() -> str:
    if not storage_location.store_location().survives_restart:
        return "A temporary store has no login: select another one with DATABASE_URL."
    if settings.DEVUI_USERS:
        return "Create an admin with `python manage.py createuser NAME --role admin`."
    return "Set up a login with `python manage.py login`."


def prepare_store() -> None:
    """Create or migrate the store.

    Raises:
        StoreFault: the store cannot be used.
        SchemaTooNew: the store was written by a newer DevUI.
    """
    from sessions_app.store.database.schema import ensure_schema

    try:
        ensure_schema()
    finally:
        connection.close()


def serve(
    listener: socket.socket,
    runtimes: ServedRuntimes,
    *,
    access_log: bool = False,
    first: Callable[[], Coroutine[Any, Any, None]] | None = None,
    after_first_page: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Serve until a signal. `first` runs in the background when the server is up, `after_first_page` later."""
    from devui.asgi import application

    guard_store()
    import_module(settings.ROOT_URLCONF)  # imported now instead of with the first page
    gc_tuning.end_startup()
    server = HTTPServer(
        uvicorn.Config(
            application,
            log_config=None,
            log_level="info" if access_log else "warning",
            access_log=access_log,
            http=TimedHTTPProtocol,
            ws_max_size=MESSAGE_BYTES,
            proxy_headers=False,  # `devui.web.proxies` reads them, from the proxies that a setting names
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    # Until uvicorn installs its own handlers, which raise the signals again at the end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, partial(_request_exit, server))
    asyncio.run(_serve_with_runtimes(server, listener, runtimes, first, after_first_page))
    units_of_work.close_pools()


async def _serve_with_runtimes(
    server: uvicorn.Server,
    listener: socket.socket,
    runtimes: ServedRuntimes,
    first: Callable[[], Coroutine[Any, Any, None]] | None,
    after_first_page: Callable[[], Coroutine[Any, Any, None]] | None,
) -> None:
    try:
        async with runtimes:
            runtime_client.register(runtimes)
            if not settings.DEVUI_ENGINE:  # else a worker does it
                runtimes.spawn(run_housekeeping())
                runtimes.spawn(indexer.keep_indexed())
            runtimes.spawn(_work_after_first_page(after_first_page))
            if settings.DEVUI_OIDC:
                from devui.accounts.oidc.client import warn_about_faults

                runtimes.spawn(warn_about_faults(settings.DEVUI_OIDC))
            if first is not None:
                runtimes.spawn(first())
            await server.serve(sockets=[listener])
            force_exit_after(END_S)
    finally:
        runtime_client.register(None)


async def _work_after_first_page(work: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
    await import_after_first_page()
    if work is not None:
        await work()


def _request_exit(server: uvicorn.Server, number: int, frame: FrameType | None) -> None:
    """Stop the server, even if it does not serve yet."""
    server.should_exit = True
