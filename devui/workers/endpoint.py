"""A worker as web processes call it: its listener forwards to its runtime processes."""

from __future__ import annotations

import asyncio
import hmac
from contextlib import AbstractContextManager, nullcontext
from urllib.parse import quote

from django.conf import settings

from devui.supervisor.upstream import Upstream
from devui.workers.worker_facts import WorkerFacts
from sessions_app.store.errors import RuntimeUnavailable

APPS = "/apps/"
"""Path prefix of requests to an app's current process: /apps/APP/PATH."""

PROCESSES = "/processes/"
"""Path prefix of requests to a process: /processes/ID/PATH."""

END = "/end"
"""Path under a process that ends it."""


class WorkerEndpoint:
    """One app, or one process, of a worker (`devui.supervisor.http_calls.Peer`)."""

    def __init__(self, worker: WorkerFacts, prefix: str) -> None:
        self._worker = worker
        self.upstream = Upstream(worker.address + prefix, worker_token(worker.id))
        self.exited = asyncio.Event()
        self.exited.set()  # no exit notice will follow, so do not wait for one

    @classmethod
    def find_app_process(cls, worker: WorkerFacts, app_name: str) -> WorkerEndpoint:
        """Return the current process of an app at a worker."""
        return cls(worker, APPS + quote(app_name, safe=""))

    @classmethod
    def find_process_endpoint(cls, worker: WorkerFacts, runtime_id: str) -> WorkerEndpoint:
        """Return a process of a worker."""
        return cls(worker, PROCESSES + runtime_id)

    @property
    def is_alive(self) -> bool:
        """Always True: only a call shows whether the worker answers."""
        return True

    def hold(self) -> AbstractContextManager[None]:
        """Do nothing: the worker counts the requests that it forwards."""
        return nullcontext()

    def explain_silence(self) -> RuntimeUnavailable:
        """Return the error of a worker that does not answer."""
        return RuntimeUnavailable(
            f"The worker at {self._worker.address} on host {self._worker.host}, or its process, does not answer.",
            hint="Try again. The worker's log has the reason.",
        )


def worker_token(worker_id: str) -> str:
    """Return the token that a worker requires: derived from the secret that web processes and workers share."""
    return hmac.new(settings.SECRET_KEY.encode(), f"worker:{worker_id}".encode(), "sha256").hexdigest()
