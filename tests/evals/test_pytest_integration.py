"""Evalsets in a test suite: a test for every case, results as values, no side effects on the suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from devui.testing import (
    AttemptResult,
    CaseResult,
    Latency,
    Refused,
    Results,
    Score,
    devui_evalset,
    evaluate,
)
from tests.evals.builders import case, evalset, turn, write
from tests.evals.pytest_suites import (
    COUNTING,
    ROOT,
    SUITE_ARGUMENTS,
    read_store,
    run_pytest,
    start_pytest,
    write_test,
)
from tests.patience import PATIENCE_S


@pytest.mark.soak
def test_every_case_is_a_test_and_the_suites_database_is_unused(suite):
    write_test(
        suite, f"test_echo = devui_evalset('../agents/echo/s.evalset.json', {SUITE_ARGUMENTS}, num_runs=2)"
    )
    done = run_pytest(suite, "-v", DATABASE_URL="postgresql://nobody@nowhere.invalid/suite")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_echo[a]" in done.stdout
    assert "2 passed" in done.stdout
    assert "1 failed" in done.stdout
    assert "never: 0 of 2 passed" in done.stdout
    assert "#1 failed: response_match_score 0 < 1" in done.stdout
    assert "answered 'c'" in done.stdout
    assert "Traceback" not in done.stdout
    assert "4 of 6 attempts passed, done (run " in done.stdout
    assert (suite / ".devui" / "devui.sqlite3").is_file()


@pytest.mark.soak
def test_only_the_cases_that_are_selected_run(suite):
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS})")
    chosen = "tests/test_agent.py::test_echo[a]"
    done = run_pytest(suite, chosen, "--devui-store", f"sqlite:///{suite}/other.sqlite3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 attempts passed" in done.stdout
    assert (suite / "other.sqlite3").is_file()


RUNS = "SELECT status, total, passed, resumed FROM evals_app_evalrun"


@pytest.mark.soak
@pytest.mark.parametrize("dist", ["load", "loadgroup", "each"])
def test_evalset_runs_once_for_all_workers_of_xdist(suite, tmp_path_factory, dist):
    write_test(
        suite,
        f"""
test_echo = devui_evalset('s', {SUITE_ARGUMENTS})

@pytest.fixture(scope='session')
def results():
    return evaluate('s', {SUITE_ARGUMENTS}, cases=['a'])

@pytest.mark.parametrize('number', range(4))
def test_rate(results, number):
    assert results.pass_rate == 1
""",
    )
    (suite / "conftest.py").write_text(COUNTING)
    temporary = tmp_path_factory.mktemp("temporary")
    done = run_pytest(suite, "-n", "2", "--dist", dist, TMPDIR=str(temporary))
    outcomes = "2 failed, 12 passed" if dist == "each" else "1 failed, 6 passed"
    assert outcomes in done.stdout, done.stdout + done.stderr
    assert sorted(read_store(suite, RUNS)) == [("done", 1, 1, 0), ("done", 3, 2, 0)]
    assert len((suite / "processes.txt").read_text().splitlines()) == 3, "one lists the cases, two run"
    assert done.stdout.count("2 of 3 attempts passed, done (run ") == 1
    assert not list(temporary.glob("devui-suite-*"))


@pytest.mark.soak
def test_workers_of_xdist_run_only_the_cases_that_are_selected(suite):
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS})")
    done = run_pytest(suite, "-n", "2", "-k", "test_echo and not never")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert read_store(suite, RUNS) == [("done", 2, 2, 0)]


SIGNALLING = """
import asyncio
import os
import signal
from pathlib import Path
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types


def signal_suite():
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    suite = int(stat.rpartition(")")[2].split()[1])
    os.kill(suite, signal.Signals[os.environ["SUITE_SIGNAL"]])


class Signalling(BaseAgent):
    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text
        marker = Path(__file__).with_name("signalled")
        if text == "b" and not marker.exists():
            marker.touch()
            signal_suite()
            await asyncio.sleep(3600)
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Signalling(name="echo")
"""

TIMEOUT_BY_SIGNAL = """
import signal


def stop(number, frame):
    raise TimeoutError("the test took too long")


