"""`run_evals` as the gate of a build: baselines, conditions of failure, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from evals_app.analysis.ci_gate import Gate
from evals_app.models import EvalRun, EvalSet
from evals_app.runs.writes import notes
from tests.evals import stored_runs
from tests.evals.run_evals_command import run_evals, usage_error
from tests.evals.stored_runs import cases, passing
from tests.store import store_url

MATCH = "--criteria=response_match_score=1"


def run_judged(folder, *arguments):
    return run_evals(folder, "s", "--metrics=response_match_score", MATCH, *arguments)


def test_build_fails_on_regression_but_not_on_known_failures(store, echo):
    assert run_judged(echo, "--num-runs=4")[0] == 1
    first = EvalRun.objects.get()
    notes.mark_baseline(first.id, True)
    code, out = run_judged(echo, "--fail-on=regression", "--num-runs=4")
    assert (code, f"against run {first.id}: 3 unchanged" in out) == (0, True)

    agent = echo / "agent.py"
    agent.write_text(agent.read_text().replace("ANSWERS = {}", "ANSWERS = {'a': 'x'}"))
    renamed = echo.rename(echo.with_name(f"{echo.name}_2"))  # its module is imported already
    EvalRun.objects.update(app_name=renamed.name)
    first.evalset.__class__.objects.update(app_name=renamed.name)
    code, out = run_judged(renamed, "--fail-on=regression", "--num-runs=4")
    assert code == 1
    assert "1 regressed" in out
    assert (
        "fails a: 0 of 4 passed now, 8 of 8 earlier (baseline and 1 earlier run): p = 0.004 over 3 cases."
        in out
    )


def test_build_without_tolerance_fails_on_any_failure(store, echo):
    code, out = run_judged(echo, "--fail-on=any")
    assert (code, "fails 1 of 3 attempts did not pass." in out, "no run to compare with" in out) == (
        1,
        True,
        True,
    )


def test_missing_baseline_is_refused_before_the_run(store, echo):
    assert "no run is marked as baseline" in usage_error(echo, "s", "--fail-on=regression")
    assert "there is no earlier run of the command line or CI" in usage_error(
        echo, "s", "--baseline=previous"
    )
    assert "has no other run 'abc'" in usage_error(echo, "s", "--baseline=abc")
    assert not EvalRun.objects.exists()


def test_a_run_that_stopped_at_a_limit_is_resumed_from_the_command_line(store, echo):
    code, out = run_judged(echo, "--limit=seconds=0.000001", "--parallelism=1")
    run = EvalRun.objects.get()
    assert (code, run.status) == (1, "stopped")
    assert f"--resume {run.id}" in out
    EvalRun.objects.update(limits="{}")
    code, out = run_evals(echo, "--resume", run.id[:8])
    run.refresh_from_db()
    assert (code, run.status, run.passed, run.failed, run.resumed) == (1, "done", 2, 1, 1)
    assert f"run {run.id} continues: " in out
    code, out = run_evals(echo, "--retry=last")
    assert f"s.evalset.json: 1 attempt of run {run.id} again" in out
    assert "0 of 1 passed, 1 failed" in out
    assert f"2 of 3 after retries, 2 at first (run {run.id}). First outcomes count." in out
    assert code == 1


def test_unresumable_run_is_refused(store, echo):
    assert "Name evalsets to run" in usage_error(echo)
    assert "Name evalsets to run" in usage_error(echo, "s", "--resume=last")
    assert "has no eval run 'last'" in usage_error(echo, "--resume=last")
    run_judged(echo)
    assert "no unfinished attempts" in usage_error(echo, "--resume=last")
    assert "There is no limit 'money'" in usage_error(echo, "s", "--limit=money=1")


def test_a_run_without_outcomes_is_no_previous_run(store, echo):
    run_judged(echo)
    first = EvalRun.objects.get()
    run_judged(echo)
    cancelled = EvalRun.objects.latest("created_at")
    cancelled.attempts.update(status="cancelled", started_at=None)
    EvalRun.objects.filter(pk=cancelled.pk).update(status="cancelled", passed=0, failed=0, cancelled=3)
    code, out = run_judged(echo, "--fail-on=regression", "--baseline=previous")
    assert (code, f"against run {first.id}: 3 unchanged" in out) == (0, True), out


def test_run_that_was_not_judged_is_not_compared(store):
    version = stored_runs.version(cases("a"))
    then = stored_runs.run(version, {"a": [passing()]}, code="v1")
    run = stored_runs.run(version, {"a": [passing()]}, code="v2")
    EvalRun.objects.filter(pk=run.pk).update(passed=0, incomplete=1)
    run.attempts.update(status="incomplete")
    run.refresh_from_db()
    gate = Gate(then.pk, "regression")
    result = gate.judge(run)
    assert (result.fails, result.status, result.exit_code) == ([], "not compared", 3)
    assert result.not_compared.startswith("1 of 1 attempts are incomplete: ")
    EvalRun.objects.filter(pk=run.pk).update(status="cancelled")
    run.refresh_from_db()
    assert gate.judge(run).fails == ["The run is cancelled."]


def test_unclear_cases_are_listed_although_the_build_passes(store, echo):
    run_judged(echo)
    agent = echo / "agent.py"
    agent.write_text(agent.read_text().replace("ANSWERS = {}", "ANSWERS = {'a': 'x'}"))
    renamed = echo.rename(echo.with_name(f"{echo.name}_2"))  # its module is imported already
    EvalRun.objects.update(app_name=renamed.name)
    EvalSet.objects.update(app_name=renamed.name)
    code, out = run_judged(renamed, "--fail-on=regression", "--baseline=previous")
    assert code == 0
    assert "unclear a: It failed now and passed in the only earlier attempt." in out
    assert "repetitions of both versions would probably prove it" in out


def test_gate_without_baseline_explains_how_to_set_one(store, echo):
    run_judged(echo)
    assert "Mark one on its page (Make baseline)" in usage_error(echo, "s", "--fail-on=regression")


ORDERED_AND_KILLED = """
import os, signal, sys
import devui
devui.setup(migrate=False)
from pathlib import Path
from evals_app.runs import folder_orders
from evals_app.execution.local_runner import own_new_runs
agents, app_name = folder_orders.agent_at(Path(sys.argv[1]))
with own_new_runs(app_name):
    folder_orders.order_from_folder(agents, app_name, folder_orders.EvalsetRequest("s", ()))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_run_killed_before_its_start_resumes_at_once(store, echo):
    arguments = [sys.executable, "-c", ORDERED_AND_KILLED, str(echo)]
    killed = subprocess.run(arguments, env={**os.environ, "DATABASE_URL": store_url()})
    run = EvalRun.objects.get()
    assert (killed.returncode, run.status) == (-signal.SIGKILL, "pending")

    code, out = run_evals(echo, "--resume=last")

    run.refresh_from_db()
    assert (run.status, run.resumed, run.passed + run.failed) == ("done", 1, 3), out
    assert code in {0, 1}
