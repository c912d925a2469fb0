"""`tests/run`, which `make test` and CI call: a failed test fails the run and is not retried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import assign_half, module_order

SCRIPT = Path(__file__).parent / "run"

INTERPRETER = """#!/bin/sh
# Stands in for Python: notes how it is called; pytest ends with the status of the file beside it.
echo "$*" >> "$(dirname "$0")/calls"
case "$*" in *pytest*) exit "$(cat "$(dirname "$0")/status")" ;; esac
"""


def run_script(folder: Path, status: int, *arguments: str) -> tuple[int, list[str]]:
    """Run the script; return its exit code and its calls of pytest."""
    interpreter = folder / "python"
    interpreter.write_text(INTERPRETER)
    interpreter.chmod(0o755)
    (folder / "status").write_text(str(status))
    (folder / "calls").write_text("")
    command = ["sh", str(SCRIPT), str(interpreter), *arguments]
    ended = subprocess.run(command, env={**os.environ, "CI": ""}, check=False)
    calls = (folder / "calls").read_text().splitlines()
    return ended.returncode, [call for call in calls if "pytest" in call]


@pytest.mark.parametrize(
    ("status", "exit_code", "parts"),
    [(0, 0, 2), (1, 1, 2), (2, 2, 1)],
    ids=["all pass", "a test fails", "interrupted"],
)
def test_failed_tests_fail_the_run(tmp_path: Path, status: int, exit_code: int, parts: int):
    ended, _ = run_script(tmp_path, status)
    assert ended == exit_code
    ended, runs = run_script(tmp_path, status, "soak")
    assert (ended, len(runs)) == (exit_code, parts)


def test_soak_runs_what_make_test_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DEVUI_TEST_SEED", raising=False)
    _, [on_sqlite] = run_script(tmp_path, 0)
    _, [soak, on_postgres] = run_script(tmp_path, 0, "soak")
    assert on_sqlite.endswith("-m not soak")
    assert soak.endswith("-m soak")
    assert "-m store and not browser and not soak tests/sessions " in on_postgres


def test_soak_tries_new_examples_of_a_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEVUI_TEST_SEED", "7")
    _, [soak, _] = run_script(tmp_path, 0, "soak")
    assert soak.endswith("-m soak or hypothesis --hypothesis-profile=soak --hypothesis-seed=7")


def test_modules_come_in_the_order_of_a_seed_with_their_tests():
    names = ["a.py::first", "b.py::first", "a.py::second", "c.py::first", "a.py::third"]
    orders = {tuple(sorted(names, key=module_order(str(seed)))) for seed in range(50)}
    assert len(orders) == 6
    assert all([name for name in order if name in names[::2]] == names[::2] for order in orders)
    assert all(abs(order.index("a.py::third") - order.index("a.py::first")) == 2 for order in orders)


def test_halves_have_whole_modules_and_about_as_many_each():
    modules = [f"tests/{path.name}" for path in SCRIPT.parent.rglob("test_*.py")]
    first_half = [module for module in modules if assign_half(module) == 0]
    assert 0.4 < len(first_half) / len(modules) < 0.6
    assert all(assign_half(f"{module}::a[1]") == assign_half(f"{module}::b") for module in modules)


@pytest.mark.parametrize("half", ["0", "1"])
def test_run_of_a_half_leaves_out_the_modules_of_the_other(half: str):
    files = [
        "tests/test_run_script.py",
        "tests/test_prefix.py",
        "tests/test_stores.py",
        "tests/test_checks.py",
    ]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *files]
    done = subprocess.run(
        command,
        cwd=SCRIPT.parents[1],
        env={**os.environ, "DEVUI_TEST_HALF": half, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    collected = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert collected == {file for file in files if assign_half(file) == int(half)}
