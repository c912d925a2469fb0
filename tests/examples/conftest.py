"""The example agents, loaded as `adk web` loads them, and a helper to run one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from google.adk.agents import BaseAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.events.event import Event
from google.adk.runners import InMemoryRunner
from google.adk.sessions import Session
from google.genai import types

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENTS = EXAMPLES / "agents"
NAMES = ["office", "shop", "team", "weather", "writer"]
HELPER = "helper"
"""The agent that is not in the demo: its tools read the store of the server that runs it."""

DEMO: list[dict[str, Any]] = json.loads((EXAMPLES / "demo.json").read_text(encoding="utf-8"))

"""ADK itself copies these agents for every run and warns each time."""

Loader = Callable[[str], App]
"""Loads an example agent by its folder's name, wrapped in an App where it is not one already."""


class Chat:
    """Conversations with one example agent, on ADK's in-memory services."""

    def __init__(self, app: App) -> None:
        self.runner = InMemoryRunner(app=app)
        self.user, self.session = "", ""

    async def open(self, user: str, state: dict[str, Any] | None = None) -> None:
        """Start a new session: what is said next is said in it."""
        session = await self.runner.session_service.create_session(
            app_name=self.runner.app_name, user_id=user, state=state
        )
        self.user, self.session = user, session.id

    async def say(self, text: str, *, streaming: bool = False) -> list[Event]:
        """Send a text and return the events of the run, partial ones included."""
        return await self.send(types.Part(text=text), streaming=streaming)

    async def answer(self, event: Event, name: str, response: dict[str, Any]) -> list[Event]:
        """Answer the call of the tool `name` in the event, as a person would."""
        calls = next(call for call in event.get_function_calls() if call.name == name)
        function_response = types.FunctionResponse(id=calls.id, name=name, response=response)
        return await self.send(types.Part(function_response=function_response))

    async def send(self, *parts: types.Part, streaming: bool = False) -> list[Event]:
        """Send parts of any kind and return the events of the run."""
        config = RunConfig.model_validate({"streaming_mode": "sse"} if streaming else {})
        return [
            event
            async for event in self.runner.run_async(
                user_id=self.user,
                session_id=self.session,
                new_message=types.Content(role="user", parts=list(parts)),
                run_config=config,
            )
        ]

    async def state(self) -> dict[str, Any]:
        """The merged state of the session, as a new fetch gives it."""
        return (await self._fetch()).state

    async def events(self) -> list[Event]:
        """The stored events of the session, the user's included."""
        return (await self._fetch()).events

    async def _fetch(self) -> Session:
        session = await self.runner.session_service.get_session(
            app_name=self.runner.app_name, user_id=self.user, session_id=self.session
        )
        assert session is not None
        return session


def texts(events: list[Event], *, partial: bool = False, thought: bool = False) -> list[str]:
    """The texts of the events, without or with thoughts, from whole events or from chunks."""
    return [
        part.text
        for event in events
        if bool(event.partial) is partial
        for part in (event.content.parts if event.content else None) or []
        if part.text and bool(part.thought) is thought
    ]


def calls(events: list[Event]) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of every tool call, in order."""
    return [(call.name or "", call.args or {}) for event in events for call in event.get_function_calls()]


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVUI_EXAMPLE_DELAY_MS", "0")


@pytest.fixture(scope="package")
def load() -> Iterator[Loader]:
    """Load agents by name; afterwards nothing of them is left among this process's modules."""
    path, modules = list(sys.path), set(sys.modules)
    loader = AgentLoader(str(AGENTS))

    def app(name: str) -> App:
        loaded = loader.load_agent(name)
        if isinstance(loaded, App):
            return loaded
        assert isinstance(loaded, BaseAgent)
        return App(name=name, root_agent=loaded)

    app("weather")
    yield app
    sys.path[:] = path
    roots = {*NAMES, HELPER, "scripted_model"}
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in roots:
            del sys.modules[name]


class Chats(Protocol):
    """Opens a chat with an example agent, on empty services."""

    async def __call__(self, name: str, user: str = "aya", state: dict[str, Any] | None = None) -> Chat: ...


@pytest.fixture
def chats(load: Loader) -> Chats:
    """Open chats by the agent's name."""

    async def chat(name: str, user: str = "aya", state: dict[str, Any] | None = None) -> Chat:
        opened = Chat(load(name))
        await opened.open(user, state)
        return opened

    return chat
