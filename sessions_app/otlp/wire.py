"""Bodies of OTLP over HTTP: protobuf or JSON, gzip or not, read span by span, so that a broken one refuses only itself.

https://opentelemetry.io/docs/specs/otlp/. The outer messages are walked without parsing them: an empty span takes two
bytes of a body, and a parsed one a hundred times as much memory.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sessions_app.store import text_input
from sessions_app.store.errors import BadInput, TooLarge, UnsupportedMedia

PROTOBUF, JSON = "application/x-protobuf", "application/json"

MAX_ITEMS = 10_000
"""Most spans or log records of a request. Exporters send 512."""

MAX_ITEM_BYTES = 4_000_000
"""Largest span or log record."""

MAX_FIELDS = 100_000
"""Most fields of the messages around spans and log records."""

SMALLER_BATCHES = "Export smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)."

MAX_DEPTH = 90
"""Deepest JSON; protobuf itself reads a hundred levels."""

_ID_FIELDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}

Item = TypeVar("Item", bound=Message)


class Signal(NamedTuple, Generic[Item]):
    """A kind of telemetry: the message of an item, that of the response, and the names of its fields in JSON.

    Attributes:
        item: class of a span or log record.
        response: class of the response.
        noun: name of an item in messages.
        rejected: field of the response with the number of refused items.
        names: JSON fields of the resources, of the scopes in them, and of the items in those.
    """

    item: type[Item]
    response: type[Message]
    noun: str
    rejected: str
    names: tuple[str, str, str]


TRACES = Signal(
    Span, ExportTraceServiceResponse, "span", "rejected_spans", ("resourceSpans", "scopeSpans", "spans")
)
LOGS = Signal(
    LogRecord,
    ExportLogsServiceResponse,
    "log record",
    "rejected_log_records",
    ("resourceLogs", "scopeLogs", "logRecords"),
)
METRICS = Signal(
    Metric,
    ExportMetricsServiceResponse,
    "metric",
    "rejected_data_points",
    ("resourceMetrics", "scopeMetrics", "metrics"),
)


@dataclass(frozen=True, eq=False)
class SendingProgram:
    """The program that sent some items. Equal only to itself, so that what it tells is read once for all of them."""

    resource: Resource


@dataclass(frozen=True, slots=True)
class ReadItem(Generic[Item]):
    """A span or log record with the program and the scope that sent it."""

    item: Item
    program: SendingProgram
    scope: InstrumentationScope


class UnreadableItem(NamedTuple):
    """A span or log record that could not be read. `reason` is for the response."""

    reason: str


Items = Iterator[ReadItem[Item] | UnreadableItem]


def unpack_body(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a body without its compression.

    Args:
        encoding: its Content-Encoding.
        max_bytes: largest unpacked size.

    Raises:
        BadInput: it is not what its encoding says.
        TooLarge: it is larger when unpacked.
        UnsupportedMedia: the encoding is none that is read.
    """
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise UnsupportedMedia(
            f"The encoding {encoding[:40]!r} is not read.",
            hint="Send gzip (OTEL_EXPORTER_OTLP_COMPRESSION=gzip) or none.",
        )
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        unpacked = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise BadInput(
            "The body is no gzip.", hint="Check Content-Encoding, and send the body again."
        ) from error
    if len(unpacked) > max_bytes:
        raise TooLarge(
            f"The body is larger than {max_bytes:,} bytes when unpacked.",
            hint="Export smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE), or raise DEVUI_MAX_JSON_MB.",
        )
    if not unpacker.eof:
        raise BadInput("The gzip ends too early.", hint="Send the whole body.")
    return unpacked


def read_items(signal: Signal[Item], body: bytes, media_type: str) -> Items[Item]:
    """Yield the items of a request. Reads as it yields.

    Raises:
        BadInput: the body as a whole cannot be read, or has more than `MAX_ITEMS` items.
        UnsupportedMedia: the media type is none of OTLP.
    """
    readers = {PROTOBUF: _read_protobuf, JSON: _read_json}
    if media_type not in readers:
        raise UnsupportedMedia(
            f"The content type {media_type[:80]!r} is not OTLP.", hint=f"Send {PROTOBUF} or {JSON}."
        )
    for count, item in enumerate(readers[media_type](signal, body), start=1):
        if count > MAX_ITEMS:
            raise TooLarge(
                f"The request has more than {MAX_ITEMS:,} {signal.noun}s. The first {MAX_ITEMS:,} may be stored.",
                hint=SMALLER_BATCHES,
            )
        yield item


def build_response(signal: Signal[Any], media_type: str, rejected: int, message: str) -> bytes:
    """Return the body of a response in the encoding of its request, with the number of refused items and why."""
    response: Any = signal.response()
    if rejected or message:
        setattr(response.partial_success, signal.rejected, rejected)
        response.partial_success.error_message = message
    if media_type == JSON:
        text: str = json_format.MessageToJson(response, indent=None)
        return text.encode()
    serialized: bytes = response.SerializeToString()
    return serialized


