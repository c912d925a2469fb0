"""Toolsets that fail to load: warnings on the run, the session and the agent page."""

from __future__ import annotations

from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from sessions_app.adk import DjangoSessionService, Recorder
from sessions_app.problems import session_checks
from sessions_app.runs import lifecycle as runs
from sessions_app.search import indexing as search_indexing
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.timeline_reader import read_timeline
from sessions_app.traces.lost_toolsets import read_lost_toolsets
from tests.fake_models import ScriptedModel, call
from tests.pages.html import parse
from tests.sessions.build import APP, USER, create

LOST = "DeadToolset of agent agent: Connection closed"


class DeadToolset(BaseToolset):
    """A toolset whose server is not there."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        raise ConnectionError("Connection closed")


def look() -> str:
    """Look somewhere."""
    return "nothing"


async def converse(*turns: Any, toolsets: tuple[BaseToolset, ...] = (DeadToolset(),)) -> AgentSession:
    """Run one turn of an agent with toolsets, and return its session's row."""
    service = DjangoSessionService()
    await create(service)
    agent = LlmAgent(name="agent", model=ScriptedModel.saying(*turns), tools=[look, *toolsets])
    message = types.Content(role="user", parts=[types.Part(text="go")])
    app = App(name=APP, root_agent=agent, plugins=[Recorder()])
    async with Runner(app=app, session_service=service) as runner:
        async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=message):
            pass
    return await units_of_work.read(AgentSession.objects.get)


def lost_in(session: AgentSession) -> dict[tuple[int, str], list[str]]:
    return read_lost_toolsets([(session.pk, invocation_of(session))])


def index() -> None:
    """Index and check all sessions, as the web process does."""
    search_indexing.index_all()
    session_checks.check_all()


def invocation_of(session: AgentSession) -> str:
    return session.events.order_by("seq")[0].invocation_id


async def test_toolset_that_fails_to_load_is_recorded_once(store):
    session = await converse([call("look")], "Nothing found.")

    assert list((await units_of_work.read(lost_in, session)).values()) == [[LOST]]


async def test_toolset_that_loads_is_no_warning(store):
    session = await converse("Nothing to do.", toolsets=())
    assert await units_of_work.read(lost_in, session) == {}


async def test_session_page_warns_of_lost_toolsets(store):
    session = await converse("Nothing to do.")
    await units_of_work.write(index)
    timeline = await units_of_work.read(lambda: read_timeline(session, windows.newest(session)))
    [group] = timeline.groups
    assert [problem.row.text for problem in group.problems] == [f"{LOST}."]


async def test_pages_and_api_warn_of_lost_toolsets(store, async_client):
    session = await converse("Nothing to do.")

    def finished_run() -> str:
        run = runs.create_run(session.pk, {})
        runs.record_invocation(run.pk, invocation_of(session))
        runs.finish(run.pk, "done")
        return run.pk

    run_id = await units_of_work.write(finished_run)
    await units_of_work.write(index)
    for page in ("/runs/", f"/sessions/id/{session.pk}/", f"/agents/{APP}/"):
        response = await async_client.get(page)
        assert response.status_code == 200, page
        assert "Toolset failed to load" in parse(response.content).text, page
    answer = (await async_client.get(f"/api/v1/runs/{run_id}")).json()
    assert (answer["status"], answer["lost_toolsets"]) == ("done", [LOST])
