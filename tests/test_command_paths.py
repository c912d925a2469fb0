"""Commands and paths that no file can have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evals_app.cli.results import require_writable
from sessions_app.store.errors import BadInput

ROOT = Path(__file__).parents[1]
TOO_LONG = "x" * 300


@pytest.mark.parametrize(
    "command",
    [
        ("export_sessions", f"--output={TOO_LONG}"),
        ("import_sessions", TOO_LONG),
        ("run_evals", TOO_LONG),
        ("web", TOO_LONG, "--port=0"),
    ],
    ids=lambda command: command[0],
)
def test_path_that_no_file_can_have_is_refused_in_one_line(tmp_path: Path, command: tuple[str, ...]):
    result = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={**os.environ, "DEVUI_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "is not a path: File name too long" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("target", ["missing/results.csv", "results.csv"])
def test_result_file_behind_a_dead_link_is_refused_unless_it_can_be_written(tmp_path: Path, target: str):
    link = tmp_path / "out.csv"
    link.symlink_to(tmp_path / target)
    if "/" not in target:
        require_writable(link, "csv")
        return
    with pytest.raises(BadInput, match="cannot be written: No such file or directory"):
        require_writable(link, "csv")
