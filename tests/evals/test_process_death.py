"""Runs whose process dies continue without the attempt that ended it: rules on rows, and real processes."""

from __future__ import annotations

import json
import textwrap

import pytest

from devui.supervisor import Supervisor
from evals_app.files import library
from evals_app.metrics import config
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status, dispatch, rerun, run_orders
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.writes import attempts, crashes, notes
from evals_app.runs.writes.crashes import ProcessDeath
from evals_app.runs.writes.outcomes import Outcome
from evals_app.runs.writes.runs import assign_runs, begin_cancel, claim_run, crash_run
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import open_folder
from sessions_app.runs import lifecycle, runtime_client
from sessions_app.store.database import units_of_work
from sessions_app.store.sessions.writes import SessionKey, create_session
from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.evals.conftest import wait_until_settled
from tests.evals.pytest_suites import ROOT
from tests.evals.pytest_suites import run_pytest as run_suite
from tests.evals.run_evals_command import environment, run_evals_argv
from tests.settable_clock import STEPS_S, Clock
from tests.store import store_url

Status = EvalAttempt.Status
DIED = ProcessDeath("exit status 3")
PROCESS = "r" * 32


@pytest.fixture
def order(folder, db):
    """Order a run of three cases, taken by a process."""
    processes.register(PROCESS, "counter", 1, "v1")

    def ordered(name="s", **more):
        path = write(
            folder.path, f"{name}.evalset.json", evalset(*[case(word, turn("x", "y")) for word in "abc"])
        )
        run = run_orders.order_run(
            library.register_file(folder, "counter", path), RunOrder(config.default_config(), **more)
        )
        assign_runs([run.id], PROCESS)
        return run

    return ordered


def begin(run, *names):
    claim_run(run.id, PROCESS)
    for name in names:
        attempts.start_attempt(run.attempts.get(case_id=name).pk, runtime_id=PROCESS)


def of(run):
    return {attempt.case_id: attempt for attempt in run.attempts.order_by("case_index")}


def statuses(run):
    return [attempt.status for attempt in of(run).values()]


def test_runs_wait_for_next_process_and_start_once(order, monkeypatch):
    run, done = order(), order("t")
    begin(run, "a")
    begin(done, "a", "b", "c")
    for attempt in of(done).values():
        attempts.finish_attempt(attempt.pk, Outcome(Status.PASSED))
    server = processes.register("s" * 32, processes.SERVER_APP, 2, "")
    monkeypatch.setattr(processes, "_own_id", server.pk)
    active_runs = crashes.list_active(PROCESS)
    assert sorted(active_runs) == sorted([run.id, done.id])
    assert crashes.continue_without_process(PROCESS, DIED) == [run.id]
    assert (
        crashes.continue_without_process(PROCESS, DIED) == []
    )  # done once more, because the store's answer was lost
    assert crashes.list_pending(active_runs) == [run.id]
    run.refresh_from_db()
    assert (run.runtime_id, run.resumed) == (server.pk, 1)


def test_in_flight_attempts_repeat_alone_and_pending_ones_wait(order):
    run = order()
    begin(run, "a", "b")
    attempts.finish_attempt(run.attempts.get(case_id="b").pk, Outcome(Status.PASSED))
    begun_at = EvalRun.objects.get().limits_from
    assert crashes.continue_without_process(PROCESS, DIED) == [run.id]
    run.refresh_from_db()
    assert (run.status, run.runtime_id, run.resumed, run.limits_from) == (
        "pending",
        None,
        1,
        begun_at,
    )
    assert statuses(run) == ["pending", "passed", "pending"]
    assert [attempt_status.must_run_alone(attempt) for attempt in of(run).values()] == [
        True,
        False,
        False,
    ]
    [tried] = of(run)["a"].earlier_tries
    assert (tried["status"], tried["error_type"]) == ("error", attempt_status.PROCESS_GONE)
    assert tried["error"] == "The process that ran it ended (exit status 3)."


