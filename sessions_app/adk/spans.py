"""Stores ADK's OpenTelemetry spans with the session and the invocation that they belong to.

Spans do not name either. The recorder assigns the span that is current when an invocation begins to the invocation;
child spans inherit the assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import StatusCode
from typing_extensions import override

from sessions_app.store import scopes
from sessions_app.store.database.bounded_dict import BoundedDict
from sessions_app.store.database.stopwatch import Stopwatch
from sessions_app.store.models import Span as Row
from sessions_app.store.session_key import SessionKey
from sessions_app.store.short_texts import truncate
from sessions_app.store.traces.outbox import outbox
from sessions_app.store.traces.records import MAX_ERROR, save_span
from sessions_app.store.traces.span_attributes import MAX_MEMBERS, store_attributes
from sessions_app.store.traces.span_kinds import recognize_span_kind

STEP_S = 0.1
"""Minimum clock error, in seconds, that counts as a clock change; smaller ones are read latency."""

SPANS_MOST = 20_000
TEXT_MOST = 4_000
"""Maximum length of an attribute's text, in characters."""

MODEL_CALL_ATTRIBUTES = ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response")
"""Attributes that are stored as model calls instead."""

EVENT_ID = "gcp.vertex.agent.event_id"

_RUN_SPAN_PREFIXES = ("invocation", "invoke_")
"""Name prefixes of spans that begin before the recorder is called for their invocation."""

_owners: BoundedDict[int, tuple[SessionKey, str]] = BoundedDict(SPANS_MOST)
_unowned: BoundedDict[int, tuple[str, int | None]] = BoundedDict(SPANS_MOST)
"""Active spans without an invocation: name, and id of the parent span."""


def attach_to_invocation(key: SessionKey, invocation_id: str) -> str:
    """Assign the current span to an invocation. Return its trace id in hex; empty if no spans are recorded."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return ""
    _owners[span.span_id] = key, invocation_id
    parent_id = _unowned.pop(span.span_id, ("", None))[1]
    while (
        parent_id is not None
        and (entry := _unowned.get(parent_id))
        and entry[0].startswith(_RUN_SPAN_PREFIXES)
    ):
        _owners[parent_id] = key, invocation_id
        del _unowned[parent_id]
        parent_id = entry[1]
    return format(span.trace_id, "032x")


class SpanKeeper(SpanProcessor):
    """Span processor that stores the spans of recorded invocations asynchronously and ignores others.

    A program with its own `Runner` adds it to its tracer provider: `provider.add_span_processor(SpanKeeper())`.
    """

    def __init__(self) -> None:
        self._is_shut = False
        self._watches: BoundedDict[int, Stopwatch] = BoundedDict(SPANS_MOST)
        self._late: BoundedDict[int, int] = BoundedDict(SPANS_MOST)

    @override
    def shutdown(self) -> None:
        """Stop recording spans."""
        self._is_shut = True

    @override
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Assign a span to the invocation of its parent."""
        if error := self._clock_error(span):
            self._late[span.context.span_id] = error
        parent_id = span.parent.span_id if span.parent is not None else None
        if parent_id is not None and (owner := _owners.get(parent_id)) is not None:
            _owners[span.context.span_id] = owner
        elif not self._is_shut:
            _unowned[span.context.span_id] = span.name, parent_id

    @override
    def on_end(self, span: ReadableSpan) -> None:
        """Send an ended span to the outbox."""
        _unowned.pop(span.context.span_id, None)
        errors = self._late.pop(span.context.span_id, 0), self._clock_error(span)
        owner = None if self._is_shut else _owners.pop(span.context.span_id, None)
        if owner is not None:
            outbox().enqueue(partial(_save_unit, owner, span, errors))

    def _clock_error(self, span: ReadableSpan) -> int:
        """Return by how many nanoseconds the clock was changed since the first span of the trace."""
        watch = self._watches.get(span.context.trace_id)
        if watch is None:
            self._watches[span.context.trace_id] = Stopwatch()
            return 0
        error = watch.clock_error()
        return round(error * 1e9) if abs(error) > STEP_S else 0


def _save_unit(owner: tuple[SessionKey, str], span: ReadableSpan, clock_errors: tuple[int, int]) -> Any:
    key, invocation_id = owner
    attributes = dict(span.attributes or {})
    row = Row(
        invocation_id=invocation_id,
        trace_id=format(span.context.trace_id, "032x"),
        span_id=format(span.context.span_id, "016x"),
        parent_id=format(span.parent.span_id, "016x") if span.parent else "",
        name=scopes.clean_text(span.name),
        kind=recognize_span_kind(span.name, attributes),
        started_ns=(span.start_time or 0) - clock_errors[0],
        ended_ns=(span.end_time or span.start_time or 0) - clock_errors[1],
        failed=span.status.status_code is StatusCode.ERROR,
        message=truncate(scopes.clean_error(span.status.description or ""), MAX_ERROR),
        event_id=str(attributes.get(EVENT_ID) or ""),
        attributes=scopes.dumps(
            _store_attributes(
                {name: value for name, value in attributes.items() if name not in MODEL_CALL_ATTRIBUTES}
            )
        ),
        events=scopes.dumps([_event_json(event) for event in span.events[:MAX_MEMBERS]]),
        links=scopes.dumps([_link_json(link) for link in span.links[:MAX_MEMBERS]]),
    )
    return partial(save_span, key, row)


def _event_json(event: SpanEvent) -> dict[str, Any]:
    return {
        "name": scopes.clean_text(event.name),
        "at_ns": event.timestamp,
        "attributes": _store_attributes(event.attributes),
    }


def _link_json(link: trace.Link) -> dict[str, Any]:
    return {
        "trace_id": format(link.context.trace_id, "032x"),
        "span_id": format(link.context.span_id, "016x"),
        "attributes": _store_attributes(link.attributes),
    }


def _store_attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    return store_attributes((attributes or {}).items(), TEXT_MOST)
