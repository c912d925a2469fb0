"""Summaries of events for timeline rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.plugins.reflect_retry_tool_plugin import ToolFailureResponse
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from sessions_app.adk import event_mapping
from sessions_app.store import events
from sessions_app.store.events import EventKind
from tests.sessions.build import event
from tests.sessions.full_event import full_event

CALL = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={"where": "here"}))
RESPONSE = types.Part(function_response=types.FunctionResponse(id="c1", name="look", response={"ok": True}))
SAID = types.Part(text="hello")


def model_event(*parts: types.Part, **fields: Any) -> Event:
    return event(content=types.Content(role="model", parts=list(parts)), **fields)


def summary(new_event: Event) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(event_mapping.to_record(new_event).summary)
    return values


@pytest.mark.parametrize(
    ("new_event", "kind"),
    [
        (model_event(SAID, author="user"), EventKind.USER),
        (model_event(SAID), EventKind.AGENT),
        (model_event(SAID, CALL), EventKind.TOOL_CALL),
        (model_event(RESPONSE), EventKind.TOOL_RESULT),
        (model_event(RESPONSE, author="user"), EventKind.TOOL_RESULT),
        (event(delta={"a": 1}), EventKind.STATE),
        (event(delta={"a": 1}, author="user"), EventKind.STATE),
        (Event(author="agent", actions=EventActions(escalate=True, state_delta={"a": 1})), EventKind.CONTROL),
        (Event(author="agent", actions=EventActions(transfer_to_agent="other")), EventKind.CONTROL),
        (model_event(SAID, error_code="429"), EventKind.ERROR),
        (event(error_message="quota"), EventKind.ERROR),
        (event(output={"answer": 1}), EventKind.AGENT),
        (event(), EventKind.CONTROL),
        (Event(author="user", input_transcription=types.Transcription(text="hi")), EventKind.USER),
        (Event(author="agent", output_transcription=types.Transcription(text="hi")), EventKind.AGENT),
    ],
)
def test_each_of_the_seven_kinds_is_recognized(new_event, kind):
    assert event_mapping.to_record(new_event).kind == kind


def test_summary_has_the_fields_of_a_row():
    row = summary(full_event())
    assert row["text"] == "hello"
    assert row["thought"] == "hm"
    assert row["calls"] == [
        {"id": "call-1", "name": "look", "args": {"where": "null", "n": str(2**60)}, "waiting": True}
    ]
    assert row["results"] == [
        {"id": "call-1", "name": "look", "result": '{"found":[true,null]}', "failed": False}
    ]
    assert row["media"] == [
        {"mime": "image/png", "name": "a.png", "size": 256, "pointer": "/content/parts/2"},
        {"mime": "text/plain", "name": "", "uri": "gs://b/f", "pointer": "/content/parts/3"},
    ]
    assert (row["heard"], row["voiced"]) == ("in", "out")
    assert row["sources"] == [{"title": "x", "uri": "https://example.org"}]
    assert row["searched"] == ["weather"]
    assert row["compaction"] == {"start": 1.25, "end": 2.5, "text": "what was said"}
    assert row["delta"] == ["a", "app:b", "user:c"]
    assert row["artifacts"] == {"report.txt": 3}
    assert row["error"] == {"code": "429", "message": "quota"}
    assert row["tokens"] == {"prompt": 11, "output": 7, "total": 18, "thoughts": 3}
    assert row["signals"]["transferToAgent"] == "other"


@pytest.mark.parametrize(
    ("reason", "error", "flags"),
    [("STOP", None, []), ("MAX_TOKENS", None, ["MAX_TOKENS"]), ("SAFETY", "SAFETY", []), (None, None, [])],
)
def test_unusual_finish_reason_is_shown_unless_it_is_the_error(reason, error, flags):
    body = {"id": "e", "timestamp": 1.0, "finishReason": reason, "errorCode": error}
    assert events.summarize(body).get("flags", []) == flags


def test_a_result_that_reports_an_error_has_failed():
    response = types.FunctionResponse(id="c1", name="look", response={"error": "no such place"})
    assert summary(model_event(types.Part(function_response=response)))["results"][0]["failed"]


MCP_ERROR = {"content": [{"type": "text", "text": "no such table"}], "isError": True}
RETRIED = ToolFailureResponse(error_type="ValueError", error_details="boom").model_dump(mode="json")


def result_of(body: dict[str, Any], name: str = "look") -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=name, name=name, response=body))


@pytest.mark.parametrize(
    "body",
    [
        {"error": "no such place"},
        {"status": "error", "reason": "gone"},
        MCP_ERROR,
        {**MCP_ERROR, "isError": None, "is_error": True},
        RETRIED,
    ],
    ids=["ADK", "status", "MCP", "MCP 2", "retry plug-in"],
)
def test_result_of_failed_tool_counts_as_error(body):
    record = event_mapping.to_record(model_event(result_of(body)))
    assert (record.kind, record.is_error) == (EventKind.TOOL_RESULT, True)
    assert json.loads(record.summary)["results"][0]["failed"]


@pytest.mark.parametrize(
    "body", [{"ok": True}, {"error": None}, {**MCP_ERROR, "isError": False}, {"failed": True}]
)
def test_result_of_successful_tool_is_no_error(body):
    record = event_mapping.to_record(model_event(result_of(body)))
    assert not record.is_error
    assert not json.loads(record.summary)["results"][0]["failed"]


@pytest.mark.parametrize(
    ("parts", "order"),
    [
        ([{"text": "a"}, {"functionCall": {"name": "f"}}], None),
        ([{"text": "a"}, {"text": "b"}], None),
        ([{"fileData": {"fileUri": "gs://f"}}, {"text": "abc"}], [["media", 1], ["text", 3]]),
        (
            [{"text": "a"}, {"functionCall": {"name": "f"}}, {"text": "hm", "thought": True}, {"text": "b"}],
            [["text", 1], ["calls", 1], ["thought", 2], ["text", 1]],
        ),
    ],
)
def test_summary_keeps_an_unusual_order_of_parts(parts, order):
    summary_json = events.summarize({"id": "e", "content": {"parts": parts}})
    assert json.loads(json.dumps(summary_json)).get("order") == order


def test_call_awaiting_confirmation_has_not_failed():
    answers = [
        types.FunctionResponse(
            id=name, name="pay", response={"error": "This tool call requires confirmation"}
        )
        for name in ("asks", "fails")
    ]
    new_event = model_event(*[types.Part(function_response=answer) for answer in answers])
    new_event.actions.requested_tool_confirmations = {"asks": ToolConfirmation(hint="Sure?")}
    assert [result["failed"] for result in summary(new_event)["results"]] == [False, True]


@pytest.mark.parametrize("first", ["no such account", "This tool call requires confirmation"])
def test_failed_call_counts_though_it_shares_its_id_with_one_awaiting_confirmation(first):
    errors = [first, "This tool call requires confirmation, please approve or reject.", "gone"]
    parts = [
        {"functionResponse": {"id": "c1", "name": "pay", "response": {"error": error}}} for error in errors
    ]
    wire = {"content": {"parts": parts}, "actions": {"requestedToolConfirmations": {"c1": {}}}}
    failed = [result["failed"] for result in events.summarize(wire)["results"]]
    assert failed == ["confirmation" not in error for error in errors]


def test_confirmation_that_a_tool_asks_for_in_its_own_words_is_no_failure():
    parts = [
        {"functionResponse": {"id": "c1", "name": "pay", "response": {"error": error}}}
        for error in ("Ask first", "gone")
    ]
    wire = {"content": {"parts": parts}, "actions": {"requestedToolConfirmations": {"c1": {}}}}
    assert [result["failed"] for result in events.summarize(wire)["results"]] == [False, True]


def test_long_ids_that_begin_alike_stay_distinct():
    ids = [f"{'x' * 399}{end}" for end in ("", "y", "1", "2" * 500, "2" * 501)]
    shortened = [events.shorten_id(call_id) for call_id in ids]
    assert len(set(shortened)) == len(ids)
    assert max(map(len, shortened)) == 400
    assert shortened[:2] == ids[:2]


@pytest.mark.parametrize("name", ["adk_request_input", "adk_request_credential"])
def test_request_waits_without_long_running_ids_as_in_adk(name):
    parts = [{"functionCall": {"id": called, "name": called}} for called in (name, "look")]
    calls = events.summarize({"content": {"parts": parts}})["calls"]
    assert [call["waiting"] for call in calls] == [True, False]


def test_every_text_that_a_summary_cuts_off_ends_with_an_ellipsis():
    long = "x" * 10_000
    parts = [
        {"text": long, "thought": True},
        {"executableCode": {"code": long}},
        {"codeExecutionResult": {"output": long}},
    ]
    speech = {"inputTranscription": {"text": long}, "outputTranscription": {"text": long}}
    summary_json = events.summarize({"content": {"parts": parts}, **speech})
    texts = [
        summary_json["thought"],
        summary_json["code"][0]["code"],
        summary_json["code"][1]["output"],
        summary_json["heard"],
        summary_json["voiced"],
    ]
    assert [(len(text), text[-1]) for text in texts] == [(events.TEXT_LIMIT, "…")] * 5


def test_media_that_a_tool_answers_with_have_a_place_of_their_own():
    blob = types.FunctionResponseBlob(mime_type="image/png", data=b"abc")
    response = types.FunctionResponse(
        name="draw", response={}, parts=[types.FunctionResponsePart(inline_data=blob)]
    )
    assert summary(model_event(types.Part(function_response=response)))["media"] == [
        {"mime": "image/png", "name": "", "size": 3, "pointer": "/content/parts/0/functionResponse/parts/0"}
    ]


def test_source_found_and_cited_is_listed_once():
    web = types.GroundingChunkWeb(uri="https://example.org/a", title="A")
    retrieved_context = types.GroundingChunkRetrievedContext(uri="gs://b/c")
    new_event = model_event(
        SAID,
        grounding_metadata=types.GroundingMetadata(
            grounding_chunks=[
                types.GroundingChunk(web=web),
                types.GroundingChunk(retrieved_context=retrieved_context),
                types.GroundingChunk(),
            ]
        ),
        citation_metadata=types.CitationMetadata(citations=[types.Citation(uri="https://example.org/a")]),
    )
    assert summary(new_event)["sources"] == [
        {"title": "A", "uri": "https://example.org/a"},
        {"title": "gs://b/c", "uri": "gs://b/c"},
    ]


def test_empty_entries_are_left_out():
    assert set(summary(model_event(SAID))) == {"text"}


def test_summary_is_bounded_for_any_event():
    long = "x" * 100_000
    call = types.FunctionCall(id=long, name=long, args={long: long})
    response = types.FunctionResponse(id=long, name=long, response={long: long})
    blob = types.FileData(file_uri=long, mime_type=long, display_name=long)
    new_event = model_event(
        types.Part(text=long),
        types.Part(text=long, thought=True),
        types.Part(function_call=call),
        types.Part(function_response=response),
        types.Part(file_data=blob),
        delta={long: long},
        error_code=long,
        error_message=long,
        model_version=long,
        output=long,
    )
    new_event.actions.artifact_delta = {long: 1}
    new_event.actions.transfer_to_agent = long
    new_event.node_info.path = long
    record = event_mapping.to_record(new_event)
    assert len(record.summary) < 20_000
    assert json.loads(record.summary)["cut"]


def test_summary_lists_calls_by_name_and_counts_what_it_leaves_out():
    new_event = model_event(*[CALL] * 1_200, delta={f"k{number}": 1 for number in range(200)})
    short = summary(new_event)
    assert {name: len(value) for name, value in short.items()} == {"calls": 1_000, "delta": 50, "more": 2}
    assert short["more"] == {"calls": 200, "delta": 150}
    assert [bool(call["args"]) for call in short["calls"]] == [True] * 50 + [False] * 950


def test_build_record_leaves_the_wire_event_unchanged():
    wire = {"id": "e1", "timestamp": 1.0, "author": "agent", "actions": {"stateDelta": {"temp:x": 1, "y": 2}}}
    before = json.dumps(wire)
    record = events.build_record(wire)
    assert json.dumps(wire) == before
    assert json.loads(record.data)["actions"]["stateDelta"] == {"y": 2}


def test_event_without_actions_is_accepted():
    wire_event = {"id": "e1", "timestamp": 1.0, "author": "agent"}
    record = events.build_record(wire_event)
    assert (record.writes, record.kind) == ([], EventKind.CONTROL)


@pytest.mark.parametrize("count", ["many", None, [], {}, -1, 1.5, "7"])
def test_a_count_of_tokens_that_is_none_counts_nothing(count: Any):
    usage = {"promptTokenCount": 3, "candidatesTokenCount": count}
    record = events.build_record({"id": "e1", "timestamp": 1.0, "usageMetadata": usage})
    assert record.total_tokens == 3
    assert json.loads(record.summary)["tokens"] == {"prompt": 3, "total": 3}


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (
            {"prompt": 10, "candidates": 20, "thoughts": 5},
            {"prompt": 10, "output": 20, "thoughts": 5, "total": 35},
        ),
        ({"prompt": 10, "toolUsePrompt": 7, "total": 42}, {"prompt": 17, "total": 42}),
        ({"candidates": 4}, {"output": 4, "total": 4}),
        ({"total": 4}, {"total": 4}),
        ({"cachedContent": 4}, {"cached": 4}),
    ],
)
def test_tokens_of_an_event_are_counted_whichever_are_reported(usage: dict[str, int], counts: dict[str, int]):
    wire = {f"{name}TokenCount": count for name, count in usage.items()}
    record = events.build_record({"id": "e1", "timestamp": 1.0, "usageMetadata": wire})
    assert json.loads(record.summary)["tokens"] == counts
    assert record.total_tokens == counts.get("total", 0)


def test_usage_that_is_no_object_counts_nothing():
    assert events.build_record({"id": "e1", "timestamp": 1.0, "usageMetadata": "?"}).total_tokens == 0
