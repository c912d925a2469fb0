"""A web process with workers and users. These tests run in the process that `tests/test_with_workers.py` starts."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as configured

from sessions_app.agent_processes import processes
from sessions_app.runs import job_queue, lifecycle
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.store.models import Run
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.accounts.conftest import people, web

collect_ignore_glob = [] if configured.DEVUI_ENGINE else ["test_*.py"]

__all__ = ["people", "web"]

ELSEWHERE = "another-host"
CODE = "9bc6d7c0aabbccdd"


@pytest.fixture
def add_worker(transactional_db: None) -> Callable[..., Any]:
    """A function that stores a worker of this process, or of another host, and returns its row."""
    from devui.workers.models import Worker
    from sessions_app.store.models import RuntimeProcess

    def add(worker_id: str, *, host: str = "", stopped_at: float | None = None, **values: Any) -> Any:
        now = time.time()
        RuntimeProcess.objects.create(
            id=worker_id,
            app_name=processes.SERVER_APP,
            host=host or socket.gethostname(),
            pid=os.getpid(),
            pid_identity=processes.identity(os.getpid()) or "",
            started_at=now - 60,
            heartbeat_at=now,
            stopped_at=stopped_at,
        )
        apps = values.pop("apps", {"weather": CODE})
        defaults = {
            "address": f"{worker_id}:8100",
            "adk_version": "2.13.0",
            "kinds": "conversations,evals",
            "concurrency": 2,
        }
        return Worker.objects.create(pk=worker_id, apps=json.dumps(apps), **(defaults | values))

    return add


@pytest.fixture
def queue(transactional_db: None) -> Iterator[None]:
    """Runs of this process go to the queue, as in a web process with workers."""
    from devui.workers import waiting
    from devui.workers.queues import ProcrastinateQueue, keep_queue_alive

    keep_queue_alive()
    processes.set_own_id(QUEUE_ID)
    job_queue.register(ProcrastinateQueue(), waiting.explain)
    yield
    job_queue.register(None)
    processes.set_own_id(None)


def queue_run(session_id: str = "s1", app: str = "weather") -> Run:
    key = SessionKey("", app, "ann", session_id)
    session = writes.create_session(key)
    return lifecycle.create_run(session.pk, {"new_message": {"role": "user", "parts": [{"text": "hi"}]}})
