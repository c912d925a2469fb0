"""Servers for benchmarks, each in its own process, ended with its children."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AGENTS = ROOT / "examples" / "agents"
OURS = (sys.executable, str(ROOT / "manage.py"), "web")
ADK_WEB = (sys.executable, "-m", "google.adk.cli", "web")

PATIENCE = 120.0
"""Longest time in seconds to a server's first page."""


class NeverServed(Exception):
    """The server ended, or did not answer in time."""


@contextlib.contextmanager
def server(
    command: Sequence[str],
    page: str = "/",
    environment: Mapping[str, str] | None = None,
    agents: Path = AGENTS,
) -> Iterator[tuple[str, float]]:
    """Start a server of agents, by default the examples; yield its address and the seconds to its first page.

    Raises:
        NeverServed: `page` did not return 200.
    """
    port = _free_port()
    start = time.perf_counter()
    process = subprocess.Popen(
        [*command, str(agents), "--port", str(port)],
        env={**os.environ, "DEVUI_RUNTIME_PRELOAD": "0", **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while _status(port, page) != 200:
            if process.poll() is not None or time.perf_counter() - start > PATIENCE:
                raise NeverServed(f"{' '.join(command)} has not served {page}.")
            time.sleep(0.005)
        yield f"http://127.0.0.1:{port}", time.perf_counter() - start
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def server_pid(address: str) -> int:
    """Return the pid of the server at an address."""
    port = address.rpartition(":")[2].encode()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        arguments = file.read_bytes().split(b"\0")
        if b"web" in arguments and port in arguments:
            return int(file.parent.name)
    raise SystemExit(f"no process serves {address}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _status(port: int, page: str) -> int:
    """Return the status of a page; 0 if nothing answers yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", page)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