signal.signal(signal.SIGUSR1, stop)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("workers", "signal_name", "reason"),
    [
        ("2", "SIGKILL", "crashed while running"),
        ("2", "SIGUSR1", "took too long"),
        ("0", "SIGUSR1", "took too long"),
    ],
)
def test_run_of_a_worker_that_is_killed_or_times_out_is_resumed(suite, workers, signal_name, reason):
    (suite / "agents" / "echo" / "agent.py").write_text(SIGNALLING)
    (suite / "conftest.py").write_text(TIMEOUT_BY_SIGNAL)
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS}, parallelism=1)")
    done = run_pytest(suite, "-n", workers, SUITE_SIGNAL=signal_name)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert reason in done.stdout
    assert read_store(suite, RUNS) == [("done", 3, 2, 1)]
    tries = read_store(suite, "SELECT case_id, tries FROM evals_app_evalattempt ORDER BY case_index")
    assert tries == [("a", 1), ("b ü::/", 2), ("never", 1)]
    assert "2 of 3 attempts passed, done (run " in done.stdout


@pytest.mark.soak
def test_repeated_test_shows_the_first_outcomes(suite):
    write_test(
        suite,
        f"""
test_echo = devui_evalset('s', {SUITE_ARGUMENTS}, cases=['a'])

@pytest.mark.parametrize('repetition', range(2))
def test_rate(repetition, monkeypatch):
    first = evaluate('s', {SUITE_ARGUMENTS}, cases=['a'])
    assert evaluate('s', {SUITE_ARGUMENTS}, cases=['a']).run_id == first.run_id
    monkeypatch.setenv('PROMPT', 'another')
    assert evaluate('s', {SUITE_ARGUMENTS}, cases=['a']).run_id != first.run_id
""",
    )
    (suite / "conftest.py").write_text(
        """
from _pytest.runner import runtestprotocol


def pytest_runtest_protocol(item, nextitem):
    for _ in range(2):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
    )
    done = run_pytest(suite)
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    assert len(read_store(suite, RUNS)) == 3, "of the test, and of each environment"


@pytest.mark.soak
def test_evalset_that_changes_during_the_session_is_refused(suite):
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS}, cases=['a'])")
    (suite / "conftest.py").write_text(
        """
def pytest_collection_finish(session):
    with open("agents/echo/s.evalset.json", "a") as evalset:
        evalset.write(" ")
"""
    )
    done = run_pytest(suite)
    assert "s.evalset.json has changed since this session of pytest read it: start the suite" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (suite / ".devui" / "devui.sqlite3").exists()


@pytest.mark.soak
def test_results_are_returned_and_nothing_is_asserted(suite):
    write_test(
        suite,
        f"""
def test_rate():
    results = evaluate("s", {SUITE_ARGUMENTS}, num_runs=2)
    assert isinstance(results, Results)
    assert (results.passed, results.pass_rate, [case.id for case in results.cases]) == (
        False, 4 / 6, ["a", "b ü::/", "never"])
    assert results["a"].passed
    assert [attempt.repetition for attempt in results["never"].attempts] == [1, 2]
    assert results["never"].attempts[0].scores[0].score == 0.0
    assert results.interval.low < 4 / 6 < results.interval.high
    assert results["a"].latency.mean == sum(attempt.seconds for attempt in results["a"].attempts) / 2
    assert results.latency.median <= results.latency.p95
    assert (results.cost, results.comparison, results.fails) == (
        None, None, ["2 of 6 attempts did not pass."])
    assert "2 of 3 cases passed" in results.summary

def test_cases():
    assert evaluate("s", {SUITE_ARGUMENTS}, cases=["a"]).passed
""",
    )
    done = run_pytest(suite)
    assert done.returncode == 0, done.stdout + done.stderr


CHANGED_AGENT = """
def test_changed_agent(request):
    first = evaluate("s", ARGUMENTS, cases=["a"], num_runs=10)
    with pytest.raises(Refused, match="no other run 'f00'"):
        evaluate("s", ARGUMENTS, cases=["a"], baseline="f00")
    agent = request.config.rootpath / "agents" / "echo" / "agent.py"
    agent.write_text(agent.read_text().replace("ANSWERS = {}", "ANSWERS = {'a': 'wrong'}"))
    results = evaluate(
        "s", ARGUMENTS, cases=["a"], num_runs=10, baseline=first.run_id, fail_on="regression")
    assert results.comparison["before"] == first.run_id
    assert results.comparison["after"] == results.run_id
    assert any("a" in sentence for sentence in results.regressions)
    assert set(results.regressions) <= set(results.fails)
    again = evaluate("s", ARGUMENTS, cases=["a"], num_runs=2, baseline="previous", fail_on="regression")
    assert again.comparison["before"] == results.run_id
"""


@pytest.mark.soak
def test_results_are_compared_with_a_baseline(suite):
    write_test(suite, CHANGED_AGENT.replace("ARGUMENTS", SUITE_ARGUMENTS))
    done = run_pytest(suite)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("test_x = devui_evalset('nothing', agent='../agents/echo')", "nothing: there is no such file"),
        ("test_x = devui_evalset('s', agent='../agents/nobody')", "There is no agent '../agents/nobody'"),
        (
            "test_x = devui_evalset('s', agent='../agents/echo', cases=['z'])",
            "has no case 'z'. Its cases: a, ",
        ),
        ("test_x = devui_evalset('s', agent='../agents/echo', metrics=['rouge'])", "rouge"),
        (
            "test_x = devui_evalset('s', agent='../agents/echo', limits={'money': 1})",
            "There is no limit 'money'",
        ),
        (
            "test_x = devui_evalset('s', agent='../agents/echo', criteria={'response_match_score': 'high'})",
            "'high'",
        ),
        (
            "test_x = devui_evalset('../agents/echo/s.evalset.json', agent='nowhere.agents:make')",
            "The module 'nowhere.agents' of the agent cannot be imported",
        ),
    ],
)
def test_unrunnable_evalset_is_reported_by_the_suite(suite, test, message):
    write_test(suite, test)
    done = run_pytest(suite)
    assert done.returncode != 0
    assert message in done.stdout
    assert "agent_argument.py:" not in done.stdout, "a refusal is one line"
    assert "evaluation.py:" not in done.stdout


HOLDING_ON = """
import os
import sys
import time
from pathlib import Path
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types


class HoldingOn(BaseAgent):
    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text
        if text == "read":
            text += sys.stdin.read()
        if text == "fork":
            if os.fork() == 0:
                with Path(__file__).with_name("forked.txt").open("a") as pids:
                    pids.write(f"{os.getpid()}\\n")
                time.sleep(3600)
            os._exit(3)
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = HoldingOn(name="echo")
"""


@pytest.mark.soak
def test_agent_reading_input_or_leaving_processes_does_not_block_suite(suite):
    agent = suite / "agents" / "echo"
    (agent / "agent.py").write_text(HOLDING_ON)
    write(
        agent, "s.evalset.json", evalset(case("read", turn("read", "read")), case("fork", turn("fork", "x")))
    )
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS})")
    try:
        done = run_pytest(suite)
    finally:
        for pid in (agent / "forked.txt").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "Case 'fork' ran alone" in done.stdout


SLOW = """
import asyncio
from pathlib import Path
from google.adk.agents.base_agent import BaseAgent


class Slow(BaseAgent):
    async def _run_async_impl(self, ctx):
        Path(__file__).with_name("started").touch()
        await asyncio.sleep(3600)
        yield


root_agent = Slow(name="echo")
"""


@pytest.mark.soak
@pytest.mark.parametrize("workers", ["0", "2"])
def test_interrupted_suite_cancels_its_run(suite, workers):
    agent = suite / "agents" / "echo"
    (agent / "agent.py").write_text(SLOW)
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS})")
    process = start_pytest(suite, "-n", workers)
    deadline = time.monotonic() + 60
    while not (agent / "started").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2, output
    assert read_store(suite, "SELECT status, finished_at > 0 FROM evals_app_evalrun") == [("cancelled", 1)]


def test_a_suite_without_evals_pays_nothing():
    heavy = ("django", "google", "pydantic", "pytest")
    code = f"import sys, devui.testing.plugin; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def attempt(status, repetition=1, **more):
    return AttemptResult(id=repetition, case="c", repetition=repetition, status=status, **more)


def test_failures_are_summarized_in_a_few_lines():
    turns = [
        {
            "intermediate_data": {"tool_uses": [{"name": "look", "args": {"city": "Rome"}}]},
            "final_response": {"parts": [{"text": "x" * 400}, {"text": "hidden", "thought": True}]},
        }
    ]
    scores = [Score("m", 0.25, 0.5, "failed"), Score("judged", None, 0.5, "not_evaluated", "no\nkey")]
    missed = CaseResult("c", [attempt("passed"), attempt("failed", 2, scores=scores, actual=turns)])
    lines = missed.summary.splitlines()
    assert lines[:2] == ["c: 1 of 2 passed", "  #2 failed: m 0.25 < 0.5; judged: no key"]
    assert lines[2].startswith("     turn 1: called look(city='Rome'); answered 'xxx")
    assert len(lines[2]) < 400
    broken = CaseResult("d", [attempt("error", error="ValueError: bad\x1b[2J")])
    assert r"#1 error: ValueError: bad\u001b[2J" in broken.summary
    whole = Results("r", "done", [missed, broken, CaseResult("e", [attempt("passed")])])
    assert not whole.passed
    assert not Results("r", "done").passed
    assert not Results("r", "stopped", [CaseResult("e", [attempt("passed")])]).passed
    with pytest.raises(KeyError):
        whole["nobody"]


def test_cost_is_unknown_if_that_of_an_attempt_is():
    priced, unknown, free = (
        attempt("passed", tokens=5, cost=0.25),
        attempt("passed", tokens=5),
        attempt("passed"),
    )
    assert CaseResult("c", [priced, priced, free]).cost == 0.5
    assert CaseResult("c", [priced, unknown]).cost is None
    assert CaseResult("c", [free]).cost is None


def test_latency_is_of_attempts_that_have_a_duration():
    attempts = [attempt("passed", seconds=float(number)) for number in range(1, 21)]
    latency = CaseResult("c", [*attempts, attempt("cancelled")]).latency
    assert (latency.mean, latency.median, latency.p95) == (10.5, 10.0, 19.0)
    assert Latency.measure([attempt("cancelled")]) is None


REPLY = {
    "run": {"id": "r", "status": "stopped", "stopped_because": "The limit was reached.", "error": None},
    "rate": {"passed": 0.5, "interval": [0.1, 0.9]},
    "cost": 0.25,
    "currency": "EUR",
    "gate": {
        "status": "failed",
        "title": "Evals failed",
        "fails": ["The run stopped."],
        "comparison": {"regressions": ["a: fell."]},
    },
    "attempts": [],
}


def test_results_say_what_the_process_replied():
    results = Results.from_json(REPLY)
    assert (results.pass_rate, results.interval.low, results.interval.high) == (0.5, 0.1, 0.9)
    assert (results.cost, results.currency) == (0.25, "EUR")
    assert (results.gate_status, results.title) == ("failed", "Evals failed")
    assert (results.fails, results.regressions) == (["The run stopped."], ["a: fell."])
    assert results.latency is None


def test_duration_of_an_attempt_is_without_waits_for_models():
    exported = {
        **dict.fromkeys(["id", "repetition"], 1),
        "case": "c",
        "status": "passed",
        "has_outcome": True,
        "error": None,
        "metrics": [],
        "actual": [],
        "seconds": 5.0,
        "waited_seconds": 3.5,
        "total_tokens": 0,
        "cost": 0.0,
    }
    result = AttemptResult.from_json(exported)
    assert (result.seconds, result.cost) == (1.5, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repetitions": 3}, "There is no option 'repetitions'. Options: metrics, criteria, "),
        ({"num_runs": "3"}, "The option num_runs must be a whole number, not '3'."),
        ({"num_runs": True}, "The option num_runs must be a whole number, not True."),
        ({"metrics": "rouge"}, "The option metrics must be a list of names, not 'rouge'."),
        ({"criteria": ["rouge"]}, "The option criteria must be a mapping of metrics to thresholds"),
        ({"criteria": {"rouge": {1}}}, "The options must be values of JSON"),
        ({"config": 1}, "The option config must be a file or a mapping, not 1."),
        ({"limits": 60}, "The option limits must be a mapping of names to numbers, not 60."),
        ({"cases": "one"}, "The option cases must be a list of ids, not 'one'."),
        ({"cases": [1]}, "The option cases must be a list of ids, not [1]."),
        ({"fail_on": "some"}, "The option fail_on must be `regression`, `scores` or `any`, not 'some'."),
        ({"baseline": 3}, "The option baseline must be a run's id, `baseline` or `previous`, not 3."),
    ],
)
def test_invalid_option_is_refused_before_anything_runs(tmp_path, options, message):
    with pytest.raises(Refused) as refusal:
        evaluate("s", agent=tmp_path, **options)
    assert message in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_devui_evalset_takes_no_baseline(tmp_path):
    with pytest.raises(Refused, match="devui_evalset has no option 'baseline': `evaluate` compares runs"):
        devui_evalset("s", agent=tmp_path, baseline="previous")


def test_public_names_of_the_package_exist():
    import devui.testing

    assert all(hasattr(devui.testing, name) for name in devui.testing.__all__)
    with pytest.raises(AttributeError):
        devui.testing.nothing  # noqa: B018 - the refusal is what is tried
