"""Received spans and log records in storable form. Runs before the transaction that stores them. Pure."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ReceivedMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from sessions_app.otlp.span_facts import CONTENT_ATTRIBUTES, SpanFacts
from sessions_app.otlp.wire import ReadItem, SendingProgram
from sessions_app.store import scopes
from sessions_app.store.models import Span
from sessions_app.store.short_texts import truncate
from sessions_app.store.traces.log_records import NewLogRecord
from sessions_app.store.traces.records import MAX_ERROR
from sessions_app.store.traces.span_attributes import MAX_MEMBERS, OMITTED, store_attributes, store_value
from sessions_app.store.traces.span_kinds import recognize_span_kind

MAX_TEXT = 100_000
"""Maximum length of an attribute's text, in characters."""

MAX_CONTENT = 1_000_000
"""Maximum length of an attribute with content of conversations, in characters."""

MAX_RESOURCE = 10_000
"""Maximum length of the attributes of a sending program, in characters of JSON: each of its spans has a copy."""

MAX_NAME = 1_000
"""Maximum length of a span's name, in characters."""

MAX_FUTURE_S = 86_400
"""Seconds by which the clock of another machine may be ahead."""

UNNAMED = "(no name)"
NANOSECONDS = 10**9
NO_SERVICE = "unknown_service"
"""Start of `service.name` of programs that set none."""

_LEVELS = (5, 10, 20, 30, 40, 50)
"""Levels of Python's `logging`, by groups of four of OpenTelemetry's severity numbers."""

