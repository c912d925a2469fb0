"""Evalsets in a test suite: a test for every case, results as values, no side effects on the suite."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from devui.testing import AttemptResult, CaseResult, Results, Score
from tests.evals.builders import case, evalset, turn, write
from tests.evals.pytest_suites import ROOT, SUITE_ARGUMENTS, run_pytest, start_pytest, write_test


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


@pytest.mark.soak
def test_beside_other_processes_every_test_runs_its_own_case(suite):
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS})")
    done = run_pytest(suite, "-n", "2", "-p", "xdist")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr


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
    assert "2 of 3 cases passed" in results.summary

def test_cases():
    assert evaluate("s", {SUITE_ARGUMENTS}, cases=["a"]).passed
""",
    )
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
    ],
)
def test_unrunnable_evalset_is_reported_by_the_suite(suite, test, message):
    write_test(suite, test)
    done = run_pytest(suite)
    assert done.returncode != 0
    assert message in done.stdout


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
def test_interrupted_suite_cancels_its_run(suite):
    agent = suite / "agents" / "echo"
    (agent / "agent.py").write_text(SLOW)
    write_test(suite, f"test_echo = devui_evalset('s', {SUITE_ARGUMENTS})")
    process = start_pytest(suite)
    deadline = time.monotonic() + 60
    while not (agent / "started").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    with contextlib.closing(sqlite3.connect(suite / ".devui" / "devui.sqlite3")) as store:
        assert store.execute("SELECT status, finished_at > 0 FROM evals_app_evalrun").fetchall() == [
            ("cancelled", 1)
        ]


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
    assert (whole.passed, whole.pass_rate) == (False, 0.5)
    assert not Results("r", "done").passed
    assert not Results("r", "stopped", [CaseResult("e", [attempt("passed")])]).passed
    with pytest.raises(KeyError):
        whole["nobody"]


def test_public_names_of_the_package_exist():
    import devui.testing

    assert all(hasattr(devui.testing, name) for name in devui.testing.__all__)
    with pytest.raises(AttributeError):
        devui.testing.nothing  # noqa: B018 - the refusal is what is tried