def test_attempt_that_ends_its_own_process_is_not_repeated(order):
    run = order()
    begin(run, "a", "b")
    crashes.continue_without_process(PROCESS, DIED)
    begin(run, "a")
    assert crashes.continue_without_process(PROCESS, ProcessDeath("signal 11, SIGSEGV")) == [run.id]
    ended = of(run)["a"]
    assert (ended.status, ended.error_type, ended.tries) == (Status.ERROR, attempt_status.ENDED_PROCESS, 2)
    assert ended.error == "The process ended with signal 11, SIGSEGV.\nCase 'a' ran alone in it."
    assert statuses(run) == ["error", "pending", "pending"]
    assert run.attempts.filter(attempt_status.HAS_OUTCOME).count() == 1
    assert not run.attempts.filter(attempt_status.UNFINISHED).exists()


def test_cases_that_kill_their_process_alike_share_a_cause(order):
    run = order()
    for name in "ab":
        for _ in range(2):
            begin(run, name)
            crashes.continue_without_process(PROCESS, DIED)
    causes = set(run.attempts.filter(error_type=attempt_status.ENDED_PROCESS).values_list("cause", flat=True))
    assert causes == {"ProcessEnded: The process ended with exit status 3."}


@pytest.mark.parametrize("step", STEPS_S)
@pytest.mark.parametrize(
    ("how", "may_be_too_long"), [("exit status 1", True), ("exit status 3", False), ("signal 9", False)]
)
def test_timeout_at_process_death_ignores_clock_changes(
    order, monkeypatch, tmp_path, how, may_be_too_long, step
):
    clock = Clock(monkeypatch, tmp_path / "shift")
    run = order(limits=EvalRunLimits(attempt_seconds=5))
    begin(run, "a")
    crashes.continue_without_process(PROCESS, DIED)
    begin(run, "a")
    clock.step(step)
    crashes.continue_without_process(PROCESS, ProcessDeath(how))
    ended = of(run)["a"]
    assert ended.error_type == attempt_status.ENDED_PROCESS
    assert f"ended with {how}" in ended.error
    assert ("an attempt takes longer than its limit of 5 seconds" in ended.error) == may_be_too_long


def test_attempts_repeated_alone_are_counted(order):
    run = order()
    begin(run, "a", "b")
    crashes.continue_without_process(PROCESS, DIED)
    assert attempt_status.count_alone(run) == 2


def test_run_whose_last_attempt_killed_its_process_is_done(order):
    run = order(case_ids=["a"])
    begin(run, "a")
    crashes.continue_without_process(PROCESS, DIED)
    begin(run, "a")
    assert crashes.continue_without_process(PROCESS, DIED) == []
    run.refresh_from_db()
    assert (run.status, run.errors, run.total) == ("done", 1, 1)


def test_other_runs_of_the_process_go_on_and_bear_no_blame(order):
    killer, beside, waiting = order("k"), order("b"), order("w")
    begin(killer, "a")
    begin(beside, "a")
    assert sorted(crashes.continue_without_process(PROCESS, DIED)) == sorted(
        [killer.id, beside.id, waiting.id]
    )
    begin(killer, "a")
    begin(beside, "a")  # side by side once more: nobody knows which one it is
    crashes.continue_without_process(PROCESS, DIED)
    assert {*statuses(killer), *statuses(beside), *statuses(waiting)} == {"pending"}
    waiting.refresh_from_db()
    assert (waiting.resumed, waiting.runtime_id) == (0, None)


def test_intended_process_end_blames_no_attempt(order):
    run = order()
    begin(run, "a")
    crashes.continue_without_process(PROCESS, DIED)
    begin(run, "a")
    crashes.continue_without_process(PROCESS, ProcessDeath("It was ended to cancel run 7.", by_itself=False))
    assert of(run)["a"].earlier_tries[-1]["error"] == "It was ended to cancel run 7."
    begin(run, "a")
    session = create_session(SessionKey("", "counter", "u", "s"))
    talk = lifecycle.create_run(session.pk, {})
    lifecycle.claim(talk.pk, PROCESS, "v1")
    crashes.continue_without_process(PROCESS, DIED)
    assert statuses(run) == ["pending"] * 3