_CONTENT_RECORDS = "gen_ai."
"""Start of the names of log records with content of a call of a model."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Service, conversation and user of a span or log record, with agent and invocation; texts are empty if unknown."""

    service: str
    conversation: str
    user: str
    agent: str
    invocation: str = ""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span to store, without its session and invocation."""

    row: Span
    sender: Sender


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """A log record to store: as a row of the log, or as an event of its span if it has content of a call of a model."""

    trace_id: str
    span_id: str
    at_ns: int
    sender: Sender
    row: NewLogRecord | None = None
    event: dict[str, Any] | None = None


class InvalidItem(ValueError):
    """A span or log record cannot be stored; the message is for the response."""


def read_span(read: ReadItem[ReceivedMessage]) -> ReceivedSpan:
    """Return a span in storable form.

    Raises:
        InvalidItem: it has no valid ids or times.
    """
    message = read.item
    trace_id = _hex_id(message.trace_id, 16, "span", "trace id")
    span_id = _hex_id(message.span_id, 8, "span", "span id")
    started_ns = _check_time(message.start_time_unix_nano, "span")
    attributes = _store_attributes(message.attributes)
    name = truncate(scopes.clean_text(message.name), MAX_NAME) or UNNAMED
    failed = message.status.code == Status.STATUS_CODE_ERROR
    resource = _read_resource(read.program)
    parent = message.parent_span_id
    row = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent.hex() if len(parent) == 8 and any(parent) else "",
        name=name,
        kind=recognize_span_kind(name, attributes),
        started_ns=started_ns,
        ended_ns=min(max(message.end_time_unix_nano, started_ns), _latest_ns()),
        failed=failed,
        message=truncate(scopes.clean_error(message.status.message), MAX_ERROR) if failed else "",
        attributes=scopes.dumps(attributes),
        events=scopes.dumps(list(_store_events(message))),
        links=scopes.dumps(list(_store_links(message))),
        source=scopes.dumps(_describe_source(read, resource)),
    )
    return ReceivedSpan(row, _read_sender(attributes, resource))


def read_record(read: ReadItem[LogRecord]) -> ReceivedRecord:
    """Return a log record in storable form.

    Raises:
        InvalidItem: it belongs to no trace, or has no valid time.
    """
    message = read.item
    trace_id = _hex_id(message.trace_id, 16, "log record", "trace id")
    span_id = message.span_id.hex() if len(message.span_id) == 8 else ""
    at_ns = _check_time(message.time_unix_nano or message.observed_time_unix_nano, "log record")
    attributes = _store_attributes(message.attributes)
    sender = _read_sender(attributes, _read_resource(read.program))
    name = message.event_name or str(attributes.get("event.name") or "")
    if name.startswith(_CONTENT_RECORDS):
        if not span_id:
            raise InvalidItem(f"a log record {name[:100]!r} has no span id")
        body = store_value(_python_value(message.body), MAX_CONTENT)
        event = {"name": name, "at_ns": at_ns, "attributes": attributes, "body": body}
        return ReceivedRecord(trace_id, span_id, at_ns, sender, event=event)
    text = (
        message.body.string_value
        if message.body.HasField("string_value")
        else _record_text(message, attributes, name)
    )
    row = NewLogRecord(
        invocation_id="",
        ref=blake2b(message.SerializeToString(deterministic=True), digest_size=16).hexdigest(),
        number=1,
        at=at_ns / NANOSECONDS,
        level=_LEVELS[min((message.severity_number - 1) // 4, 5)] if message.severity_number > 0 else 20,
        source="log",
        message=truncate(scopes.clean_error(text), MAX_TEXT),
        logger=truncate(scopes.clean_text(read.scope.name), MAX_NAME),
        agent=sender.agent,
    )
    return ReceivedRecord(trace_id, span_id, at_ns, sender, row=row)


def _record_text(message: LogRecord, attributes: dict[str, Any], name: str) -> str:
    body = store_value(_python_value(message.body), MAX_TEXT)
    return f"{name} {scopes.dumps(body if body is not None else attributes)}".strip()


def _read_sender(attributes: dict[str, Any], resource: dict[str, Any]) -> Sender:
    facts = SpanFacts(attributes)
    service = str(resource.get("service.name") or "")
    return Sender(
        service="" if service.startswith(NO_SERVICE) else service,
        conversation=facts.conversation,
        user=facts.user,
        agent=facts.agent,
        invocation=str(attributes.get("gcp.vertex.agent.invocation_id") or ""),
    )


def _describe_source(read: ReadItem[Any], resource: dict[str, Any]) -> dict[str, Any]:
    scope = truncate(scopes.clean_text(f"{read.scope.name} {read.scope.version}".strip()), MAX_NAME)
    state = truncate(scopes.clean_text(read.item.trace_state), MAX_NAME)
    kind = ReceivedMessage.SpanKind.Name(read.item.kind) if 0 <= read.item.kind <= 5 else ""
    dropped = {
        name: count
        for name in ("attributes", "events", "links")
        if (count := getattr(read.item, f"dropped_{name}_count"))
    }
    source = {"resource": resource, "scope": scope, "kind": kind.removeprefix("SPAN_KIND_").lower()}
    further = {"traceState": state, "dropped": dropped}
    return source | {name: value for name, value in further.items() if value}


def _store_events(message: ReceivedMessage) -> Iterator[dict[str, Any]]:
    for event in message.events[:MAX_MEMBERS]:
        attributes = _store_attributes(event.attributes)
        name = truncate(scopes.clean_text(event.name), MAX_NAME)
        yield {"name": name, "at_ns": event.time_unix_nano, "attributes": attributes}
    if (more := len(message.events) - MAX_MEMBERS) > 0:
        yield {"name": f"({more:,} more events are not stored)", "at_ns": 0, "attributes": {}}


def _store_links(message: ReceivedMessage) -> Iterator[dict[str, Any]]:
    for link in message.links[:MAX_MEMBERS]:
        attributes = _store_attributes(link.attributes)
        yield {
            "trace_id": link.trace_id[:16].hex(),
            "span_id": link.span_id[:8].hex(),
            "attributes": attributes,
        }


@lru_cache(maxsize=1)
def _read_resource(program: SendingProgram) -> dict[str, Any]:
    """Return the attributes of a program in storable form; those that do not fit into `MAX_RESOURCE` are left out."""
    stored: dict[str, Any] = {}
    room, omitted = MAX_RESOURCE, 0
    for name, value in _store_attributes(program.resource.attributes).items():
        length = len(scopes.dumps({name: value}))
        if length <= room:
            stored[name] = value
            room -= length
        else:
            omitted += 1
    return {**stored, OMITTED: omitted} if omitted else stored


def _store_attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    pairs = ((item.key, _python_value(item.value)) for item in attributes)
    contents, others = {}, []
    for name, value in pairs:
        if name in CONTENT_ATTRIBUTES:
            contents[name] = value
        else:
            others.append((name, value))
    return store_attributes(others, MAX_TEXT) | store_attributes(contents.items(), MAX_CONTENT)


def _python_value(value: AnyValue) -> Any:
    """Return a value as JSON; bytes as base64."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_python_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {item.key: _python_value(item.value) for item in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return getattr(value, kind) if kind else None


def _hex_id(value: bytes, size: int, noun: str, name: str) -> str:
    if len(value) != size or not any(value):
        raise InvalidItem(f"a {noun} has no {name} of {size} bytes")
    return value.hex()


def _check_time(at_ns: int, noun: str) -> int:
    if not 0 < at_ns <= _latest_ns():
        raise InvalidItem(f"a {noun} has no time, or one more than a day in the future")
    return at_ns


def _latest_ns() -> int:
    return int((time.time() + MAX_FUTURE_S) * NANOSECONDS)
