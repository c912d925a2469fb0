"""Entry point of a runtime process: start, serve, end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Coroutine, Iterator
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from django.conf import settings

from devui.http_server import HTTPServer
from devui.runtime import fork_isolation
from devui.runtime.asgi_middleware import LiveFrameFilter, StreamHolder, TokenGuard
from devui.runtime.config import RuntimeConfig
from devui.runtime.endpoints import add_endpoints
from devui.runtime.exception_text import shorten_agent_errors
from devui.runtime.heartbeat import EXIT_GRACE_S, Heartbeat, Lifeline, force_exit_after, kill_process_group
from devui.runtime.host import RuntimeHost
from sessions_app.agent_processes import processes
from sessions_app.store.database import db_errors, units_of_work
from sessions_app.store.database.store_guard import guard_store
from sessions_app.store.errors import StoreFault
from sessions_app.store.traces import outbox

log = logging.getLogger(__name__)

GRACE_S = 2
"""Seconds that open responses have when the process ends."""


def serve(config: RuntimeConfig, listener: socket.socket, lifeline_fd: int) -> None:
    """Run the app of `config` on a listening socket until a signal or the end of the parent."""
    shorten_agent_errors()
    # With workers, runs end in the store that a new version has migrated: their worker takes no more.
    guard_store(checks_schema=not config.options.continue_evals)
    settings.DEVUI_AGENTS_DIR = config.agents_dir  # the price file is in the server's folder
    process_id, parent_id = os.getpid(), os.getppid()
    loop, selector = fork_isolation.new_loop()
    host = RuntimeHost(config)
    server = _make_server(host)
    fork_isolation.isolate_forks(loop, selector, partial(_open_sockets, listener, server))
    heartbeat = Heartbeat(config.runtime_id, partial(_cancel_run, loop, host))
    heartbeat.start()
    Lifeline(lifeline_fd, loop, on_cut=partial(_end_server, loop, server, host)).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore_signal)  # uvicorn handles them, and raises them again at its end
    try:
        _run_loop(loop, _serve_until_drained(server, listener, host))
    finally:
        if os.getpid() != process_id:
            os._exit(1)  # a fork of the agent returned here: it owns nothing of this process
        try:
            heartbeat.stop()
            _record_end(config.runtime_id)
            outbox.close()
            units_of_work.close_pools()
        finally:
            force_exit_after(EXIT_GRACE_S)
        if os.getppid() != parent_id:
            kill_process_group()  # the parent is gone and cannot kill what the agent started


def _record_end(runtime_id: str) -> None:
    """Record that this process ends. If the store does not accept it, the parent or the next sweep records it."""
    try:
        with db_errors.translate_db_errors():
            processes.mark_stopped(runtime_id)
    except StoreFault as fault:
        log.warning("The end of this process could not be recorded: %s", fault.message)


def _open_sockets(listener: socket.socket, server: uvicorn.Server) -> Iterator[socket.socket]:
    """Yield the sockets by which the web process reaches this process."""
    yield listener
    for connection in server.server_state.connections:
        if (transport := getattr(connection, "transport", None)) is not None:
            yield transport.get_extra_info("socket")


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Ignore a signal until uvicorn installs its own handler."""


def _make_server(host: RuntimeHost) -> uvicorn.Server:
    app = host.make_app()
    add_endpoints(app, host)
    return HTTPServer(
        uvicorn.Config(
            TokenGuard(StreamHolder(LiveFrameFilter(app)), host.config.token),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE_S,
        )
    )


async def _serve_until_drained(server: uvicorn.Server, listener: socket.socket, host: RuntimeHost) -> None:
    ending = asyncio.create_task(_end_when_drained(server, host))
    try:
        await server.serve(sockets=[listener])
    finally:
        ending.cancel()


async def _end_when_drained(server: uvicorn.Server, host: RuntimeHost) -> None:
    await host.drained.wait()
    server.should_exit = True


def _end_server(loop: asyncio.AbstractEventLoop, server: uvicorn.Server, host: RuntimeHost) -> None:
    """Cancel all runs, then stop the server: open responses wait for the runs."""
    loop.create_task(host.cancel_all()).add_done_callback(lambda _: setattr(server, "should_exit", True))


def _cancel_run(loop: asyncio.AbstractEventLoop, host: RuntimeHost, run_id: str) -> None:
    asyncio.run_coroutine_threadsafe(host.runs.cancel(run_id), loop)


def _run_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end. `sys.exit` in an agent's task stops an asyncio loop; the loop is then restarted."""
    main = loop.create_task(work)
    while not main.done():
        try:
            loop.run_until_complete(main)
        except SystemExit:
            if main.done():
                raise
            log.warning("Code of the agent called sys.exit; its run failed, the process goes on.")
