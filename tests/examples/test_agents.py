"""All example agents: they load cleanly, stream, and do the same every time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.events.event import Event

from tests import forked_processes
from tests.examples.conftest import AGENTS, DEMO, HELPER, NAMES, Chat, Chats, texts

LOAD_ALL = """
import logging, sys, warnings
logging.basicConfig(level=logging.WARNING)
warnings.simplefilter("always")
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
folder, *names = sys.argv[1:]
for name in names:
    loaded = AgentLoader(folder).load_agent(name)
    InMemoryRunner(app=loaded) if isinstance(loaded, App) else InMemoryRunner(agent=loaded, app_name=name)
    print(name)
"""


def test_loader_lists_agents_without_their_shared_model() -> None:
    assert AgentLoader(str(AGENTS)).list_agents() == [HELPER, *NAMES]


def test_every_agent_loads_and_gets_a_runner_without_a_warning() -> None:
    done = _python(LOAD_ALL, str(AGENTS), HELPER, *NAMES)
    assert done.stdout.split() == [HELPER, *NAMES]
    assert done.stderr == ""


def test_folder_of_one_agent_can_be_served(tmp_path: Path) -> None:
    code = "import sys; from google.adk.cli.utils.agent_loader import AgentLoader as Loader\n"
    code += "print(Loader(sys.argv[1]).load_agent('weather').name)"
    done = forked_processes.run([sys.executable, "-c", code, str(AGENTS / "weather")], cwd=tmp_path)
    assert done.stdout == "weather\n"


def _python(code: str, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *args], cwd=cwd, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("name", NAMES)
async def test_streaming_gives_chunks_and_then_the_same_text_whole(chats: Chats, name: str) -> None:
    chat = await chats(name)
    events = await chat.say("Hello", streaming=True)
    chunks = texts(events, partial=True)
    assert len(chunks) > 1
    assert "".join(chunks) == texts(events)[-1]
    assert not events[-1].partial


@pytest.mark.parametrize("name", NAMES)
async def test_without_streaming_there_are_no_chunks(chats: Chats, name: str) -> None:
    chat = await chats(name)
    assert not any(event.partial for event in await chat.say("Hello"))


def test_the_demo_shows_every_agent_but_the_helper_in_eight_to_twelve_sessions() -> None:
    assert {talk["app"] for talk in DEMO} == set(NAMES)
    assert 8 <= len({(talk["app"], talk["user"], talk["session_id"]) for talk in DEMO}) == len(DEMO) <= 12
    assert any(talk.get("streaming") for talk in DEMO)


@pytest.mark.parametrize("talk", DEMO, ids=lambda talk: f"{talk['app']}-{talk['user']}-{talk['session_id']}")
async def test_a_demo_conversation_is_the_same_in_two_runs(chats: Chats, talk: dict[str, Any]) -> None:
    assert await _play(chats, talk) == await _play(chats, talk)


async def _play(chats: Chats, talk: dict[str, Any]) -> list[str]:
    """What a conversation shows, without what is new in every run: ids and times."""
    chat: Chat = await chats(talk["app"], user=talk["user"], state=talk.get("state"))
    descriptions: list[str] = []
    for text in talk["turns"]:
        try:
            descriptions += [
                _describe_event(event)
                for event in await chat.say(text, streaming=talk.get("streaming", False))
            ]
        except RuntimeError as error:
            descriptions.append(f"raised {error}")
    return [*descriptions, json.dumps(await chat.state())]


def _describe_event(event: Event) -> str:
    parts = (event.content.parts if event.content else None) or []
    parts_shown = [(part.text, part.thought) for part in parts]
    calls = [
        (call.name, call.args)
        for call in event.get_function_calls()
        if call.name != "adk_request_confirmation"
    ]
    names = [response.name for response in event.get_function_responses()]
    tokens = event.usage_metadata and event.usage_metadata.total_token_count
    return repr((event.author, event.branch, event.partial, parts_shown, calls, names, tokens))
