"""The command `run_evals` while it runs: signals stop it, not its files; a changed evalset waits for the next run."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evals_app.models import EvalRun
from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.evals.gate_agent import AGENT, statuses, wait_for
from tests.evals.run_evals_command import environment, run_evals_argv
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
METRIC = "--metrics=response_match_score"
STOPPED = "The process that ran it was stopped."


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """An agent that answers `wait` when a file is there and ignores its cancellation on `cling`."""
    folder = tmp_path / "gate"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    return folder


def start(folder, commands, *arguments):
    """Start the command with an evalset of these messages, which expects each as its answer."""
    cases = [case(f"c{number}", turn(word, word)) for number, word in enumerate(commands)]
    write(folder, "s.evalset.json", evalset(*cases))
    return forked_processes.Popen(
        run_evals_argv(folder, "s", METRIC, *arguments),
        cwd=ROOT,
        env=environment(),
        stdout=forked_processes.subprocess.PIPE,
        text=True,
    )


def result_files(folder):
    return {name: folder / f"r.{name}" for name in ("junit", "json", "csv", "html", "markdown")}


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_command_writes_its_files_with_what_there_is(store, gate, tmp_path, signal_number, code):
    files = result_files(tmp_path)
    options = [f"--{name}={path}" for name, path in files.items()]
    process = start(gate, ["go", "wait", "go"], "--parallelism=1", *options)
    wait_for(lambda: statuses()[:2] == ["passed", "running"])
    os.kill(process.pid, signal_number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, statuses()) == (code, ["passed", "cancelled", "cancelled"])
    assert all(f"{name}: {path}" in out for name, path in files.items())
    summary = files["markdown"].read_text()
    assert summary.startswith("### Evals stopped\n\n❌ `gate` `s`: 1 of 3 attempts passed.")
    assert "The run was stopped: 2 of 3 attempts were cancelled." in summary
    [suite] = ElementTree.fromstring(files["junit"].read_text())
    assert (suite.get("tests"), suite.get("errors"), suite.get("skipped")) == ("4", "1", "2")
    assert [skipped.get("message") for skipped in suite.iter("skipped")] == [f"cancelled: {STOPPED}"] * 2
    assert suite.findtext("system-err") == STOPPED
    [data] = json.loads(files["json"].read_text())["runs"]
    assert (data["status"], data["counts"]["passed"], data["counts"]["cancelled"]) == ("cancelled", 1, 2)
    assert STOPPED in files["html"].read_text()
    assert files["csv"].read_text().count("cancelled") == 2


def test_run_that_had_ended_before_the_signal_is_reported_with_the_others(store, gate, tmp_path):
    write(gate, "first.evalset.json", evalset(case("a", turn("go", "go")), eval_set_id="first"))
    write(gate, "s.evalset.json", evalset(case("c0", turn("wait", "wait"))))
    summary = tmp_path / "r.md"
    process = forked_processes.Popen(
        run_evals_argv(gate, "first", "s", METRIC, f"--markdown={summary}"), cwd=ROOT, env=environment()
    )
    wait_for(lambda: sorted(statuses()) == ["passed", "running"])
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143
    text = summary.read_text()
    assert text.startswith("### Evals stopped\n")
    assert "✅ `gate` `first`: 1 of 1 attempts passed." in text
    assert "❌ `gate` `s`: 0 of 1 attempts passed." in text


def test_run_that_had_ended_before_the_signal_is_not_compared_if_it_needs_earlier_runs(store, gate, tmp_path):
    write(gate, "first.evalset.json", evalset(case("a", turn("go", "other")), eval_set_id="first"))
    write(gate, "s.evalset.json", evalset(case("c0", turn("wait", "wait"))))
    summary = tmp_path / "r.md"
    options = ("--fail-on=regression", "--allow-no-baseline", f"--markdown={summary}")
    process = forked_processes.Popen(
        run_evals_argv(gate, "first", "s", METRIC, *options), cwd=ROOT, env=environment()
    )
    wait_for(lambda: sorted(statuses()) == ["failed", "running"])
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143
    text = summary.read_text()
    assert "⚠️ `gate` `first`: 0 of 1 attempts passed." in text
    assert "- The command was stopped before the run was compared. Run the evalset again." in text


@pytest.mark.soak
def test_second_signal_does_not_wait_for_an_agent_and_still_leaves_the_files(store, gate, tmp_path):
    summary = tmp_path / "r.md"
    process = start(gate, ["cling"], f"--markdown={summary}")
    wait_for(lambda: statuses() == ["running"])
    os.kill(process.pid, signal.SIGTERM)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (130, 143)
    assert summary.read_text().startswith("### Evals stopped\n")
    assert statuses() == ["cancelled"]


def test_evalset_that_changes_during_a_run_changes_only_the_next_run(store, gate):
    process = start(gate, ["wait", "go"], "--parallelism=1")
    wait_for(lambda: statuses() == ["running", "pending"])
    changed = [case("c0", turn("go", "other")), case("new", turn("go", "other"))]
    write(gate, "s.evalset.json", evalset(*changed))
    (gate / "open.txt").write_text("")
    process.communicate(timeout=PATIENCE_S)
    first = EvalRun.objects.get()
    assert (process.returncode, first.passed, first.total) == (0, 2, 2)
    again = forked_processes.run(run_evals_argv(gate, "s", METRIC), cwd=ROOT, env=environment())
    second = EvalRun.objects.exclude(pk=first.pk).get()
    assert (again.returncode, second.failed, second.total) == (1, 2, 2)
    assert second.version.digest != first.version.digest


REFUSED_ORDER = """
import os, sys
from pathlib import Path
import devui
devui.setup()
from evals_app.execution.child_processes import RunChildren
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.errors import BadInput
agents = AgentsFolder(Path(sys.argv[1]), Path(sys.argv[1]).parent, "weather")
try:
    with RunChildren(agents, "weather", listener=None, died=print):
        raise BadInput("No such case.")
except BadInput as refusal:
    print(refusal.message)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child is left")
"""


def test_child_without_runs_ends_with_its_command(tmp_path):
    command = [sys.executable, "-c", REFUSED_ORDER, str(ROOT / "examples/agents/weather")]
    url = f"sqlite:///{tmp_path / 'store.sqlite3'}"
    done = forked_processes.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": url})
    assert (done.stdout.splitlines(), done.stderr) == (["No such case.", "no child is left"], "")
