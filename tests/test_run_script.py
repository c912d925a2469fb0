"""`tests/run`, which `make test` and CI call: a failed test fails the run and is not retried."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "run"

INTERPRETER = """#!/bin/sh
# Stands in for Python: notes how it is called; pytest ends with the status of the file beside it.
echo "$*" >> "$(dirname "$0")/calls"
case "$*" in *pytest*) exit "$(cat "$(dirname "$0")/status")" ;; esac
"""


@pytest.mark.parametrize(
    ("status", "exit_code", "parts"),
    [(0, 0, 2), (1, 1, 2), (2, 2, 1)],
    ids=["all pass", "a test fails", "interrupted"],
)
def test_failed_tests_fail_the_run(tmp_path: Path, status: int, exit_code: int, parts: int):
    interpreter = tmp_path / "python"
    interpreter.write_text(INTERPRETER)
    interpreter.chmod(0o755)
    (tmp_path / "status").write_text(str(status))

    ended = subprocess.run(["sh", str(SCRIPT), str(interpreter)], env={**os.environ, "CI": ""}, check=False)

    runs = [call for call in (tmp_path / "calls").read_text().splitlines() if "pytest" in call]
    assert (ended.returncode, len(runs)) == (exit_code, parts)
    assert len(set(runs)) == len(runs), "no part is run twice"