def test_runs_crash_if_the_process_dies_before_any_attempt(order):
    run = order()
    begin(run)
    assert crashes.continue_without_process(PROCESS, DIED) == []
    run.refresh_from_db()
    assert (run.status, run.error) == (
        "crashed",
        "The process that ran it ended (exit status 3).",
    )


def test_attempt_cancelled_meanwhile_stays_cancelled(order):
    run, stopped = order(), order("t")
    begin(run, "a", "b")
    begin(stopped, "a")
    attempts.request_cancel_attempt(of(run)["a"].pk)
    begin_cancel(stopped.id)
    assert crashes.continue_without_process(PROCESS, DIED) == [run.id]
    assert statuses(run) == ["cancelled", "pending", "pending"]
    stopped.refresh_from_db()
    assert stopped.status == "cancelled"


def test_resuming_resets_limits(order):
    run = order()
    begin(run, "a")
    crashes.continue_without_process(PROCESS, DIED)
    begin(run, "a")
    crash_run(run.id, "The power failed.")
    run = rerun.resume(EvalRun.objects.get(pk=run.id))
    assert run.limits_from is None
    assert attempt_status.must_run_alone(of(run)["a"])


def test_a_case_that_ended_its_process_is_alone_when_it_is_tried_again(order):
    run = order(case_ids=["a"])
    begin(run, "a")
    crashes.continue_without_process(PROCESS, DIED)
    begin(run, "a")
    crashes.continue_without_process(PROCESS, DIED)
    rerun.retry(run)
    assert attempt_status.must_run_alone(of(run)["a"])


def test_a_judge_that_ends_the_process_is_blamed_and_not_the_agent(order):
    run = order(case_ids=["a"])
    begin(run, "a")
    crashes.continue_without_process(PROCESS, DIED)
    begin(run, "a")
    attempts.note_judge(of(run)["a"].pk, "mine")
    crashes.continue_without_process(PROCESS, DIED)
    attempt = of(run)["a"]
    assert (attempt.status, attempt.error_type) == ("error", attempt_status.JUDGE_ENDED_PROCESS)
    assert attempt.error.endswith("The agent had answered: mine was judging it.")
    assert not run.attempts.filter(attempt_status.HAS_OUTCOME).exists()


AGENT = """
import os
import time
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types


class Killer(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = ctx.user_content.parts[0].text
        if said == "exit":
            os._exit(3)
        if said == "kill":
            os.kill(os.getpid(), 11)
        content = types.Content(role="model", parts=[types.Part(text=said)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Killer(name="killer")
"""


@pytest.fixture
def killer(tmp_path):
    """An agent that ends its process when it is told to, and an evalset in which it is told twice."""
    folder = tmp_path / "agents" / "killer"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(AGENT)
    commands = ["go", "exit", "go", "kill", "go", "go"]
    cases = [case(f"{word}{number}", turn(word, word)) for number, word in enumerate(commands)]
    write(folder, "s.evalset.json", evalset(*cases))
    write(folder, "exits.evalset.json", evalset(case("only", turn("exit", "exit"))))
    return folder


JUDGED = "--metrics=response_match_score"
OUTCOMES = ["passed", "error", "passed", "error", "passed", "passed"]


