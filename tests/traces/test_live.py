"""Records of a live run: requests that ADK passes on, and responses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.genai import types

from sessions_app.adk import DjangoSessionService, Recorder
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event as Row
from sessions_app.store.models import ModelCall, Trace
from sessions_app.traces import model_calls
from tests.fake_models import LiveModel, call
from tests.patience import PATIENCE_S
from tests.sessions.build import APP, USER


def count(city: str) -> str:
    """Count the people of a city."""
    return f"{city}: 3"


async def speak(service: DjangoSessionService, model: LiveModel, *text: str) -> list[Event]:
    """Connect, type each text when the answer to the one before is complete, hang up, and return the events."""
    agent = LlmAgent(name="ann", model=model, instruction="Be kind.", tools=[count])
    runner = Runner(
        app=App(name=APP, root_agent=agent, plugins=[Recorder()]),
        session_service=service,
        auto_create_session=True,
    )
    queue, letters, events = LiveRequestQueue(), list(text), []

    def type_next() -> None:
        if letters:
            queue.send_content(types.Content(role="user", parts=[types.Part(text=letters.pop(0))]))
        else:
            queue.close()

    config = RunConfig(response_modalities=[types.Modality.TEXT])
    live = runner.run_live(user_id=USER, session_id="s1", live_request_queue=queue, run_config=config)
    type_next()
    async with runner, asyncio.timeout(PATIENCE_S):
        async for event in live:
            events.append(event)
            if event.turn_complete:
                type_next()
    return events


async def stored_calls() -> list[ModelCall]:
    return await units_of_work.read(lambda: list(ModelCall.objects.order_by("number")))


async def whole(row: ModelCall) -> dict[str, Any]:
    call_json: dict[str, Any] = await units_of_work.read(lambda: model_calls.call_json(row))
    return call_json


async def test_typed_input_is_stored_with_the_models_answer(ours):
    await speak(ours, LiveModel.saying("good morning", "good night"), "hi", "bye")
    rows = await stored_calls()
    assert [(row.number, row.agent, row.model) for row in rows] == [
        (1, "ann", "scripted-live"),
        (2, "ann", "scripted-live"),
    ]
    for row, typed, text in zip(rows, ("hi", "bye"), ("good morning", "good night"), strict=True):
        call_json = await whole(row)
        assert call_json["request"]["live"] is True
        assert [
            part["text"] for content in call_json["request"]["contents"] for part in content["parts"]
        ] == [typed]
        assert "Be kind." in call_json["request"]["system_instruction"]
        assert [tool["name"] for tool in call_json["request"]["tools"]] == ["count"]
        assert text in json.dumps(call_json["responses"])
        assert row.started_at <= row.first_at <= row.finished_at
        assert row.chunks == -(-len(text) // 3)


async def test_answer_events_link_to_their_input(ours):
    await speak(ours, LiveModel.saying("good morning"), "hi")

    def read_call_numbers() -> list[tuple[str, int | None]]:
        rows = Row.objects.select_related("session").order_by("seq")
        return [
            (row.author, call.number if (call := model_calls.find_event_call(row, row.session)) else None)
            for row in rows
        ]

    assert await units_of_work.read(read_call_numbers) == [("user", None), ("ann", 1), ("ann", 1)]


async def test_a_tool_that_is_called_aloud_answers_without_a_call_of_its_own(ours):
    await speak(ours, LiveModel.saying(call("count", city="Rome"), "three"), "how many?")
    [row] = await stored_calls()
    call_json = await whole(row)
    assert "functionCall" in json.dumps(call_json["responses"])
    assert "functionResponse" not in json.dumps(call_json["responses"])
    assert "three" in json.dumps(call_json["responses"])


async def test_broken_connection_keeps_the_input(ours):
    with pytest.raises(ValueError, match="out of words"):
        await speak(ours, LiveModel.saying(ValueError("out of words")), "hi")
    [row] = await stored_calls()
    assert row.response is None
    assert row.finished_at is not None, "nobody waits for it any more"
    trace = await units_of_work.read(Trace.objects.get)
    assert trace.finished_at is not None
    assert "failed" in [name for name, *_ in trace.decoded_stages]


async def test_adk_does_not_report_initial_live_input(ours):
    """The page says so: when this fails, ADK tells it."""
    first = LiveModel.saying("good morning")
    await speak(ours, first, "hi")
    again = LiveModel.saying("good night")
    await speak(ours, again, "bye")
    assert again.histories[0], "ADK sent what was said before"
    contents = (await whole((await stored_calls())[-1]))["request"]["contents"]
    assert [part["text"] for content in contents for part in content["parts"]] == ["bye"]
