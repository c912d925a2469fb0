"""Agents that run on ADK's own Runner over a store whose threads end with the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.genai import types

from sessions_app.adk import DjangoSessionService, Recorder
from sessions_app.store.database import units_of_work
from sessions_app.store.traces import outbox
from tests.sessions.build import APP, USER

Ask = Callable[..., Awaitable[list[Event]]]


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store that other threads see."""
    yield
    outbox.close()
    units_of_work.close_pools()


@pytest.fixture
def ours(store: None) -> DjangoSessionService:
    """DevUI's session service."""
    return DjangoSessionService()


@pytest.fixture
async def ask(ours: DjangoSessionService) -> Ask:
    """Run a turn of an agent on the session `s1`, which is made when it is not there, and return its events."""

    async def ask(
        agent: BaseAgent, text: str = "go", *, streaming: bool = False, **fields: Any
    ) -> list[Event]:
        app = App(name=APP, root_agent=agent, plugins=fields.pop("plugins", None) or [Recorder()])
        config = RunConfig(streaming_mode=StreamingMode.SSE if streaming else StreamingMode.NONE)
        runner = Runner(app=app, session_service=fields.pop("service", ours), auto_create_session=True)
        async with runner:
            stream = runner.run_async(
                user_id=USER,
                session_id="s1",
                new_message=types.Content(role="user", parts=[types.Part(text=text)]),
                run_config=config,
                **fields,
            )
            return [event async for event in stream]

    return ask
