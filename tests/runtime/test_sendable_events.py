"""Events that ADK cannot serialize reach clients in their stored form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from devui.runtime.sendable_events import to_sendable
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Run
from tests.runtime.conftest import Stage, read_events

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = ["answer_half", "answer_object", "answer_deep", "write_half", "write_object", "write_deep"]


def strict(text: str) -> Any:
    """Read JSON as a browser does, which knows no NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


async def stored_agent_events(session: AgentSession) -> list[dict[str, Any]]:
    """Return the stored events that are the agent's."""
    return [json.loads(row.data) for row in await read_events(session) if row.author != "user"]


@pytest.mark.parametrize("tool", HOSTILE)
async def test_run_returns_stored_events_that_adk_cannot_serialize(stage: Stage, tool):
    session = await stage.session("trouble")

    status, text = await stage.ask(session, f"call {tool}")

    assert status == 200, text
    assert strict(text) == await stored_agent_events(session)
    assert (await units_of_work.read(Run.objects.get, session=session)).status == Run.Status.DONE


@pytest.mark.parametrize("tool", HOSTILE)
async def test_run_sse_continues_after_unserializable_event(stage: Stage, tool):
    session = await stage.session("trouble")

    status, text = await stage.ask(session, f"call {tool}", "/run_sse")

    frames = [strict(line.removeprefix("data: ")) for line in text.splitlines() if line]
    assert status == 200
    assert frames == await stored_agent_events(session)
    assert len(frames) == 3
    assert (await units_of_work.read(Run.objects.get, session=session)).status == Run.Status.DONE


async def test_lone_surrogate_is_sent_as_stored(stage: Stage):
    session = await stage.session("trouble")

    _, text = await stage.ask(session, "call answer_half")

    response = strict(text)[1]["content"]["parts"][0]["functionResponse"]["response"]
    assert response == {"text": "half \N{REPLACEMENT CHARACTER}"}


async def test_an_event_that_adk_can_write_is_sent_as_it_is():
    event = Event(author="a", actions=EventActions(state_delta={"n": 1, "user:list": [None, {"a": 1.5}]}))
    assert to_sendable(event) is event


@pytest.mark.parametrize("text", ["half \ud83d", "\udc00"])
async def test_a_chunk_that_ends_in_half_a_character_is_sent_without_it(text):
    part = types.Part(text="x")
    part.text = text
    chunk = Event(author="a", partial=True, content=types.Content(role="model", parts=[part]))

    sendable_chunk = to_sendable(chunk)

    assert (sendable_chunk.id, sendable_chunk.partial, sendable_chunk.author) == (chunk.id, True, "a")
    assert sendable_chunk.content.parts[0].text == text[:-1] + "\N{REPLACEMENT CHARACTER}"
    assert chunk.content.parts[0].text == text, "the agent's own event is left alone"


async def test_an_event_that_is_none_is_left_to_adk():
    event = Event(author="a")
    event.content = "no content at all"
    assert to_sendable(event) is event


async def test_message_with_lone_surrogate_is_run_and_stored(stage: Stage):
    session = await stage.session("trouble")

    status, text = await stage.ask(session, "Hello \ud800")

    assert status == 200, text
    first = (await read_events(session))[0]
    assert json.loads(first.data)["content"]["parts"] == [{"text": "Hello \N{REPLACEMENT CHARACTER}"}]


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_run_on_impossible_session_id_is_404(stage: Stage, path):
    nobody = AgentSession(app_name="trouble", user_id="\ud800", session_id="s1")

    status, text = await stage.ask(nobody, "Hello", path)

    assert status == 404, text


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([{"author": "a", "id": "a\x00b"}], "contains a NUL"),
        (
            [{"author": "a", "id": "same", "timestamp": 1}, {"author": "b", "id": "same", "timestamp": 2}],
            "already stored",
        ),
    ],
    ids=["an id with NUL", "one id twice"],
)
async def test_events_that_the_store_refuses_are_the_callers_mistake(stage: Stage, events, words):
    client = await stage.supervisor.client("trouble")
    content = json.dumps({"events": events}).encode()
    path, headers = "/apps/trouble/users/ann/sessions", {"Content-Type": "application/json"}
    async with client.open("POST", path, headers=headers, content=content) as answer:
        status, text = answer.status_code, (await answer.aread()).decode()

    assert status == 400, text
    assert words in text


@pytest.mark.parametrize("value", ["NaN", "1e999", '"half \\ud800"', '{"deep": [NaN, "\\ud800"]}'])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/apps/trouble/users/ann/sessions/s1/artifacts"),
        ("PATCH", "/apps/trouble/users/ann/memory"),
        ("POST", "/run"),
        ("PUT", "/dev/apps/trouble/tests/one"),
    ],
)
async def test_refusal_repeats_input_as_valid_json(stage: Stage, method, path, value):
    client = await stage.supervisor.client("trouble")
    content, headers = f'{{"unknown": {value}}}'.encode(), {"Content-Type": "application/json"}
    async with client.open(method, path, headers=headers, content=content) as answer:
        status, text = answer.status_code, (await answer.aread()).decode()

    assert status == 422, text
    assert strict(text)["detail"]


async def test_a_refusal_names_a_session_that_no_text_can_name(stage: Stage):
    nobody = AgentSession(app_name="trouble", user_id="ann", session_id="half \ud800")

    status, text = await stage.ask(nobody, "Hello")

    assert status == 404, text
    assert "half \N{REPLACEMENT CHARACTER}" in strict(text)["detail"]
