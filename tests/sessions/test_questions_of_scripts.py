"""What a script with its own Runner leaves open is marked in lists, and answered from anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from sessions_app.adk import DjangoSessionService
from sessions_app.models import AgentSession, Event, Run
from sessions_app.runs import lifecycle, processes
from sessions_app.search.query import parse
from sessions_app.sessions import listing
from sessions_app.store import units_of_work
from tests.fake_models import ScriptedModel, call
from tests.sessions.build import APP, USER


def ask_boss(what: str) -> None:
    """Ask somebody who answers later."""


Script = Callable[..., Any]


@pytest.fixture
def script(store: None) -> Script:
    """Run a turn of an agent as a script does, on the session `s1` of a realm."""
    model = ScriptedModel.saying(call("ask_boss", "c1", what="leave"), "I have asked.", "Thank you.", "Bye.")
    agent = LlmAgent(name="clerk", model=model, tools=[LongRunningFunctionTool(ask_boss)])

    async def run(*parts: types.Part, service: DjangoSessionService | None = None) -> Runner:
        runner = Runner(
            app=App(name=APP, root_agent=agent),
            session_service=service or DjangoSessionService(),
            auto_create_session=True,
        )
        message = types.Content(role="user", parts=list(parts))
        async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=message):
            pass
        return runner

    return run


ASK = types.Part(text="May I leave?")
ANSWER = types.Part(function_response=types.FunctionResponse(id="c1", name="ask_boss", response={"ok": True}))


class OfRuntime(DjangoSessionService):
    """The service of one of our own processes, whose runs have rows."""

    notes_questions = False


async def waiting() -> list[str]:
    """Return the sessions that a search finds waiting, by how lists mark them."""

    def read() -> list[str]:
        found = listing.list_page(listing.SessionFilter(query=parse("is:waiting"))).rows
        return [row.run_status for row in found]

    return await units_of_work.read(read)


async def test_a_question_is_marked_and_an_answer_takes_the_mark_away(script: Script):
    await script(ASK)
    [run] = await units_of_work.read(lambda: list(Run.objects.all()))
    asking = await units_of_work.read(lambda: Event.objects.get(kind="tool_call"))
    assert (run.status, run.source, run.invocation_id) == ("waiting", "script", asking.invocation_id)
    assert (run.first_seq, run.last_seq) == (asking.seq - 1, asking.seq)
    assert await waiting() == ["waiting"]
    await script(ANSWER)
    assert await waiting() == []
    assert await units_of_work.read(lambda: Run.objects.get().status) == "done"


async def test_answer_from_a_page_clears_the_question(script: Script):
    await script(ASK)
    pk = await units_of_work.read(lambda: AgentSession.objects.get().pk)
    await units_of_work.write(processes.register, "r1", APP, os.getpid(), "v1")
    run = await units_of_work.write(lifecycle.create_run, pk, {})
    await units_of_work.write(lifecycle.claim, run.pk, "r1", "v1")
    await script(ANSWER, service=OfRuntime())
    assert await units_of_work.read(Run.objects.filter(status="waiting").exists)
    await units_of_work.write(lifecycle.finish, run.pk, Run.Status.DONE)
    assert await waiting() == []


async def test_a_rewind_takes_the_question_back(script: Script):
    runner = await script(ASK)
    invocation = await units_of_work.read(lambda: Run.objects.get().invocation_id)
    await runner.rewind_async(user_id=USER, session_id="s1", rewind_before_invocation_id=invocation)
    assert await waiting() == []


async def test_question_of_own_run_is_listed_once(script: Script):
    """The process that runs the agent writes at the run's end that it waits."""
    await script(ASK, service=OfRuntime())
    assert not await units_of_work.read(Run.objects.exists)
    event = await units_of_work.read(lambda: Event.objects.get(kind="tool_call"))
    own = await units_of_work.write(lifecycle.create_run, event.session_id, {})
    await units_of_work.write(lifecycle.record_invocation, own.pk, event.invocation_id)
    assert not await units_of_work.write(
        lifecycle.record_question, event.session_id, event.invocation_id, event.seq
    )
    assert await units_of_work.read(Run.objects.count) == 1


async def test_eval_attempts_are_never_marked_as_waiting(script: Script):
    await script(ASK, service=DjangoSessionService("eval/r1/c1/1"))
    assert not await units_of_work.read(Run.objects.exists)


async def test_failing_mark_fails_no_event(script: Script, monkeypatch, caplog):
    def broken(*args: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(lifecycle, "record_question", broken)
    await script(ASK)
    assert await units_of_work.read(lambda: AgentSession.objects.get().last_seq) == 2
    assert "could not be kept" in caplog.text
