"""Conversations read out of spans made by hand, in the conventions of OpenTelemetry and OpenInference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from sessions_app.otlp import writes
from sessions_app.store.models import AgentSession, Event, ModelCall, Span, Trace
from sessions_app.traces import model_calls, waterfall
from tests.otlp.otlp_requests import TRACE, make_record, make_span, span_id
from tests.pages.html import parse

ASK = [{"role": "user", "parts": [{"type": "text", "content": "Where is X1?"}]}]
CALL = [
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "track", "arguments": {"number": "X1"}}],
        "finish_reason": "tool_calls",
    }
]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "It is lost."}]}]
RESPONSE = [
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"error": "lost"}}]}
]


def model_span(number: int, at: float, asked: Any, answered: Any, **fields: Any) -> dict[str, Any]:
    """Return a span of a model by OpenTelemetry's newer convention."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.agent.name": "tracker",
        "gen_ai.conversation.id": "chat-1",
        "user.id": "ann",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 12,
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": json.dumps(answered),
    }
    return make_span(
        number, "chat gpt-x", parent=1, at=at, attributes=attributes | fields.pop("more", {}), **fields
    )


def tool_span(number: int, at: float, **fields: Any) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "track",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.result": json.dumps({"error": "lost"}),
    }
    return make_span(number, "execute_tool track", parent=1, at=at, attributes=attributes, **fields)


def root_span(**fields: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "chat-1"}
    return make_span(1, "invoke_agent tracker", attributes=attributes, **fields)


TURN = [
    model_span(2, 1, ASK, CALL),
    tool_span(3, 2),
    model_span(4, 4, [*ASK, *CALL, *RESPONSE], ANSWER),
    root_span(endTimeUnixNano=make_span(1, at=6)["startTimeUnixNano"]),
]


def read_story() -> list[tuple[str, str, Any]]:
    """Return author, kind and text, call or result of each event."""
    story = []
    for event in Event.objects.order_by("seq"):
        [part] = json.loads(event.data).get("content", {}).get("parts", [{}])
        shown = part.get("functionCall", part.get("functionResponse", part))
        story.append(
            (event.author, event.kind, shown.get("text") or shown.get("args") or shown.get("response"))
        )
    return story


STORY = [
    ("user", "user", "Where is X1?"),
    ("tracker", "tool_call", {"number": "X1"}),
    ("tracker", "tool_result", {"error": "lost"}),
    ("tracker", "agent", "It is lost."),
]
stored_story = sync_to_async(read_story)


async def test_spans_become_a_read_only_session(exporter):
    await exporter.send(*TURN)
    assert await stored_story() == STORY
    session = await AgentSession.objects.aget()
    assert session.key == ("traced/", "desk", "ann", "chat-1")
    assert (session.origin, session.error_count, session.total_tokens) == ("trace", 1, 84)
    trace = await Trace.objects.aget()
    assert (trace.root_agent, trace.finished_at - trace.started_at) == ("tracker", 6)


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 2, 0, 3), (2, 0, 3, 1)])
async def test_spans_may_arrive_one_by_one_in_any_order(exporter, order: Sequence[int]):
    for index in order:
        await exporter.send(TURN[index])
    assert await stored_story() == STORY
    session = await AgentSession.objects.aget()
    assert (session.last_seq, session.error_count, session.total_tokens) == (4, 1, 84)
    assert (session.first_text, session.last_text, session.session_id) == (
        "Where is X1?",
        "It is lost.",
        "chat-1",
    )


async def test_late_span_keeps_the_events_of_later_turns(exporter):
    later = model_span(9, 60, ASK, ANSWER) | {"traceId": "2" * 32, "parentSpanId": ""}
    await exporter.send(TURN[0], TURN[3])
    await exporter.send(later)
    await exporter.send(TURN[1], TURN[2])
    assert await stored_story() == [*STORY, STORY[0], STORY[3]]
    assert await sync_to_async(Event.objects.filter(invocation_id="2" * 32).count)() == 2


async def test_trace_joins_its_conversation_when_it_is_known(exporter):
    earlier = model_span(9, -60, ASK, ANSWER) | {"traceId": "2" * 32, "parentSpanId": ""}
    await exporter.send(earlier)
    await exporter.send(TURN[1])
    assert await AgentSession.objects.acount() == 2
    await exporter.send(TURN[0], TURN[2], TURN[3])
    session = await AgentSession.objects.aget()
    assert (session.session_id, session.last_seq) == ("chat-1", 6)
    assert await stored_story() == [STORY[0], STORY[3], *STORY]
    assert await ModelCall.objects.acount() == 3


async def test_trace_whose_id_another_names_as_conversation_stays(exporter):
    await exporter.send(model_span(9, -60, ASK, ANSWER) | {"traceId": "2" * 32, "parentSpanId": ""})
    await exporter.send(TURN[1])
    guest = {"gen_ai.conversation.id": TRACE}
    await exporter.send(model_span(8, 1, ASK, ANSWER, more=guest) | {"traceId": "3" * 32, "parentSpanId": ""})
    await exporter.send(*TURN)
    assert await AgentSession.objects.acount() == 2
    assert await Trace.objects.acount() == 3


