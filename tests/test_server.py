"""The listening socket of the web process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest
import uvicorn

from devui import http_server
from devui.remote import Runtimes
from devui.serving import server
from devui.supervisor import Supervisor
from sessions_app.store.errors import BadInput
from tests import forked_processes
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent

SETTINGS = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
"""Settings at whose import Ctrl-C is pressed."""


def test_answers_are_sent_without_delay():
    """asyncio sets TCP_NODELAY only on sockets whose protocol says TCP, and accepted ones inherit it."""
    with server.open_listener("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_number_that_is_no_port_is_refused(port):
    """The system itself takes 99999 for port 34463."""
    with pytest.raises(BadInput, match=f"{port} is not a port"):
        server.open_listener("127.0.0.1", port)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["manage.py", "web", "examples/agents"], 130),
        (["manage.py", "run_evals", "examples/agents/weather", "lookups"], 130),
        (["-m", "devui", "runtime", "weather"], 130),
        (["-m", "devui.testing.suite_process"], 0),
    ],
    ids=["web", "run_evals", "runtime", "the process of a test suite"],
)
def test_ctrl_c_ends_a_program_that_still_imports_without_a_word(tmp_path, command, code):
    (tmp_path / "interrupted.py").write_text(SETTINGS)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    process = forked_processes.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "interrupted", "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (code, "")


class EndedAtOnce(Runtimes):
    """Runtimes during whose start the server is told to end."""

    async def __aenter__(self) -> Self:
        signal.raise_signal(signal.SIGTERM)
        return await super().__aenter__()


@pytest.mark.django_db(transaction=True)
def test_a_signal_that_comes_before_it_serves_is_not_lost(monkeypatch):
    served = []

    async def main_loop(serving: Any) -> None:
        served.append(serving)

    limits: list[float] = []
    monkeypatch.setattr(server, "force_exit_after", limits.append)  # it would end the tests' process
    monkeypatch.setattr(http_server.HTTPServer, "main_loop", main_loop)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.serve(server.open_listener("127.0.0.1", 0), EndedAtOnce(Supervisor(None), []))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (served, limits) == ([], [server.END_S])


class WatchedServer(http_server.HTTPServer):
    """A server that tells when it has looked whether it should end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.looked = asyncio.Event()

    async def on_tick(self, counter: int) -> bool:
        self.looked.set()
        return await super().on_tick(counter)


async def test_server_ends_as_soon_as_it_is_told(monkeypatch):
    async def application(scope: Any, receive: Any, send: Any) -> None: ...

    monkeypatch.setattr(http_server, "TICK_S", 10 * PATIENCE_S)
    serving = WatchedServer(uvicorn.Config(application, log_config=None, lifespan="off"))
    task = asyncio.create_task(serving.serve(sockets=[server.open_listener("127.0.0.1", 0)]))
    async with asyncio.timeout(PATIENCE_S):
        await serving.looked.wait()
        await asyncio.to_thread(setattr, serving, "should_exit", True)
        await task
