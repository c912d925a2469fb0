"""A worker as web processes call it: its listener forwards to its runtime processes."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING
from urllib.parse import quote

from django.conf import settings
from websockets.asyncio.client import connect

from devui.runtime.config import TOKEN_HEADER
from devui.supervisor.http_calls import NO_CERTIFICATES, SOCKET_OPTIONS
from devui.workers.worker_facts import WorkerFacts
from sessions_app.store.errors import RuntimeUnavailable

if TYPE_CHECKING:
    import httpx

CONNECT_S = 5.0
"""Seconds for a worker to accept a connection."""

APPS = "/apps/"
"""Path prefix of requests to an app's current process: /apps/APP/PATH."""

PROCESSES = "/processes/"
"""Path prefix of requests to a process: /processes/ID/PATH."""

END = "/end"
"""Path under a process that ends it."""


class WorkerEndpoint:
    """One app, or one process, of a worker (`devui.supervisor.http_calls.Peer`).

    A request has a connection of its own, as to a local process: none waits for another, and none is found closed.
    """

    def __init__(self, worker: WorkerFacts, prefix: str) -> None:
        import httpx

        self._worker = worker
        self._prefix = prefix
        self._headers = {TOKEN_HEADER: token_of(worker.id)}
        self.exited = asyncio.Event()
        self.exited.set()  # no exit notice will follow, so do not wait for one
        self.http: httpx.AsyncClient = httpx.AsyncClient(
            base_url=f"http://{worker.address}{prefix}",
            headers=self._headers,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            verify=NO_CERTIFICATES,
            trust_env=False,
        )

    @classmethod
    def of_app(cls, worker: WorkerFacts, app_name: str) -> WorkerEndpoint:
        """Return the current process of an app at a worker."""
        return cls(worker, APPS + quote(app_name, safe=""))

    @classmethod
    def of_process(cls, worker: WorkerFacts, runtime_id: str) -> WorkerEndpoint:
        """Return a process of a worker."""
        return cls(worker, PROCESSES + runtime_id)

    @property
    def is_alive(self) -> bool:
        """Always True: only a call shows whether the worker answers."""
        return True

    def hold(self) -> AbstractContextManager[None]:
        """Do nothing: the worker counts the requests that it forwards."""
        return nullcontext()

    def connect(self, path: str, headers: Mapping[str, str]) -> connect:
        """Return a WebSocket to the process, opened by awaiting it."""
        return connect(
            f"ws://{self._worker.address}{self._prefix}{path}",
            additional_headers={**headers, **self._headers},
            **SOCKET_OPTIONS,
        )

    def explain_silence(self) -> RuntimeUnavailable:
        """Return the error of a worker that does not answer."""
        return RuntimeUnavailable(
            f"The worker at {self._worker.address} on host {self._worker.host}, or its process, does not answer.",
            hint="Try again. The worker's log has the reason.",
        )


async def accepts_connections(address: str) -> bool:
    """Tell whether a process listens on an address, host:port."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError:
        return False
    writer.close()
    return True


def token_of(worker_id: str) -> str:
    """Return the token that a worker requires: derived from the secret that web processes and workers share."""
    return hmac.new(settings.SECRET_KEY.encode(), f"worker:{worker_id}".encode(), "sha256").hexdigest()
