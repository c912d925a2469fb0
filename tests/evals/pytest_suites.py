"""Test suites that evaluate an agent with DevUI's pytest plug-in."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_pytest(folder, *arguments, **environment):
    """Run pytest over a suite in its own process."""
    process = start_pytest(folder, *arguments, **environment)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def start_pytest(folder, *arguments, **environment):
    """Start pytest over a suite in its own process."""
    installed = {entry.value for entry in entry_points(group="pytest11")}
    plugins = [] if "devui.testing.plugin" in installed else ["-p", "devui.testing.plugin"]
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:django", *arguments]
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))
    }
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_test(suite, body):
    judged = "JUDGED = {'response_match_score': 1.0}"
    imports = "import pytest\nfrom devui.testing import devui_evalset, evaluate, Refused, Results"
    (suite / "tests" / "test_agent.py").write_text(f"{imports}\n\n{judged}\n{body}")


def read_store(suite, query):
    """Return rows of the suite's store."""
    with contextlib.closing(sqlite3.connect(suite / ".devui" / "devui.sqlite3")) as store:
        return store.execute(query).fetchall()


COUNTING = """
import subprocess

real = subprocess.Popen


class Counted(real):
    def __init__(self, args, **options):
        if "devui.testing.suite_process" in args:
            with open("processes.txt", "a") as lines:
                lines.write("started\\n")
        super().__init__(args, **options)


subprocess.Popen = Counted
"""
"""A `conftest.py` that writes a line for each process that evaluates."""

SUITE_ARGUMENTS = "agent='../agents/echo', metrics=['response_match_score'], criteria=JUDGED"
