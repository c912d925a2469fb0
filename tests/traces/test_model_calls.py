"""Model calls as the recorder stores them, in runs on ADK's own Runner."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from django.db import DatabaseError
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessions_app.adk import MirroredSessionService, Recorder, invocation_log
from sessions_app.branches.fork import NewFork, fork
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, ModelCall, ModelPiece, Trace
from sessions_app.store.traces import records
from sessions_app.store.traces.outbox import outbox
from sessions_app.traces import model_calls
from tests.fake_models import ScriptedModel, call


def count(city: str, tool_context: ToolContext) -> str:
    """Count the people of a city."""
    return f"{city}: 3"


async def stored_calls() -> list[ModelCall]:
    return await units_of_work.read(lambda: list(ModelCall.objects.order_by("invocation_id", "number")))


async def whole(row: ModelCall) -> dict[str, Any]:
    return await units_of_work.read(lambda: model_calls.request_json(row))


async def answer(row: ModelCall) -> list[dict[str, Any]]:
    return await units_of_work.read(lambda: model_calls.responses(row))


def texts(request: dict[str, Any]) -> list[str]:
    return [part.get("text", "") for content in request["contents"] for part in content["parts"]]


async def test_request_is_stored_completely_with_its_response(ask):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hello"),
        instruction="Be kind.",
        tools=[count],
        generate_content_config=types.GenerateContentConfig(temperature=0.5),
    )
    await ask(agent, "hi")
    [row] = await stored_calls()
    request = await whole(row)
    assert (row.agent, row.model, row.number) == ("ann", "scripted", 1)
    assert "Be kind." in request["system_instruction"]
    assert texts(request) == ["hi"]
    assert [tool["name"] for tool in request["tools"]] == ["count"]
    assert "city" in json.dumps(request["tools"])
    assert request["config"]["temperature"] == 0.5
    [response] = await answer(row)
    assert response["content"]["parts"] == [{"text": "hello"}]
    assert row.started_at <= row.first_at <= row.finished_at


async def test_each_call_links_to_its_event(ask):
    agent = LlmAgent(
        name="ann", model=ScriptedModel.saying(call("count", city="Rome"), "three"), tools=[count]
    )
    await ask(agent)

    def read_call_numbers() -> list[tuple[str, int | None]]:
        session = AgentSession.objects.get()
        events = Event.objects.filter(session=session).order_by("seq")
        return [
            (event.kind, item.number if (item := model_calls.find_event_call(event, session)) else None)
            for event in events
        ]

    assert await units_of_work.read(read_call_numbers) == [
        ("user", None),
        ("tool_call", 1),
        ("tool_result", None),
        ("agent", 2),
    ]


async def test_repeated_request_parts_are_stored_once(ask):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(*["yes"] * 30), instruction="Be kind.")
    for number in range(30):
        await ask(agent, f"question {number}")
    stored = await units_of_work.read(lambda: list(ModelPiece.objects.values_list("body", flat=True)))
    assert len([body for body in stored if "question" in body]) == 30
    assert len([body for body in stored if "Be kind." in body]) == 1
    rows = await stored_calls()
    last = max(rows, key=lambda row: row.pk)
    assert texts(await whole(last))[::2] == [f"question {number}" for number in range(30)]


async def test_request_is_recorded_after_callbacks(ask):
    def add(callback_context, llm_request) -> None:
        llm_request.config.system_instruction = "changed by a callback"

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("yes"), before_model_callback=add)
    await ask(agent)
    [row] = await stored_calls()
    assert (await whole(row))["system_instruction"] == "changed by a callback"


async def test_callback_response_in_place_of_the_model_is_marked(ask):
    def answer_itself(callback_context, llm_request) -> LlmResponse:
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="no need")]))

    agent = LlmAgent(name="ann", model=ScriptedModel.saying(), before_model_callback=answer_itself)
    await ask(agent)
    [row] = await stored_calls()
    assert row.by_callback
    assert row.response is None
    assert row.event_id


async def test_a_model_that_raises_leaves_its_request_and_its_error(ask):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(ValueError("out of words")))
    with pytest.raises(ValueError, match="out of words"):
        await ask(agent, "hi")
    [row] = await stored_calls()
    assert (row.error_type, row.error) == ("ValueError", "out of words")
    assert texts(await whole(row)) == ["hi"]


async def test_streamed_response_is_stored_whole_with_chunk_count(ask):
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("good morning")), streaming=True)
    [row] = await stored_calls()
    assert row.chunks == 4
    [response] = await answer(row)
    assert response["content"]["parts"] == [{"text": "good morning"}]


async def test_pending_request_is_stored(ask):
    meanwhile: list[Any] = []

    class Slow(ScriptedModel):
        async def generate_content_async(self, llm_request, stream=False):
            await asyncio.sleep(invocation_log.OPEN_S)
            await outbox().wait_written()
            trace = await units_of_work.read(Trace.objects.get)
            meanwhile.extend([*await stored_calls(), trace, trace.decoded_stages[-1][0]])
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    await ask(LlmAgent(name="ann", model=Slow.saying("at last")), "hi")
    call_then, trace_then, stage_then = meanwhile
    assert (call_then.finished_at, call_then.response, trace_then.finished_at) == (None, None, None)
    assert stage_then == "request ready"
    assert texts(await whole(call_then)) == ["hi"]
    [row] = await stored_calls()
    assert (row.pk, (await answer(row))[0]["content"]["parts"]) == (call_then.pk, [{"text": "at last"}])
    assert (await units_of_work.read(Trace.objects.get)).finished_at is not None


async def test_tokens_are_stored_with_the_call(ask):
    class Counting(ScriptedModel):
        async def generate_content_async(self, llm_request, stream=False):
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=7, candidates_token_count=3, total_token_count=10
            )
            yield LlmResponse(
                content=types.Content(role="model", parts=[types.Part(text="hi")]), usage_metadata=usage
            )

    await ask(LlmAgent(name="ann", model=Counting.saying()))
    [row] = await stored_calls()
    assert (row.prompt_tokens, row.output_tokens, row.total_tokens) == (7, 3, 10)


async def test_calls_of_parallel_agents_are_separate(ask):
    agents = [LlmAgent(name=name, model=ScriptedModel.saying(f"I am {name}")) for name in ("ann", "bob")]
    await ask(ParallelAgent(name="both", sub_agents=agents))
    calls = await stored_calls()
    assert {row.agent for row in calls} == {"ann", "bob"}
    assert sorted(row.number for row in calls) == [1, 2]
    for row in calls:
        [response] = await answer(row)
        assert response["content"]["parts"] == [{"text": f"I am {row.agent}"}]


async def test_an_agent_used_as_a_tool_asks_within_the_run_around_it(ask):
    inner = LlmAgent(name="helper", model=ScriptedModel.saying("from within"))
    outer = LlmAgent(
        name="ann",
        model=ScriptedModel.saying(call("helper", request="help"), "done"),
        tools=[AgentTool(agent=inner)],
    )
    await ask(outer)
    calls = await stored_calls()
    assert [row.agent for row in calls] == ["ann", "helper", "ann"]
    assert len({row.invocation_id for row in calls}) == 1


async def test_credentials_in_config_are_not_stored(ask):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hi"),
        generate_content_config=types.GenerateContentConfig(
            http_options=types.HttpOptions(headers={"Authorization": "Bearer s3cret"})
        ),
    )
    await ask(agent)
    [row] = await stored_calls()
    assert "s3cret" not in row.request
    assert "Authorization" in row.request


async def test_credentials_in_contents_are_not_stored(ask):
    def sign_in(tool_context: ToolContext) -> dict[str, Any]:
        return {"rawAuthCredential": {"authType": "apiKey", "apiKey": "s3cret"}}

    agent = LlmAgent(name="ann", model=ScriptedModel.saying(call("sign_in"), "done"), tools=[sign_in])
    await ask(agent)
    bodies = await units_of_work.read(lambda: list(ModelPiece.objects.values_list("body", flat=True)))
    assert any("rawAuthCredential" in body for body in bodies)
    assert not any("s3cret" in body for body in bodies)


async def test_non_json_value_is_stored_as_text(ask):
    def odd(tool_context: ToolContext) -> dict[str, Any]:
        return {"at": object(), "half": "\ud800", "big": float("inf")}

    agent = LlmAgent(name="ann", model=ScriptedModel.saying(call("odd"), "done"), tools=[odd])
    await ask(agent)
    calls = await stored_calls()
    assert len(calls) == 2
    text = json.dumps(await whole(calls[-1]))
    assert "<object object" in text


async def test_very_long_text_is_cut_with_a_note(ask):
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "x" * 500_000)
    [row] = await stored_calls()
    [text] = texts(await whole(row))
    assert len(text) < 201_000
    assert "500,000 characters; the first 200,000 are stored" in text


async def test_a_store_that_refuses_a_record_never_ends_a_run(ask, monkeypatch, caplog):
    def refuse(*_: Any) -> None:
        raise DatabaseError("no room")

    monkeypatch.setattr(records, "_save_pieces", refuse)
    events = await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hi")))
    assert [event.content.parts[0].text for event in events] == ["hi"]
    assert not await stored_calls()
    assert [record.levelno for record in caplog.records if "could not be written" in record.message] == [
        logging.ERROR
    ]


async def test_recorder_can_be_switched_off(ask):
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), plugins=[Recorder(keep_calls=False)])
    assert not await stored_calls()


async def test_calls_of_external_session_are_stored_with_the_copy(ask, ours):
    service = MirroredSessionService(InMemorySessionService(), "memory://", ours)
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), service=service)
    assert len(await stored_calls()) == 1


async def test_calls_go_with_their_session(ask, ours):
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hi")))
    await ours.delete_session(app_name="weather", user_id="ann", session_id="s1")
    assert not await stored_calls()
    assert not await units_of_work.read(ModelPiece.objects.count)


async def test_fork_shows_calls_of_copied_events(ask, ours):
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hi")))

    def forked() -> ModelCall | None:
        new = fork(AgentSession.objects.get().pk, NewFork(seq=2))
        return model_calls.find_event_call(Event.objects.get(session=new, seq=2), new)

    result = await units_of_work.run_batched(forked)
    assert result is not None
    assert (await answer(result))[0]["content"]["parts"] == [{"text": "hi"}]
