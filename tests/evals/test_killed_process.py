"""A run whose process is killed loses no completed attempt and continues."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from evals_app.models import EvalAttempt, EvalRun
from sessions_app.agent_processes import processes
from sessions_app.store.models import RuntimeProcess
from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.evals.gate_agent import AGENT, statuses, wait_for
from tests.evals.run_evals_command import environment, run_evals_argv
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

ROOT = Path(__file__).resolve().parents[2]

ATTEMPT_LIMIT = "--limit=attempt_seconds=5"
"""More than an attempt takes to come to its agent on a loaded machine: else it ends as one that took too long."""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """An agent that answers `wait` when a file is there, and an evalset that waits in its third and fourth case."""
    folder = tmp_path / "gate"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    commands = ["go", "go", "wait", "wait", "go", "go"]
    cases = [case(f"c{number}", turn(word, word)) for number, word in enumerate(commands)]
    write(folder, "s.evalset.json", evalset(*cases))
    return folder


def test_run_of_killed_process_is_resumed(store, gate):
    judged = ("--metrics=response_match_score", "--parallelism=2")
    process = forked_processes.Popen(
        run_evals_argv(gate, "s", *judged), cwd=ROOT, env=environment(), start_new_session=True
    )
    try:
        wait_for(lambda: statuses()[:4] == ["passed", "passed", "running", "running"])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run = EvalRun.objects.get()
    assert (run.status, RuntimeProcess.objects.get(pk=run.runtime_id).stopped_at) == ("running", None)
    ended = dict(EvalAttempt.objects.filter(status="passed").values_list("case_id", "finished_at"))

    (gate / "open.txt").write_text("")
    done = forked_processes.run(run_evals_argv(gate, "--resume", "last"), cwd=ROOT, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 6 attempts are left" in done.stdout
    assert "2 were in flight and run again, alone" in done.stdout
    assert "(try 2)" in done.stdout
    run.refresh_from_db()
    assert (run.status, run.passed, run.errors, run.cancelled, run.resumed) == ("done", 6, 0, 0, 1)
    attempts = {attempt.case_id: attempt for attempt in run.attempts.all()}
    assert {name: item.tries for name, item in attempts.items()} == {
        "c0": 1,
        "c1": 1,
        "c2": 2,
        "c3": 2,
        "c4": 1,
        "c5": 1,
    }
    assert {name: attempts[name].finished_at for name in ended} == ended
    assert [tried["error_type"] for tried in attempts["c2"].earlier_tries] == ["RuntimeGone"]


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_run_reports_results_and_how_to_resume(store, gate, signal_number, code):
    process = forked_processes.Popen(
        run_evals_argv(gate, "s", "--metrics=response_match_score"),
        cwd=ROOT,
        env=environment(),
        stdout=forked_processes.subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: statuses()[:3] == ["passed", "passed", "running"])
    os.kill(process.pid, signal_number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    run = EvalRun.objects.get()
    assert (process.returncode, run.status) == (code, "cancelled")
    assert f"{run.passed} of 6 passed, {run.cancelled} cancelled" in out
    assert f"--resume {run.id}" in out
    assert not RuntimeProcess.objects.filter(stopped_at=None).exists()


def test_child_process_of_a_killed_command_ends_with_it(store, gate):
    process = forked_processes.Popen(
        run_evals_argv(gate, "s", "--metrics=response_match_score"), cwd=ROOT, env=environment()
    )
    wait_for(lambda: statuses().count("running") >= 1)
    process.kill()
    process.wait()
    wait_for(lambda: EvalRun.objects.get().status == "cancelled")
    processes.mark_gone_stopped()  # the command itself could not say that it ended
    wait_for(lambda: not RuntimeProcess.objects.filter(stopped_at=None).exists())


def test_blocking_agent_is_reported_and_others_continue(store, gate):
    cases = [case(word, turn(word, word)) for word in ("go", "block", "after")]
    write(gate, "s.evalset.json", evalset(*cases))
    judged = ("--metrics=response_match_score", "--parallelism=1", ATTEMPT_LIMIT)
    done = forked_processes.run(run_evals_argv(gate, "s", *judged), cwd=ROOT, env=environment())
    run = EvalRun.objects.get()
    assert (done.returncode, run.status, statuses()) == (1, "done", ["passed", "error", "passed"])
    assert "stood still" in done.stderr
    assert "ProcessBlocked" in done.stdout
    blocked = run.attempts.get(case_id="block")
    assert blocked.error_type == "ProcessBlocked"
    assert "in _run_async_impl (agent.py, line " in blocked.error
    assert "time.sleep(0.01)" in blocked.traceback


def test_blocking_attempt_among_several_is_identified(store, gate):
    write(gate, "s.evalset.json", evalset(*[case(word, turn(word, word)) for word in ("block", "go")]))
    judged = ("--metrics=response_match_score", ATTEMPT_LIMIT)
    done = forked_processes.run(run_evals_argv(gate, "s", *judged), cwd=ROOT, env=environment())
    assert done.returncode == 1, done.stdout + done.stderr
    assert statuses() == ["error", "passed"]


def test_c_code_that_holds_the_gil_is_ended(store, gate):
    write(gate, "s.evalset.json", evalset(*[case(word, turn(word, word)) for word in ("search", "go")]))
    done = forked_processes.run(
        run_evals_argv(gate, "s", "--metrics=response_match_score", ATTEMPT_LIMIT),
        cwd=ROOT,
        env=environment(),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert statuses() == ["error", "passed"]
    assert "Case 'search' ran alone in it. Code in C that lets no thread run" in done.stdout
    assert "_run_async_impl" in done.stderr


def test_agent_that_never_ends_does_not_block_the_command(store, gate):
    write(gate, "s.evalset.json", evalset(*[case(word, turn(word, word)) for word in ("cling", "go")]))
    done = forked_processes.run(
        run_evals_argv(gate, "s", "--metrics=response_match_score", ATTEMPT_LIMIT),
        cwd=ROOT,
        env=environment(),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert statuses() == ["error", "passed"]
    assert "AttemptTooLong" in done.stdout


def test_signal_to_child_process_only_is_reported(store, gate):
    write(gate, "s.evalset.json", evalset(*[case(word, turn(word, word)) for word in ("go", "terminate")]))
    done = forked_processes.run(
        run_evals_argv(gate, "s", "--metrics=response_match_score", "--parallelism=1"),
        cwd=ROOT,
        env=environment(),
    )
    assert done.returncode == 143, done.stdout + done.stderr
    assert statuses() == ["passed", "cancelled"]
    assert f"--resume {EvalRun.objects.get().id}" in done.stdout
