"""The command `manage.py web` in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import forked_processes
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent.parent


def start_web(
    *arguments: str, store: Path, popen: type[subprocess.Popen[str]] = subprocess.Popen, **environment: str
) -> subprocess.Popen[str]:
    """Start `manage.py web`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DEVUI_")}
    return popen(
        [sys.executable, str(ROOT / "manage.py"), "web", *arguments],
        env={
            **inherited,
            "DATABASE_URL": f"sqlite:///{store}",
            "DEVUI_DATA_DIR": str(store.parent),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )


def refusal_of(*arguments: str, store: Path, **environment: str) -> str:
    """Return the single line of the error with which the command exits."""
    process = start_web(*arguments, store=store, popen=forked_processes.Popen, **environment)
    output = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 2, output
    assert "Traceback" not in output
    assert len(output.strip().splitlines()) == 1, output
    return output
