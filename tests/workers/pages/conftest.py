"""A web process with workers and users. These tests run in the process that `tests/test_with_workers.py` starts."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as configured

from sessions_app.runs import processes
from tests.accounts.conftest import people, web

collect_ignore_glob = [] if configured.DEVUI_ENGINE else ["test_*.py"]

__all__ = ["people", "web"]

ELSEWHERE = "another-host"
CODE = "9bc6d7c0aabbccdd"


@pytest.fixture
def add_worker(transactional_db: None) -> Callable[..., Any]:
    """A function that stores a worker of this process, or of another host, and returns its row."""
    from devui.workers.models import Worker
    from sessions_app.models import RuntimeProcess

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
