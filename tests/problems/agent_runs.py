"""Runs of agents with ADK's own Runner and the recorder, and the problems of their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig, ResumabilityConfig
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.genai import types

from sessions_app.adk import DjangoSessionService, Recorder
from sessions_app.problems import session_checks
from sessions_app.search import indexing as search_indexing
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, SessionProblem
from tests.fake_models import ScriptedModel
from tests.sessions.build import APP, USER, create


async def converse(
    *turns: Any,
    tools: Sequence[Any] = (),
    messages: Sequence[str | types.Part] = ("go",),
    plugins: Sequence[BasePlugin] = (),
    run_config: RunConfig | None = None,
    model: ScriptedModel | None = None,
    root: BaseAgent | None = None,
    compaction: EventsCompactionConfig | None = None,
    resumability: ResumabilityConfig | None = None,
    **agent: Any,
) -> AgentSession:
    """Send messages to an agent with a scripted model, and return its session. An exception ends a run."""
    service = DjangoSessionService()
    await create(service)
    fields = {"name": "agent", "model": model or ScriptedModel.saying(*turns), "tools": list(tools), **agent}
    app = App(
        name=APP,
        root_agent=root or LlmAgent(**fields),
        plugins=[Recorder(), *plugins],
        events_compaction_config=compaction,
        resumability_config=resumability,
    )
    runner = Runner(app=app, session_service=service, memory_service=InMemoryMemoryService())
    async with runner:
        for each in messages:
            part = types.Part(text=each) if isinstance(each, str) else each
            message = types.Content(role="user", parts=[part])
            with suppress(Exception):
                async for _ in runner.run_async(
                    user_id=USER, session_id="s1", new_message=message, run_config=run_config
                ):
                    pass
    return await units_of_work.read(lambda: AgentSession.objects.get(realm=""))


async def find_problems(session: AgentSession) -> list[SessionProblem]:
    """Index a session as the web process does, and return the problems of its invocations in order."""

    def index() -> None:
        search_indexing.index_all()
        session_checks.check_all()

    await units_of_work.write(index)
    return await units_of_work.read(
        lambda: list(session.problems.filter(scope="invocation").order_by("seq", "pk"))
    )


async def codes_of(session: AgentSession) -> list[str]:
    """Return the codes of a session's problems, sorted."""
    return sorted(problem.code for problem in await find_problems(session))
