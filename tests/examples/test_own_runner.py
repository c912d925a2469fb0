"""The script with a Runner of its own, as a user would start it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked_processes
from tests.examples.conftest import EXAMPLES


def _run(cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, str(EXAMPLES / "own_runner.py"), "--pause", "0", *args]
    return forked_processes.run(script, cwd=cwd)


@pytest.mark.soak
def test_the_script_s_session_and_its_users_state_outlive_it(tmp_path: Path) -> None:
    store = ["--database", "sqlite:///own.sqlite3"]
    first = _run(tmp_path, *store, "--user", "aya", "--session", "one", "--turns", "4")
    assert first.returncode == 0, first.stderr
    assert "weather: It is sunny in Paris, 24 °C." in first.stdout
    assert "[count, app:requests, last_city," in first.stdout

    other = _run(tmp_path, *store, "--user", "aya", "--session", "two", "--turns", "1")
    stranger = _run(tmp_path, *store, "--user", "ben", "--session", "one", "--turns", "1")
    assert "Last time you asked about Oslo." in other.stdout
    assert "Last time" not in stranger.stdout


def test_unusable_store_is_reported_in_one_line(tmp_path: Path) -> None:
    refused = _run(tmp_path, "--database", "mysql://localhost/x")
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1
    assert "is not a supported store URL" in refused.stderr