async def test_results_that_no_span_tells_of_are_those_of_the_next_request(exporter):
    await exporter.send(TURN[0], TURN[2], TURN[3])
    assert await stored_story() == STORY


async def test_model_calls_have_requests_and_costs(exporter):
    more = {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be short."}])}
    await exporter.send(model_span(2, 1, ASK, ANSWER, more=more))

    def check() -> None:
        call = ModelCall.objects.get()
        assert (call.agent, call.model, call.total_tokens, call.event_id) == (
            "tracker",
            "gpt-x",
            42,
            f"{TRACE}-{span_id(2)}",
        )
        request = model_calls.request_json(call)
        assert request["system_instruction"] == "Be short."
        assert request["contents"] == [{"role": "user", "parts": [{"text": "Where is X1?"}]}]
        assert model_calls.responses(call)[0]["content"]["parts"] == [{"text": "It is lost."}]
        event = Event.objects.get(seq=2)
        assert model_calls.find_event_call(event, event.session) == call

    await sync_to_async(check)()


async def test_content_on_logs_counts_before_and_after_its_span(exporter):
    bare = {"gen_ai.input.messages": "", "gen_ai.output.messages": ""}
    details = {"gen_ai.input.messages": ASK, "gen_ai.output.messages": ANSWER}
    name = "gen_ai.client.inference.operation.details"
    await exporter.send_records(make_record(2, name=name, **details))
    assert await sync_to_async(Span.objects.get)() is not None
    span = model_span(2, 1, [], [], more=bare)
    span["attributes"] = [item for item in span["attributes"] if item["key"] not in bare]
    await exporter.send(span)
    assert await stored_story() == [STORY[0], STORY[3]]
    await exporter.send_records(make_record(2, name=name, **details))
    assert await stored_story() == [STORY[0], STORY[3]]
    [stored] = await sync_to_async(lambda: list(Span.objects.all()))()
    assert (stored.name, len(json.loads(stored.events))) == ("chat gpt-x", 1)


async def test_messages_in_events_of_convention_1_36_are_read(exporter):
    call = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"number": "X1"}'}}
    await exporter.send(
        make_span(
            2, "chat gpt-x", attributes={"gen_ai.operation.name": "chat", "gen_ai.agent.name": "tracker"}
        )
    )
    await exporter.send_records(
        make_record(2, {"content": "Be short."}, "gen_ai.system.message"),
        make_record(2, {"content": "Where is X1?"}, "gen_ai.user.message"),
        make_record(2, {"index": 0, "message": {"role": "assistant", "tool_calls": [call]}}, "gen_ai.choice"),
    )
    assert await stored_story() == STORY[:2]


async def test_openinference_attributes_are_read(exporter):
    flat = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-x",
        "agent.name": "tracker",
        "session.id": "chat-2",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be short.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "Where is X1?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "track",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"number": "X1"}',
        "llm.token_count.prompt": 5,
        "llm.token_count.total": 9,
    }
    tool = {"openinference.span.kind": "TOOL", "tool.name": "track", "output.value": '{"error": "lost"}'}
    await exporter.send(make_span(2, "llm", attributes=flat), make_span(3, "track", at=2, attributes=tool))
    assert await stored_story() == STORY[:3]
    session = await AgentSession.objects.aget()
    assert (session.session_id, session.total_tokens) == ("chat-2", 9)


async def test_failed_run_ends_with_its_error_and_a_failed_tool_with_its_exception(exporter):
    failed = {"code": 2, "message": "ValueError: depot offline"}
    await exporter.send(
        TURN[0], tool_span(3, 2, status=failed), root_span(status={"code": 2, "message": "no time left"})
    )
    story = await stored_story()
    assert story[2][2] == {"error": "lost"}
    last = json.loads((await Event.objects.order_by("-seq").afirst()).data)
    assert (last["errorCode"], last["errorMessage"]) == ("ERROR", "no time left")
    listed = parse((await exporter.web.get("/runs/", params={"status": "failed"})).content)
    assert "Where is X1?" in listed.text
    assert "ERROR" in listed.text


async def test_spans_inside_a_tool_are_no_part_of_the_conversation(exporter):
    inner = model_span(5, 2.2, ASK, ANSWER) | {"parentSpanId": span_id(3)}
    await exporter.send(*TURN, inner)
    assert await stored_story() == STORY


async def test_orphans_and_cycles_are_shown(exporter):
    await exporter.send(
        make_span(1, parent=9), make_span(2, parent=3), make_span(3, parent=2), make_span(4, parent=4)
    )
    session = await AgentSession.objects.aget()
    shown = await sync_to_async(waterfall.waterfall)(session, TRACE)
    assert [bar.is_orphan for bar in shown.bars] == [True, True, True, False]