@pytest.mark.soak
def test_the_command_line_outlives_agents_that_end_their_process(store, killer, tmp_path):
    results = tmp_path / "results.json"
    done = forked_processes.run(
        run_evals_argv(killer, "s", "exits", JUDGED, f"--json={results}"), cwd=ROOT, env=environment()
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "exit status 3" in done.stdout
    assert "exit status 3. Case 'exit1' ran alone" in done.stdout
    assert "signal 11, SIGSEGV. Case 'kill3' ran alone" in done.stdout
    assert "were in flight and run again, alone" in done.stdout
    assert "4 of 6 passed, 2 error" in done.stdout
    assert "0 of 1 passed, 1 error" in done.stdout
    first, second = EvalRun.objects.order_by("created_at")
    assert (first.status, second.status) == ("done", "done")
    assert statuses(first) == OUTCOMES
    assert [run["status"] for run in json.loads(results.read_text())["runs"]] == [
        "done",
        "done",
    ]


JUDGES = """

from google.adk.models.base_llm import BaseLlm
from google.adk.models.registry import LLMRegistry
from google.genai import errors


class Judge(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        if self.model == "judge-exits":
            os._exit(5)
        raise errors.APIError(429, {"error": {"code": 429, "message": "Slow down."}})
        yield

    @classmethod
    def supported_models(cls):
        return ["judge-exits", "judge-refuses"]


LLMRegistry.register(Judge)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ("judge-exits", "JudgeEndedProcess: The process ended with exit status 5."),
        ("judge-refuses", "ModelUnavailable: The judge: judge-refuses could not be asked: 429: Slow down."),
    ],
)
def test_failed_judge_is_reported_and_exit_code_is_not_0(store, killer, tmp_path, judge, message):
    (killer / "agent.py").write_text(AGENT + JUDGES)
    options = {"judge_model": judge, "num_samples": 1}
    criteria = {"final_response_match_v2": {"threshold": 0.5, "judge_model_options": options}}
    (tmp_path / "config.json").write_text(json.dumps({"criteria": criteria}))
    items = (
        f"--config={tmp_path / 'config.json'}",
        "--limit=retry_seconds=1.5",
        f"--junit={tmp_path / 'junit.xml'}",
    )
    done = forked_processes.run(run_evals_argv(killer, "s:go0", *items), cwd=ROOT, env=environment())
    assert done.returncode == 1, done.stdout + done.stderr
    assert message in done.stdout
    assert "0 of 1 passed, 1 error" in done.stdout
    assert ("waited" in done.stdout) is (judge == "judge-refuses")
    assert 'errors="1"' in (tmp_path / "junit.xml").read_text()
    run = EvalRun.objects.get()
    notes.mark_baseline(run.pk, True)
    gate = (f"--config={tmp_path / 'config.json'}", "--limit=retry_seconds=0", "--fail-on=regression")
    done = forked_processes.run(run_evals_argv(killer, "s:go0", *gate), cwd=ROOT, env=environment())
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 1 attempts have no outcome" in done.stdout


@pytest.mark.soak
def test_an_agent_that_ends_its_process_as_it_is_loaded_could_not_run(store, killer):
    (killer / "agent.py").write_text("import os\nos._exit(4)\n")
    done = forked_processes.run(run_evals_argv(killer, "s", JUDGED), cwd=ROOT, env=environment())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "could not run" in done.stdout
    assert "exit status 4" in done.stdout
    assert EvalRun.objects.get().status == "crashed"


@pytest.mark.soak
def test_a_test_suite_outlives_agents_that_end_their_process(killer, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_agent.py").write_text(
        textwrap.dedent("""
        from devui.testing import evaluate

        def test_outcomes():
            results = evaluate("s", agent="agents/killer", metrics=["response_match_score"])
            assert results.status == "done"
            assert [case.attempts[0].status for case in results.cases] == %r
            assert "ran alone" in results["exit1"].summary
        """)
        % OUTCOMES
    )
    done = run_suite(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
async def test_server_resumes_its_runs_and_those_beside_the_killer(store, killer):
    def order(name):
        folder = open_folder(killer.parent)
        evalset = library.register_file(folder, "killer", killer / f"{name}.evalset.json")
        return run_orders.order_run(
            evalset, RunOrder(config.RunConfig({"criteria": {"response_match_score": 1.0}}, "the test"))
        )

    with forked_processes.starts():
        async with Supervisor(killer.parent, environment={"DATABASE_URL": store_url()}) as running:
            runtime_client.register(running)
            try:
                runs = [await units_of_work.write(order, name) for name in ("s", "exits")]
                for run in runs:
                    await dispatch.start_delivery(run)
                await wait_until_settled()
            finally:
                runtime_client.register(None)
    first, second = [await units_of_work.read(EvalRun.objects.get, pk=run.pk) for run in runs]
    assert (first.status, second.status) == ("done", "done")
    assert await units_of_work.read(statuses, first) == OUTCOMES
    assert await units_of_work.read(statuses, second) == ["error"]
