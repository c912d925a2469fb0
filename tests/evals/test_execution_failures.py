"""Failures of one attempt affect no other; they are reported, and the run's summary is right."""

from __future__ import annotations

import asyncio

import pytest
from google.adk.apps.app import App

from evals_app.execution import executor
from evals_app.execution.run_execution import execute_run
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import rerun
from evals_app.runs.writes import runs
from sessions_app.store.database import units_of_work
from tests.evals import agents
from tests.evals.builders import case, evalset, turn

Status = EvalAttempt.Status


def by_case(run):
    return {attempt.case_id: attempt for attempt in run.attempts.order_by("repetition")}


async def test_an_agent_that_raises_spoils_only_its_own_attempt(play):
    def answer(ctx, text):
        if text == "break":
            raise RuntimeError("the printer is on fire")
        return "fine"

    run = await play(evalset(case("good", turn("go", "fine")), case("bad", turn("break", "fine"))), answer)
    attempts = await units_of_work.read(by_case, run)
    assert (run.status, run.passed, run.errors) == (EvalRun.Status.DONE, 1, 1)
    assert attempts["bad"].error_type == "RuntimeError"
    assert attempts["bad"].error == "the printer is on fire"
    assert "raise RuntimeError" in attempts["bad"].traceback
    assert attempts["bad"].session_id is not None


async def test_empty_agent_response_is_reported_on_the_case(play):
    def silent(ctx, text):
        return None if text == "hush" else "fine"

    run = await play(evalset(case("a", turn("go", "fine"), turn("hush", "fine"))), silent)
    attempt = (await units_of_work.read(by_case, run))["a"]
    assert attempt.status == Status.ERROR
    assert attempt.error.startswith("The agent answered 1 of 2 turns")


async def test_missing_expected_response_is_scored_like_adk(play):
    run = await play(evalset(case("a", turn("go"))), lambda ctx, text: "fine")

    def reason():
        return run.attempts.get().results.get(metric="response_match_score", invocation=None).reason

    assert run.failed == 1
    assert await units_of_work.read(reason) == "No answer is expected in turn 1, which scores 0."


async def test_an_agent_that_hangs_is_cancelled(play):
    agent, cancelled = agents.Hanging(), asyncio.Event()

    async def cancel():
        await agent.hangs.wait()
        cancelled.set()

    cases = [
        case("good", turn("go", "fine")),
        case("hangs", turn("hang", "fine")),
        case("waits", turn("go", "fine")),
    ]
    canceller = asyncio.create_task(cancel())
    run = await play(evalset(*cases), agent.answer, cancelled=cancelled, parallelism=1)
    await canceller
    attempts = await units_of_work.read(by_case, run)
    assert run.status == EvalRun.Status.CANCELLED
    assert {name: attempt.status for name, attempt in attempts.items()} == {
        "good": Status.PASSED,
        "hangs": Status.CANCELLED,
        "waits": Status.CANCELLED,
    }
    assert attempts["hangs"].session_id is not None
    assert (run.passed, run.cancelled, run.finished) == (1, 2, 3)


async def test_a_run_is_cancelled_by_its_row_from_another_process(play):
    agent = agents.Hanging()

    async def ask():
        await agent.hangs.wait()
        run_id = await units_of_work.read(EvalRun.objects.values_list("pk", flat=True).get)
        await units_of_work.write(runs.begin_cancel, run_id)

    asking = asyncio.create_task(ask())
    run = await play(evalset(case("a", turn("hang", "fine"))), agent.answer)
    await asking
    assert run.status == EvalRun.Status.CANCELLED


async def test_an_agent_that_does_not_let_go_is_left_behind(play, monkeypatch):
    monkeypatch.setattr(executor, "CANCEL_GRACE_S", 0.05)
    cancelled, stubborn = asyncio.Event(), asyncio.Event()

    async def cling(ctx, text):
        cancelled.set()
        while not stubborn.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "late"

    run = await play(evalset(case("a", turn("go", "fine"))), cling, cancelled=cancelled)
    stubborn.set()
    assert (run.status, run.cancelled) == (EvalRun.Status.CANCELLED, 1)


