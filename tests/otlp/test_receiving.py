"""OTLP over HTTP: encodings, ids, answers, and what is refused."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sessions_app.otlp import wire
from sessions_app.store.models import AgentSession, LogRecord, Trace
from sessions_app.store.models import Span as StoredSpan
from tests.otlp.otlp_requests import (
    NOW_NS,
    TRACE,
    make_attributes,
    make_record,
    make_span,
    span_id,
    wrap_spans,
)

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def to_protobuf(body: dict[str, Any]) -> ExportTraceServiceRequest:
    """Return a request of `wrap_spans` as a protobuf."""
    request = ExportTraceServiceRequest()
    for group in body["resourceSpans"]:
        scope = request.resource_spans.add().scope_spans.add()
        scope.spans.extend(wire._message_from_json(Span, span) for span in group["scopeSpans"][0]["spans"])
    return request


async def stored_spans() -> list[StoredSpan]:
    return await sync_to_async(lambda: list(StoredSpan.objects.order_by("started_ns", "pk")))()


async def test_json_has_hex_ids_and_enums_as_integers(exporter):
    link = {"traceId": "f" * 32, "spanId": "a" * 16, "attributes": make_attributes({"why": "retry"})}
    event = {"name": "exception", "timeUnixNano": str(NOW_NS), "attributes": make_attributes({"n": 3})}
    answer = await exporter.send(
        make_span(
            1, kind=2, status={"code": 2, "message": "down"}, links=[link], events=[event], unknownField=1
        )
    )
    assert answer == {}
    [span] = await stored_spans()
    assert (span.trace_id, span.span_id, span.parent_id) == (TRACE, span_id(1), "")
    assert (span.failed, span.message, span.started_ns) == (True, "down", NOW_NS)
    assert json.loads(span.links) == [
        {"trace_id": "f" * 32, "span_id": "a" * 16, "attributes": {"why": "retry"}}
    ]
    assert json.loads(span.events) == [{"name": "exception", "at_ns": NOW_NS, "attributes": {"n": 3}}]
    assert json.loads(span.source) == {
        "resource": {"service.name": "desk"},
        "scope": "",
        "kind": "server",
    }


@pytest.mark.parametrize("packed", [False, True])
async def test_protobuf_is_answered_in_protobuf(web, packed):
    body = to_protobuf(wrap_spans(make_span(1, parent=7), make_span(0))).SerializeToString()
    headers = PROTOBUF | ({"Content-Encoding": "gzip"} if packed else {})
    response = await web.post("/v1/traces", content=gzip.compress(body) if packed else body, headers=headers)
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/x-protobuf")
    answer = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert (answer.rejected_spans, answer.error_message) == (1, "1 × a span has no span id of 8 bytes")
    [span] = await stored_spans()
    assert (span.span_id, span.parent_id, span.name) == (span_id(1), span_id(7), "work")


async def test_spans_are_stored_once_and_not_with_other_content(exporter):
    assert await exporter.send(make_span(1), make_span(1)) == {}
    assert await exporter.send(make_span(1)) == {}
    answer = await exporter.send(make_span(1, "other work"), make_span(2))
    assert answer["partialSuccess"]["rejectedSpans"] == "1"
    assert f"span {span_id(1)} of trace {TRACE} is stored with other content" in str(answer)
    assert [span.name for span in await stored_spans()] == ["work", "work"]


async def test_empty_request_is_accepted(web):
    assert (await web.post("/v1/traces", json={})).json() == {}
    assert (await web.post("/v1/traces", content=b"", headers=PROTOBUF)).content == b""


@pytest.mark.parametrize(
    ("content", "headers", "status", "detail"),
    [
        (b"{", {"Content-Type": "application/json"}, 400, "The body is no JSON"),
        (b"[]", {"Content-Type": "application/json"}, 400, "The body is no OTLP request"),
        (
            b'{"resourceSpans": 3}',
            {"Content-Type": "application/json"},
            400,
            "resourceSpans is no list of objects",
        ),
        (
            b'{"resourceSpans": ' + b"[" * 100_000,
            {"Content-Type": "application/json"},
            400,
            "The body is no JSON",
        ),
        (b"\x0a\xff\xff", PROTOBUF, 400, "is cut off"),
        (b"\x0a\x7f\x01", PROTOBUF, 400, "is cut off"),
        (b"plain", PROTOBUF | {"Content-Encoding": "gzip"}, 400, "The body is no gzip"),
        (
            gzip.compress(b"x" * 1000, mtime=0)[:-9],
            PROTOBUF | {"Content-Encoding": "gzip"},
            400,
            "ends too early",
        ),
        (
            gzip.compress(bytes(40_000_000), mtime=0),
            PROTOBUF | {"Content-Encoding": "gzip"},
            413,
            "when unpacked",
        ),
        (b"x", PROTOBUF | {"Content-Encoding": "zstd"}, 415, "encoding 'zstd' is not read"),
        (b"x", {"Content-Type": "text/plain"}, 415, "content type 'text/plain' is not OTLP"),
        (b"\x0a\x00" * 200_000, PROTOBUF, 413, "more than 100,000 fields"),
    ],
)
async def test_unreadable_request_is_refused(web, content, headers, status, detail):
    response = await web.post("/v1/traces", content=content, headers=headers)
    assert response.status_code == status, response.text
    assert detail in response.json()["detail"]
    assert response.json()["hint"]
    assert await stored_spans() == []


async def test_too_many_spans_are_refused(web, monkeypatch):
    monkeypatch.setattr(wire, "MAX_ITEMS", 2)
    response = await web.post("/v1/traces", json=wrap_spans(*(make_span(number) for number in (1, 2, 3))))
    assert response.status_code == 413
    assert "more than 2 spans" in response.json()["detail"]


async def test_broken_spans_refuse_only_themselves(exporter):
    deep: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(150):
        deep = {"arrayValue": {"values": [deep]}}
    answer = await exporter.send(
        make_span(1),
        make_span(2, traceId="xyz"),
        make_span(3, traceId="0" * 32),
        make_span(4, at=30 * 86_400),
        make_span(5, startTimeUnixNano="0"),
        make_span(6, attributes={}) | {"attributes": [{"key": "deep", "value": deep}]},
        make_span(7, attributes={}) | {"attributes": "none"},
        make_span(8, startTimeUnixNano="soon"),
    )
    assert answer["partialSuccess"]["rejectedSpans"] == "7"
    assert "in the future" in answer["partialSuccess"]["errorMessage"]
    assert [span.span_id for span in await stored_spans()] == [span_id(1)]


async def test_half_protobuf_span_refuses_only_itself(web):
    request = to_protobuf(wrap_spans(make_span(1), make_span(2)))
    body = request.SerializeToString()
    broken = body.replace(bytes.fromhex(span_id(1)), b"\xff" * 8).replace(b"\x2a\x04work", b"\x2a\x7fwork", 1)
    response = await web.post("/v1/traces", content=broken, headers=PROTOBUF)
    assert ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans == 1
    assert [span.span_id for span in await stored_spans()] == [span_id(2)]


async def test_large_attributes_are_cut_and_many_are_counted(exporter):
    many = {f"n{number}": number for number in range(1_200)}
    await exporter.send(
        make_span(1, attributes={"big": "x" * 1_000_000, "nul": "a\x00b"}), make_span(2, attributes=many)
    )
    big, counted = [json.loads(span.attributes) for span in await stored_spans()]
    assert big["big"].startswith("xxx")
    assert big["big"].endswith("(1,000,000 characters)")
    assert len(big["big"]) < 101_000
    assert len(counted) == 1_001
    assert counted["devui.omitted"] == 200


async def test_credentials_are_not_stored(exporter):
    secret = "sk-abcdefghijklmnop1234"
    await exporter.send(
        make_span(
            1,
            attributes={
                "http.request.header.authorization": f"Bearer {secret}",
                "db.password": "hunter2!",
                "note": f"used {secret}",
                "config": json.dumps({"authType": "apiKey", "apiKey": secret}),
            },
            status={"code": 2, "message": f"refused: {secret}"},
        )
    )
    [span] = await stored_spans()
    assert secret not in span.attributes + span.message + span.source
    assert "hunter2" not in span.attributes


async def test_log_records_are_shown_with_the_trace(exporter):
    await exporter.send_records(make_record(1, "stock is low"), make_record(1, "stock is low"))
    await exporter.send(make_span(1))
    [record] = await sync_to_async(lambda: list(LogRecord.objects.select_related("session")))()
    assert (record.message, record.level, record.invocation_id) == ("stock is low", 30, TRACE)
    assert record.session.app_name == "desk"
    answer = await exporter.send_records(make_record(1, "nowhere") | {"traceId": ""})
    assert "no trace id" in answer["partialSuccess"]["errorMessage"]


async def test_attributes_of_a_program_are_limited(web):
    body = wrap_spans(make_span(1), make_span(2))
    resource = body["resourceSpans"][0]["resource"]
    resource["attributes"] += make_attributes({"long": "x" * 20_000, "host.name": "h1"})
    assert (await web.post("/v1/traces", json=body)).json() == {}
    sources = [json.loads(span.source)["resource"] for span in await stored_spans()]
    assert sources == [{"service.name": "desk", "host.name": "h1", "devui.omitted": 1}] * 2


async def test_metrics_are_not_stored(web):
    response = await web.post("/v1/metrics", json={})
    assert (response.status_code, response.json()) == (
        200,
        {"partialSuccess": {"errorMessage": "DevUI stores no metrics."}},
    )


async def test_each_trace_without_a_conversation_is_a_session(exporter):
    await exporter.send(make_span(1), make_span(2, traceId="1" * 32), service="")
    sessions = await sync_to_async(
        lambda: sorted(AgentSession.objects.values_list("realm", "app_name", "session_id"))
    )()
    assert sessions == [("traced/", "unknown", TRACE), ("traced/", "unknown", "1" * 32)]
    assert await sync_to_async(Trace.objects.count)() == 2


def test_json_form_of_a_response_is_that_of_protobuf():
    answer = json_format.Parse(
        wire.build_response(wire.TRACES, wire.JSON, 2, "why"), ExportTraceServiceResponse()
    )
    assert (answer.partial_success.rejected_spans, answer.partial_success.error_message) == (2, "why")
