"""A DevUI server in its own process that serves the stage's agents."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.patience import PATIENCE_S
from tests.runtime.conftest import copy_of_stage

ROOT = Path(__file__).resolve().parents[2]
CASES = 20
WORDS = " ".join(f"w{number}" for number in range(20))


def start_server(store: str, folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a server for the stage's agents over a store; return its process and its log."""
    agents = folder / "agents"
    if not agents.exists():
        copy_of_stage(folder)
        cases = [case(f"c{number}", turn(f"say {WORDS}", WORDS)) for number in range(CASES)]
        write(agents / "talker", "talk.evalset.json", evalset(*cases))
    log = folder / "server.log"
    environment = {**os.environ, "DATABASE_URL": store, "DEVUI_DATA_DIR": str(folder / "data")}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    command = [sys.executable, "-m", "devui", "web", str(agents), "--port", "0"]
    with log.open("w") as output:
        return forked_processes.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        ), log


@contextmanager
def serve_stage(store: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Serve the stage's agents over a store; yield its process and address. The server must end with status 0."""
    process, log = start_server(store, folder)
    try:
        yield process, _address(process, log)
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if match := re.search(r"http://[\d.:]+/", log.read_text()):
            return match.group().rstrip("/")
        time.sleep(0.05)
    raise AssertionError(log.read_text())