async def test_a_run_is_carried_out_once(play, folder):
    run = await play(evalset(case("a", turn("go", "fine"))), lambda ctx, text: "fine")
    before = run.revision
    await execute_run(run.id, agents.source(lambda ctx, user_text: "fine"), asyncio.Event())
    assert (
        await units_of_work.read(EvalRun.objects.values_list("revision", flat=True).get, pk=run.id) == before
    )


async def test_an_agent_that_cannot_be_loaded_fails_the_run_with_its_traceback(play, monkeypatch):
    def broken(self):
        raise ImportError("No module named 'numpyy'")

    monkeypatch.setattr(agents.Source, "load", broken)
    run = await play(evalset(case("a", turn("go", "fine"))), lambda ctx, text: "fine")
    assert (run.status, run.error_type, run.cancelled) == (EvalRun.Status.FAILED, "ImportError", 1)
    assert "numpyy" in run.error
    assert "def broken" in run.traceback or "raise ImportError" in run.traceback


async def test_unreadable_criterion_fails_the_run_before_any_attempt(play):
    requests = []
    run = await play(
        evalset(case("a", turn("go", "fine"))),
        lambda ctx, text: requests.append(text),
        {"rubric_based_tool_use_quality_v1": {"threshold": 1.0, "rubrics": "be polite"}},
    )
    assert (run.status, requests) == (EvalRun.Status.FAILED, [])
    assert "rubrics" in run.error
    assert "rubrics" in run.hint
    assert run.traceback == ""


async def test_executed_attempts_are_recorded(play):
    run = await play(evalset(case("a", turn("go", "fine"))), lambda ctx, text: "fine")
    assert run.code_version == "v1"
    assert run.adk_version.startswith("2.")
    assert run.git_revision == ""


async def test_progress_is_reported_as_it_happens(play):
    messages = []
    document = evalset(case("a", turn("go", "fine")), case("b", turn("go", "fine")))
    await play(
        document,
        lambda ctx, text: "fine",
        parallelism=1,
        progress=lambda attempt, outcome: messages.append((attempt.case_id, outcome and outcome.status)),
    )
    assert messages == [("a", None), ("a", "passed"), ("b", None), ("b", "passed")]


async def test_credentials_in_agent_messages_are_not_stored_in_results(play):
    secret = {"auth_type": "apiKey", "api_key": "hunter2"}

    def leaks(ctx, text):
        return [agents.calls("log_in", credential=secret), "fine"]

    run = await play(evalset(case("a", turn("go", "fine"))), leaks)
    attempt = (await units_of_work.read(by_case, run))["a"]
    assert "log_in" in attempt.actual
    assert "hunter2" not in attempt.actual


@pytest.mark.parametrize("metric", ["tool_trajectory_avg_score", "response_match_score"])
async def test_case_without_turns_is_reported(play, metric):
    run = await play(evalset(case("a")), lambda ctx, text: "fine", {metric: 0.5})
    attempt = (await units_of_work.read(by_case, run))["a"]
    assert attempt.status == Status.INCOMPLETE
    result = await units_of_work.read(attempt.results.get, metric=metric, invocation=None)
    assert result.reason == "The case has no turns: there is nothing to judge."


async def test_a_case_that_names_no_app_is_refused_as_by_adk_but_for_an_app(play, folder):
    start = {"app_name": "", "user_id": "u", "state": {}}
    document = evalset(case("a", turn("go", "fine"), session_input=start))
    run = await play(document, lambda ctx, text: "fine")
    attempt = (await units_of_work.read(by_case, run))["a"]
    assert attempt.status == Status.ERROR
    assert attempt.error.startswith("session_input.app_name of the case is empty: app_name is required")

    class AppSource(agents.Source):
        def load(self):
            return self.agent, App(name="counter", root_agent=self.agent)

    ordered = await units_of_work.write(rerun.repeat, run)
    agent = agents.Scripted(name="counter", answer=lambda ctx, user_text: "fine")
    await execute_run(ordered.pk, AppSource(agent, folder=folder), asyncio.Event())
    assert (await units_of_work.read(EvalRun.objects.get, pk=ordered.pk)).passed == 1
