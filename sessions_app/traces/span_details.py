"""A span with everything that is stored of it, for its page and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sessions_app.store.errors import NotFound
from sessions_app.store.models import Event, Span, Trace
from sessions_app.traces.waterfall import find_invocation_trace, label_span

MAX_CHILDREN = 50
"""Most spans inside a span that its page links to."""


@dataclass(frozen=True, slots=True)
class SpanDetails:
    """A span, and what its page links to.

    Attributes:
        content: the span as JSON.
        trace: of its invocation; None if it has none.
        parent: the span around it; None if it has none, or was not received.
        children: the first spans inside it.
        seq: number of the event that it made; None if it made none.
    """

    span: Span
    label: str
    content: dict[str, Any]
    trace: Trace | None
    parent: Span | None
    children: list[Span]
    seq: int | None

    @property
    def seconds(self) -> float:
        """Its duration."""
        return (self.span.ended_ns - self.span.started_ns) / 1e9

    @property
    def started_at(self) -> float:
        """Its start, in epoch seconds."""
        return self.span.started_ns / 1e9

    @property
    def json(self) -> str:
        """Its JSON, indented, for copying."""
        return json.dumps(self.content, ensure_ascii=False, indent=2)


def find_span(pk: int) -> Span:
    """Return a span with its session.

    Raises:
        NotFound: the span does not exist.
    """
    span = Span.objects.select_related("session").filter(pk=pk).first()
    if span is None:
        raise NotFound(
            f"No span {pk}.",
            hint="It may have been deleted with its session. /runs/ lists the runs with their traces.",
        )
    return span


def describe_span(span: Span) -> SpanDetails:
    """Return a span with what its page links to. At most four queries."""
    of_invocation = Span.objects.filter(session=span.session_id, invocation_id=span.invocation_id)
    of_trace = of_invocation.filter(trace_id=span.trace_id).exclude(pk=span.pk)
    parent = of_trace.filter(span_id=span.parent_id).first() if span.parent_id else None
    events = Event.objects.filter(session=span.session_id, event_id=span.event_id)
    return SpanDetails(
        span=span,
        label=label_span(span, json.loads(span.attributes)),
        content=span_json(span),
        trace=find_invocation_trace(span.session, span.invocation_id),
        parent=parent,
        children=list(of_trace.filter(parent_id=span.span_id).order_by("started_ns", "pk")[:MAX_CHILDREN]),
        seq=events.values_list("seq", flat=True).first() if span.event_id else None,
    )


def span_json(span: Span) -> dict[str, Any]:
    """Return a span as JSON, with the names that OTLP has."""
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": span.started_ns,
        "endTimeUnixNano": span.ended_ns,
        "status": {"code": "error" if span.failed else "unset", "message": span.message},
        "attributes": json.loads(span.attributes),
        "events": json.loads(span.events),
        "links": json.loads(span.links),
        **json.loads(span.source),
    }
