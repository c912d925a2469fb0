"""Scripts with their own Runner answer and rewind the questions of runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from sessions_app.adk import DjangoSessionService
from sessions_app.runs import lifecycle
from sessions_app.search.query.parsing import parse
from sessions_app.sessions import listing
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.store.runs import session_runs
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
    """The service of a runtime, which records at the end of a run what it waits for."""

    ends_waiting_runs = False


async def run_that_waits(script: Script) -> Run:
    """Return a run that waits for the answer to `ask_boss`."""
    await script(ASK, service=OfRuntime())
    event = await units_of_work.read(lambda: Event.objects.get(kind="tool_call"))
    run = await units_of_work.write(lifecycle.create_run, event.session_id, {})
    await units_of_work.write(lifecycle.claim, run.pk, None, "v1")
    await units_of_work.write(
        partial(lifecycle.finish, run.pk, Run.Status.WAITING, invocation_id=event.invocation_id)
    )
    return await units_of_work.read(lambda: Run.objects.get())


async def waiting() -> list[str]:
    """Return how lists mark the sessions that wait."""

    def read() -> list[str]:
        rows = listing.list_page(listing.SessionFilter(query=parse("is:waiting"))).rows
        return [row.run_status for row in rows]

    return await units_of_work.read(read)


async def test_answer_ends_the_waiting_run(script: Script):
    await run_that_waits(script)
    assert await waiting() == ["waiting"]
    await script(ANSWER)
    assert await waiting() == []
    assert await units_of_work.read(lambda: Run.objects.get().status) == "done"


async def test_rewind_ends_the_waiting_run(script: Script):
    run = await run_that_waits(script)
    runner = await script(types.Part(text="Bye."))
    assert await waiting() == ["waiting"]
    await runner.rewind_async(user_id=USER, session_id="s1", rewind_before_invocation_id=run.invocation_id)
    assert await waiting() == []


async def test_failure_to_end_the_run_fails_no_event(script: Script, monkeypatch, caplog):
    def broken(*args: Any) -> None:
        raise RuntimeError("no room")

    await run_that_waits(script)
    monkeypatch.setattr(session_runs, "finish_answered", broken)
    await script(ANSWER)
    assert await units_of_work.read(lambda: AgentSession.objects.get().last_seq) > 2
    assert "could not be ended" in caplog.text
