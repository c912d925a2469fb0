"""DevUI on a copy of the example agents, for tests that write to their folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.conftest import ROOT, address_in, wait_until
from tests.patience import PATIENCE_S


def copied_agents(folder: Path) -> Path:
    """Copy the example agents into `folder`/agents and return `folder`."""
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples" / "agents", folder / "agents", ignore=left_out)
    return folder


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve `folder`/agents as a user would, with a store in `folder`; yield the address."""
    environment = {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{folder}/.devui/devui.sqlite3",
        "DEVUI_EXAMPLE_DELAY_MS": "30",
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    log = folder / "server.log"
    command = [sys.executable, str(ROOT / "manage.py"), "web", str(folder / "agents"), "--port", "0"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: process.poll() is not None or address_in(log), PATIENCE_S, "the address")
        assert process.poll() is None, log.read_text()
        yield address_in(log)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)