async def test_hostile_messages_are_shown_as_they_are(exporter):
    strange = [
        {"role": 3, "parts": [None, 7, {"type": "tool_call", "arguments": "{"}, {"content": {"a": [1]}}]},
        "x",
        None,
    ]
    await exporter.send(
        model_span(2, 1, strange, strange),
        model_span(3, 2, {"a": 1}, "text"),
        model_span(4, 3, [], []) | {"attributes": []},
    )
    assert await sync_to_async(Event.objects.count)() >= 3


def request_of(**request: Any) -> dict[str, str]:
    return {"gcp.vertex.agent.llm_request": json.dumps(request)}


@pytest.mark.parametrize(
    "attributes",
    [
        request_of(contents=[{"role": {}, "parts": [{"text": "a"}]}]),
        request_of(config={"tools": [{"function_declarations": 5}]}),
        request_of(
            contents=[
                {"role": "user", "parts": [{"text": {}}, {"function_call": {"name": {}, "args": 5}}]},
                {"role": "user", "parts": [{"functionCall": "x"}, {"functionResponse": 5}, {"file_data": 7}]},
            ]
        ),
        {"gen_ai.output.messages": '[{"role": "assistant", "parts": ["a\\u0000\\ud800"]}]'},
        {"gen_ai.output.messages": f'[{{"role": "assistant", "parts": [{"[" * 800}{"]" * 800}]}}]'},
        {"gen_ai.output.messages": '[{"role": "assistant", "parts": [{"a": NaN, "b": 1e999}]}]'},
    ],
    ids=["role", "tools", "parts", "characters", "depth", "numbers"],
)
async def test_values_of_wrong_types_do_not_keep_spans_from_being_stored(exporter, web, attributes):
    chat = {"gen_ai.operation.name": "chat"}
    await exporter.send(make_span(2, "call_llm", attributes=chat | attributes), root_span())
    assert await Span.objects.acount() == 2
    session = await AgentSession.objects.aget()
    assert (await web.get(f"/sessions/id/{session.pk}/", follow_redirects=True)).status_code == 200


async def test_trace_whose_id_is_that_of_a_conversation_joins_it(exporter):
    guest = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": TRACE}
    await exporter.send(make_span(1, "chat", attributes=guest, traceId="3" * 32))
    await exporter.send(make_span(2))
    assert await AgentSession.objects.acount() == 1
    assert await Trace.objects.acount() == 2


async def test_conversation_is_read_from_spans_of_limited_length(exporter, monkeypatch):
    await exporter.send(*TURN[:1])
    monkeypatch.setattr(writes, "MAX_CONVERSATION_CHARS", 100)
    await exporter.send(*TURN[1:])
    assert await Span.objects.acount() == 4


async def test_span_takes_log_records_up_to_a_limit(exporter, monkeypatch):
    monkeypatch.setattr(writes, "MAX_CONTENT_CHARS", 10)
    assert await exporter.send_records(make_record(2, {"content": "a"}, "gen_ai.user.message")) == {}
    answer = await exporter.send_records(make_record(2, {"content": "b"}, "gen_ai.user.message"))
    assert "too large log records" in answer["partialSuccess"]["errorMessage"]


async def test_spans_join_the_session_that_they_name(exporter):
    from sessions_app.store import events
    from sessions_app.store.session_key import StorableKey
    from sessions_app.store.sessions import writes as session_writes

    key = StorableKey("", "weather", "ann", "chat-1")

    def create() -> None:
        session_writes.create_session(key)
        wire = {
            "id": "e1",
            "invocationId": "i1",
            "author": "user",
            "timestamp": 5.0,
            "content": {"parts": [{"text": "hi"}]},
        }
        session_writes.append_event(key, events.build_record(wire))

    await sync_to_async(create)()
    named = {"gcp.vertex.agent.invocation_id": "i1", "gcp.vertex.agent.event_id": "e1"}
    await exporter.send(model_span(2, 1, ASK, ANSWER, more=named), root_span())
    [session] = await sync_to_async(lambda: list(AgentSession.objects.all()))()
    assert (session.realm, session.last_seq) == ("", 1)
    spans = await sync_to_async(lambda: list(Span.objects.order_by("pk")))()
    assert [(span.session_id, span.invocation_id) for span in spans] == [(session.pk, "i1")] * 2


async def test_spans_beyond_the_limit_are_refused(exporter, monkeypatch):
    monkeypatch.setattr(writes, "MAX_SPANS", 2)
    answer = await exporter.send(make_span(1), make_span(2), make_span(3))
    assert answer["partialSuccess"] == {
        "rejectedSpans": "1",
        "errorMessage": f"1 × trace {TRACE} has more than 2 spans",
    }
    assert await sync_to_async(Span.objects.count)() == 2
