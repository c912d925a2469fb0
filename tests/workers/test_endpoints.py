"""The worker to which a web process sends a request."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.runtime.web_command import ROOT
from tests.workers.team import team_environment

FIND = """
import asyncio, sys
import django
django.setup()
from devui.workers.provider import WorkerRuntimes
from devui.workers.worker_facts import WorkerFacts

runtimes = WorkerRuntimes()
runtimes._workers = [
    WorkerFacts(port, "host", f"127.0.0.1:{port}", {"talker": "1"}, is_draining=False) for port in sys.argv[1:]
]

async def find():
    return {str((await runtimes.find_endpoint("talker")).upstream.http.base_url.port) for _ in range(30)}

print(*asyncio.run(find()))
"""


def test_worker_that_has_just_died_is_passed_over(tmp_path):
    pytest.importorskip("procrastinate")
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen, so it refuses connections
        ports = [str(each.getsockname()[1]) for each in (listening, closed)]
        ended = subprocess.run(
            [sys.executable, "-c", FIND, *ports],
            env={
                **team_environment("postgresql://nobody@127.0.0.1:1/none", tmp_path),
                "DJANGO_SETTINGS_MODULE": "devui.settings",
            },
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
    assert ended.stdout.split() == ports[:1], ended.stderr