def _read_protobuf(signal: Signal[Item], body: bytes) -> Items[Item]:
    """Yield the items of a protobuf. Requests of traces and logs have the same field numbers."""
    walker = _FieldWalker()
    for group in walker.iter_contents(memoryview(body), 1):
        program = SendingProgram(_merge(Resource, walker.iter_contents(group, 1)))
        for scope_group in walker.iter_contents(group, 2):
            scope = _merge(InstrumentationScope, walker.iter_contents(scope_group, 1))
            for item in walker.iter_contents(scope_group, 2):
                parse = partial(_parse_protobuf, signal.item, item)
                yield _parse_item(signal, item.nbytes, parse, program, scope)


def _parse_protobuf(message: type[Item], content: memoryview) -> Item:
    item: Item = message.FromString(bytes(content))
    return item


def _merge(message: type[Any], contents: Iterable[memoryview]) -> Any:
    """Return the message in the contents of its field; an empty one if there is none or it cannot be read."""
    merged = message()
    try:
        for content in contents:
            merged.MergeFromString(bytes(content[:MAX_ITEM_BYTES]))
    except DecodeError:
        return message()
    return merged


def _parse_item(
    signal: Signal[Item],
    size: int,
    parse: Callable[[], Item],
    program: SendingProgram,
    scope: InstrumentationScope,
) -> ReadItem[Item] | UnreadableItem:
    if size > MAX_ITEM_BYTES:
        return UnreadableItem(f"a {signal.noun} is larger than {MAX_ITEM_BYTES:,} bytes")
    try:
        return ReadItem(parse(), program, scope)
    except (
        DecodeError,
        json_format.ParseError,
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        return UnreadableItem(f"a {signal.noun} cannot be read: {str(error)[:200]}")


class _FieldWalker:
    """Walks over the fields of the messages of a body, of which it reads a limited number."""

    def __init__(self) -> None:
        self._remaining = MAX_FIELDS

    def iter_contents(self, message: memoryview, wanted: int) -> Iterator[memoryview]:
        """Yield the contents of the fields of a message with the number `wanted`; skip others.

        Raises:
            BadInput: it is no protobuf, or is cut off.
            TooLarge: the body has too many fields.
        """
        position, end = 0, message.nbytes
        while position < end:
            self._remaining -= 1
            if self._remaining < 0:
                raise TooLarge(f"The request has more than {MAX_FIELDS:,} fields.", hint=SMALLER_BATCHES)
            tag, position = _read_varint(message, position)
            kind, size = tag & 7, 0
            if kind == _VARINT:
                _, position = _read_varint(message, position)
            elif kind == _BYTES:
                size, position = _read_varint(message, position)
            else:
                size = _FIXED_SIZES.get(kind, end + 1)
            if position + size > end:
                raise _cut_off()
            if kind == _BYTES and tag >> 3 == wanted:
                yield message[position : position + size]
            position += size


def _cut_off() -> BadInput:
    return BadInput("The body is no OTLP request in protobuf, or is cut off.", hint="Send the whole body.")


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = 0
    for index, byte in enumerate(message[position : position + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise _cut_off()


def _read_json(signal: Signal[Item], body: bytes) -> Items[Item]:
    """Yield the items of a JSON body. In OTLP's JSON ids are hex; protobuf's own JSON has base64."""
    try:
        request = text_input.parse_json(body)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"The body is no JSON: {str(error)[:200]}", hint="Send an OTLP request as JSON."
        ) from error
    if not isinstance(request, dict):
        raise BadInput("The body is no OTLP request.", hint=f"Send an object with {signal.names[0]}.")
    resources, scopes, items = signal.names
    for group in _objects(request, resources):
        program = SendingProgram(_parse_json(Resource, group.get("resource")))
        for scope_group in _objects(group, scopes):
            scope = _parse_json(InstrumentationScope, scope_group.get("scope"))
            for item in _objects(scope_group, items):
                parse = partial(_message_from_json, signal.item, item)
                yield _parse_item(signal, 0, parse, program, scope)


def _objects(parent: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in a list of an object.

    Raises:
        BadInput: it is no list of objects.
    """
    values = parent.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise BadInput(f"{name} is no list of objects.", hint="Send an OTLP request as JSON.")
    yield from values


def _parse_json(message: type[Any], value: Any) -> Any:
    """Return a message from its JSON; an empty one if it cannot be read."""
    try:
        return _message_from_json(message, value or {})
    except (json_format.ParseError, ValueError, TypeError, RecursionError):
        return message()


def _message_from_json(message: type[Any], value: Any) -> Any:
    return json_format.ParseDict(
        _with_base64_ids(value), message(), ignore_unknown_fields=True, max_recursion_depth=MAX_DEPTH
    )


def _with_base64_ids(value: Any) -> Any:
    """Return a span, log record or link with its ids in base64, as protobuf's JSON has them. Attributes have none.

    Raises:
        ValueError: an id is no hex.
    """
    if not isinstance(value, dict):
        return value
    converted = {
        name: base64.b64encode(bytes.fromhex(item)).decode()
        if name in _ID_FIELDS and isinstance(item, str)
        else item
        for name, item in value.items()
    }
    if isinstance(links := converted.get("links"), list):
        converted["links"] = [_with_base64_ids(link) for link in links]
    return converted
