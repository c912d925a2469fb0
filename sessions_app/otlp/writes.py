"""Writes of received spans and log records, idempotent by the ids of trace and span."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from sessions_app.otlp.conversations import (
    ReadSpan,
    build_event_id,
    find_error_type,
    read_conversation,
    select_model_spans,
)
from sessions_app.otlp.model_call_rows import save_model_calls
from sessions_app.otlp.received import ReceivedRecord, ReceivedSpan
from sessions_app.otlp.session_events import write_events
from sessions_app.otlp.span_facts import SpanFacts, decode_facts
from sessions_app.otlp.traced_sessions import find_or_make_trace
from sessions_app.store import realms, scopes
from sessions_app.store.database import change_notification
from sessions_app.store.database.named_locks import take_lock
from sessions_app.store.index import index_backlog
from sessions_app.store.models import LogRecord, Run, Span, Trace
from sessions_app.store.traces.log_records import save_log_records

LOCK = "otlp"
"""Name of the lock of these writes: sessions of conversations are found and created by one process at a time."""

MAX_SPANS = 20_000
"""Most spans of a trace that are stored."""

MAX_CONVERSATION_SPANS = 2_000
"""Most spans of a trace that its conversation is read out of: the first ones of agents, models and tools."""

MAX_CONVERSATION_CHARS = 50_000_000
"""Most characters of those spans: they are read at once, and again when spans arrive."""

MAX_RECORDS = 5_000
"""Most log records of a trace that are stored."""

MAX_CONTENT_RECORDS = 1_000
"""Most log records with content of a call of a model that are stored with its span."""

MAX_CONTENT_CHARS = 4_000_000
"""Characters of the events of a span from which on it takes no further log records."""

_READ_AT_ONCE = 10

_READ_KINDS = (Span.Kind.INVOCATION, Span.Kind.AGENT, Span.Kind.MODEL, Span.Kind.TOOL)
_IDENTITY = ("name", "parent_id", "started_ns", "ended_ns")
_RECEIVED = (*_IDENTITY, "kind", "failed", "message", "event_id", "attributes", "events", "links", "source")
"""Columns that a span sets which arrives after its log records."""


@transaction.atomic
def save_spans(by_trace: Sequence[tuple[str, Sequence[ReceivedSpan]]]) -> list[str]:
    """Store spans by the ids of their traces, and what they tell of conversations. Return the reasons for refused ones.

    A span that is stored already is accepted again, but not with other content.
    """
    take_lock(LOCK)
    refusals = [refusal for trace_id, received in by_trace for refusal in _save_trace(trace_id, received)]
    change_notification.notify_after_commit()
    return refusals


@transaction.atomic
def save_records(by_trace: Sequence[tuple[str, Sequence[ReceivedRecord]]]) -> list[str]:
    """Store log records by the ids of their traces. Return the reasons for refused ones."""
    take_lock(LOCK)
    refusals = [refusal for trace_id, received in by_trace for refusal in _save_log(trace_id, received)]
    change_notification.notify_after_commit()
    return refusals


def _save_trace(trace_id: str, received: Sequence[ReceivedSpan]) -> list[str]:
    started_at = min(item.row.started_ns for item in received) / 1e9
    trace = find_or_make_trace(trace_id, [item.sender for item in received], started_at)
    is_new = trace._state.adding
    of_trace = Span.objects.filter(trace_id=trace_id).only("span_id", *_IDENTITY)
    stored = {} if is_new else {span.span_id: span for span in of_trace}
    new: dict[str, Span] = {}
    refusals: list[str] = []
    for item in received:
        row = item.row
        before = new.get(row.span_id) or stored.get(row.span_id)
        if before is None or not before.name:
            new[row.span_id] = _place_span(row, trace, before)
        elif any(getattr(before, name) != getattr(row, name) for name in _IDENTITY):
            refusals.append(f"span {row.span_id} of trace {trace_id} is stored with other content")
    announced = [row for row in new.values() if row.pk is not None]
    fresh = [row for row in new.values() if row.pk is None]
    room = max(MAX_SPANS - len(stored), 0)
    Span.objects.bulk_create(fresh[:room])
    for row in announced:
        row.save(update_fields=_RECEIVED)
    if new:
        _update_trace(trace, set(new), fresh[:room] if is_new else None)
    return refusals + [f"trace {trace_id} has more than {MAX_SPANS:,} spans"] * len(fresh[room:])


def _save_log(trace_id: str, received: Sequence[ReceivedRecord]) -> list[str]:
    started_at = min(item.at_ns for item in received) / 1e9
    trace = find_or_make_trace(trace_id, [item.sender for item in received], started_at)
    if trace._state.adding:
        trace.save()
    stored = LogRecord.objects.filter(session=trace.session_id, invocation_id=trace.invocation_id).count()
    rows = [item.row for item in received if item.row is not None]
    room = max(MAX_RECORDS - stored, 0)
    for row in rows[:room]:
        save_log_records(trace.session.key, [row._replace(invocation_id=trace.invocation_id)])
    refusals = [f"trace {trace_id} has more than {MAX_RECORDS:,} log records"] * len(rows[room:])
    contents = [item for item in received if item.event is not None]
    return refusals + (_save_content_records(trace, contents) if contents else [])


def _place_span(row: Span, trace: Trace, before: Span | None) -> Span:
    """Return the row of a span in its session, in place of one that only its log records have announced."""
    row.session_id, row.invocation_id = trace.session_id, trace.invocation_id
    is_traced = trace.session.realm == realms.TRACED
    if is_traced and row.kind in (Span.Kind.MODEL, Span.Kind.TOOL):
        row.event_id = build_event_id(row.trace_id, row.span_id)
    elif not is_traced:
        row.event_id = scopes.clean_text(
            str(json.loads(row.attributes).get("gcp.vertex.agent.event_id") or "")
        )
    if before is not None:
        row.pk = before.pk
        row.events = scopes.dumps([*json.loads(row.events), *json.loads(before.events)])
    return row


def _save_content_records(trace: Trace, received: Sequence[ReceivedRecord]) -> list[str]:
    """Store log records with content as events of their spans, which may arrive later. Return refusals."""
    by_span: dict[str, list[ReceivedRecord]] = {}
    for item in received:
        by_span.setdefault(item.span_id, []).append(item)
    of_trace = Span.objects.filter(trace_id=received[0].trace_id)
    rows = {row.span_id: row for row in of_trace.filter(span_id__in=by_span)}
    room = MAX_SPANS - of_trace.count()
    refusals: list[str] = []
    for span_id, items in by_span.items():
        if span_id not in rows:
            room -= 1
            if room < 0:
                refusals += [f"trace {items[0].trace_id} has more than {MAX_SPANS:,} spans"] * len(items)
                continue
        row = rows.get(span_id) or _announced_span(trace, items[0])
        if len(row.events) > MAX_CONTENT_CHARS:
            refusals += [f"span {span_id} of trace {row.trace_id} has too large log records"] * len(items)
            continue
        stored = json.loads(row.events)
        added = [item.event for item in items if item.event not in stored]
        row.events = scopes.dumps([*stored, *added][:MAX_CONTENT_RECORDS])
        row.save()
    _update_trace(trace, set(by_span))
    return refusals


def _announced_span(trace: Trace, record: ReceivedRecord) -> Span:
    """Return the row of a span of which only a log record has arrived. It has no name."""
    return Span(
        session_id=trace.session_id,
        invocation_id=trace.invocation_id,
        trace_id=record.trace_id,
        span_id=record.span_id,
        name="",
        kind=Span.Kind.OTHER,
        started_ns=record.at_ns,
        ended_ns=record.at_ns,
    )


def _update_trace(trace: Trace, changed: set[str], rows: Sequence[Span] | None = None) -> None:
    """Set the facts of a trace and, of a traced session, the events and model calls that its spans tell of.

    Args:
        trace: as `find_or_make_trace` returns it.
        changed: ids of the spans that have arrived.
        rows: all spans of the trace, if they are known: it is new.
    """
    if trace.session.realm != realms.TRACED:
        index_backlog.recheck(trace.session_id, trace.invocation_id)
        return
    spans = _read_spans(trace) if rows is None else rows
    ordered = sorted((span for span in spans if span.kind in _READ_KINDS), key=lambda span: span.started_ns)
    read = [_decode_span(span) for span in ordered[:MAX_CONVERSATION_SPANS]]
    _set_facts(trace, spans, read)
    models = select_model_spans(read)
    parents = {item.span.span_id: item.span.parent_id for item in read}
    save_model_calls(
        trace.session.key,
        trace.invocation_id,
        [
            model
            for model in models
            if model.span.span_id in changed or _has_changed_inside(model, parents, changed)
        ],
    )
    wires = read_conversation(trace.invocation_id, read)
    if write_events(trace.session, trace.invocation_id, wires, is_new=rows is not None):
        index_backlog.recheck(trace.session_id, trace.invocation_id)


def _read_spans(trace: Trace) -> list[Span]:
    """Return the spans of a trace: those that its conversation is read out of, and the first and the last one."""
    spans = Span.objects.filter(session=trace.session_id, invocation_id=trace.invocation_id)
    read = spans.filter(kind__in=_READ_KINDS).order_by("started_ns", "pk")[:MAX_CONVERSATION_SPANS]
    by_pk: dict[int, Span] = {}
    room = MAX_CONVERSATION_CHARS
    for span in read.iterator(chunk_size=_READ_AT_ONCE):
        room -= len(span.attributes) + len(span.events)
        if room < 0:
            break
        by_pk[span.pk] = span
    for outermost in (spans.order_by("started_ns").first(), spans.order_by("-ended_ns").first()):
        if outermost is not None:
            by_pk.setdefault(outermost.pk, outermost)
    return list(by_pk.values())


def _set_facts(trace: Trace, spans: Sequence[Span], read: Sequence[ReadSpan]) -> None:
    """Set the times, the agent and the outcome of a trace, and store it."""
    trace.started_at = min(span.started_ns for span in spans) / 1e9
    trace.finished_at = max(span.ended_ns for span in spans) / 1e9
    trace.root_agent = trace.root_agent or _root_agent(read)
    failed = _failed_root(read)
    trace.own_status = Run.Status.DONE if failed is None else Run.Status.FAILED
    trace.stages = scopes.dumps(
        [[Trace.FAILED, trace.finished_at, find_error_type(failed)]] if failed else []
    )
    trace.save()


def _has_changed_inside(model: ReadSpan, parents: dict[str, str], changed: set[str]) -> bool:
    return any(parents.get(span_id) == model.span.span_id for span_id in changed)


def _failed_root(read: Sequence[ReadSpan]) -> ReadSpan | None:
    """Return the first failed one of the spans that have none around them; None if all succeeded."""
    span_ids = {item.span.span_id for item in read}
    roots = (item for item in read if item.span.parent_id not in span_ids)
    return next((item for item in roots if item.span.failed), None)


def _decode_span(span: Span) -> ReadSpan:
    return ReadSpan(span, decode_facts(span.attributes, span.events))


def _root_agent(read: Iterable[ReadSpan]) -> str:
    """Return the agent of the outermost span that names one."""
    outermost: Any = next((item.facts for item in read if item.facts.agent), SpanFacts({}))
    return str(outermost.agent)
