"""Test suites that evaluate an agent with DevUI's pytest plug-in."""

from __future__ import annotations

import os
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
    imports = "from devui.testing import devui_evalset, evaluate, Results"
    (suite / "tests" / "test_agent.py").write_text(f"{imports}\n\n{judged}\n{body}")


SUITE_ARGUMENTS = "agent='../agents/echo', metrics=['response_match_score'], criteria=JUDGED"
