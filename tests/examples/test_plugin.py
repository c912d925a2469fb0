"""examples/plugin: installed by pip, each of its extensions is found. One test for each group of entry points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked_processes

PLUGIN = Path(__file__).parents[2] / "examples/plugin"

SET_UP = """
import devui; devui.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
"""

Run = Callable[[str], str]
"""Runs Python code in a process of its own, with the plugin installed and an empty store; returns what it prints."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the plugin, installed from a copy, so that nothing is left in the source."""
    source, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("packages")
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    installed = subprocess.run(
        [*pip, "install", *options, "--target", str(target), str(source)], capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr
    return target


@pytest.fixture
def run(packages: Path, tmp_path: Path) -> Run:
    environment = {
        **os.environ,
        "PYTHONPATH": str(packages),
        "DEVUI_DATA_DIR": str(tmp_path),
        "DATABASE_URL": f"sqlite:///{tmp_path / 'devui.sqlite3'}",
    }

    def run(code: str) -> str:
        process = forked_processes.run([sys.executable, "-c", SET_UP + code], cwd=tmp_path, env=environment)
        assert process.returncode == 0, process.stderr
        return process.stdout

    return run


def test_installed_state_detector_finds_ambiguous_date(run: Run) -> None:
    printed = run("""
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from sessions_app.problems import problem_queries, session_checks

key = SessionKey(realm="", app_name="travel", user_id="ann", session_id="s1")
session = writes.create_session(key, {"user:trip": {"from": "03/04/2027"}})
session_checks.store(session_checks.check(session))
for problem in problem_queries.read_problems(session).state_rows:
    print(problem.row.code, problem.row.key, problem.row.text)
""")
    assert printed == 'ambiguous-date user:trip has the date "03/04/2027".\n'


def test_installed_detector_finds_empty_result(run: Run) -> None:
    printed = run("""
from sessions_app.problems import Evidence, all_detectors
from sessions_app.problems.evidence import ToolResult

results = [ToolResult(seq, "clerk", "c1", "look", answer) for seq, answer in ((3, {"result": ""}), (5, {"n": 1}))]
for problem in all_detectors()["empty-result"].check(Evidence("travel", results=results)):
    print(problem.seq, problem.text)
""")
    assert printed == "3 look answered with nothing.\n"


def test_installed_importer_reads_chats(run: Run, tmp_path: Path) -> None:
    lines = [
        '{"chat": "c1", "user": "ann", "author": "user", "text": "Hi", "time": 1767225600}',
        '{"chat": "c1", "user": "ann", "author": "clerk", "text": "Hello", "time": 1767225601}',
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    printed = run(f"""
from sessions_app.store.models import AgentSession
from sessions_app.transfer.writers import import_location

report = import_location({str(tmp_path / "log")!r})
session = AgentSession.objects.get()
print(report.format, report.counts(), session.app_name, session.last_text)
""")
    assert printed == (
        "chats in JSON Lines 1 new session(s), 0 extended, 0 unchanged; 2 event(s) imported chats Hello\n"
    )


def test_installed_dialect_converts_event(run: Run) -> None:
    printed = run("""
from devui.remote.dialects import detect_dialect

dialect = detect_dialect({"language": "acme"}, {})
print(dialect.label, dialect.parse_event({"id": "e1", "speaker": "clerk"}, 1.0).wire["author"])
""")
    assert printed == "Acme clerk\n"


def test_readme_of_the_plugin_names_each_of_its_groups() -> None:
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    readme = (PLUGIN / "README.md").read_text()
    assert [group for group in project["entry-points"] if f"`{group}`" not in readme] == []


def test_installed_metric_scores_answers_by_their_length(run: Run) -> None:
    printed = run("""
from evals_app.metrics.catalog import own_metrics
from evals_app.metrics.own import MetricInput

metric = own_metrics()["example_brevity"]
turns = [{"final_response": {"parts": [{"text": text}]}} for text in ("It rains.", "It rains in Paris today.")]
outcome = metric.check_outcome(metric.score(MetricInput({}, [], turns, options={"max_words": 3})), turns=2)
print(outcome.score, outcome.reason, metric.cause(outcome.details))
""")
    assert printed == "0.5 The longest answer has 5 words. an answer is too long\n"
