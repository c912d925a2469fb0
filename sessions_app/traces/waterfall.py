"""Trace of an invocation for display: its spans as bars on a time axis, and its stages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from sessions_app.store.errors import NotFound
from sessions_app.store.models import AgentSession, Event, Run, Span, Trace
from sessions_app.store.realms import LASTING, TRACED
from sessions_app.traces.pauses import Pauses
from sessions_app.traces.tool_exchanges import ToolExchange, read_exchanges

SCALE = 1000
"""Units of the time axis."""

MIN_WIDTH = 3
"""Minimum width of a bar, so that spans without duration are visible."""

MAX_SPANS = 500
MAX_DEPTH = 12

STAGES = {
    "queued": "queued",
    "taken": "picked up by a process",
    "loaded": "session loaded",
    "context ready": "message stored, context built",
    "agent": "agent started",
    "request ready": "instruction, contents and tools prepared",
    "first answer": "first part of the answer",
    "answer": "model answered",
    "model failed": "model failed",
    Trace.ERROR_CAUSE: "cause of the error",
    Trace.LOST_TOOLSET: "toolset failed to load",
    Trace.LOST_WRITE: "calls overwrote each other's state",
    Trace.SEQUENCE_STOPPED: "agents left out after an answer",
    "tool": "tool started",
    "tool ended": "tool ended",
    "tool failed": "tool failed",
    "agent ended": "agent ended",
    "end": "ended",
    Trace.FAILED: "failed",
    Trace.CUT_OFF: "cut off: cancelled, or its process ended",
}

SPAN_SUBJECTS = {
    Span.Kind.INVOCATION: ("run", "gen_ai.workflow.name"),
    Span.Kind.AGENT: ("agent", "gen_ai.agent.name"),
    Span.Kind.MODEL: ("model", "gen_ai.request.model"),
    Span.Kind.TOOL: ("tool", "gen_ai.tool.name"),
}
"""By kind of span: the word for what it measures, and the attribute with its name."""

ENDS = frozenset({"end", Trace.FAILED, Trace.CUT_OFF})
"""Stages that end an invocation, until it is answered or resumed."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as a bar.

    Attributes:
        start, width: in units of `SCALE`.
        seq: seq of the event that the span made; None if it made none.
        kind: `Span.Kind`.
        depth: number of spans that it is inside of.
        seconds: its duration.
        label: what it measures, such as `tool get_weather`.
        name: as recorded, such as `execute_tool get_weather`.
        failed, message: whether it ended with an error, and its message.
        repeats_error: a span directly inside it failed with the same message and shows it.
        attributes: of the span, without credentials.
        exchange: arguments and result of its tool call; None if it is none, or no event has it.
        is_orphan: the span around it is none of these.
    """

    pk: int
    label: str
    name: str
    kind: str
    depth: int
    start: int
    width: int
    seconds: float
    failed: bool
    message: str
    seq: int | None
    attributes: dict[str, Any]
    repeats_error: bool = False
    exchange: ToolExchange | None = None
    is_orphan: bool = False


@dataclass(frozen=True, slots=True)
class ReachedStage:
    """A stage: seconds of work since the start and since the previous stage, and seconds paused since that."""

    label: str
    of: str
    at: float
    since_start: float
    seconds: float
    paused: float = 0.0


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Bars and stages of an invocation. `hidden`: number of spans without a bar."""

    invocation_id: str
    trace: Trace | None
    bars: list[Bar]
    stages: list[ReachedStage]
    seconds: float
    hidden: int


def list_traces(app: str = "") -> QuerySet[Trace]:
    """Return the traces outside of isolated realms, with received ones, of one app or of all."""
    # EXISTS instead of a join: with a join the planner starts with the sessions and sorts all their traces.
    sessions = AgentSession.objects.filter(pk=OuterRef("session"), realm__in=LASTING)
    if app:
        sessions = sessions.filter(app_name=app)
    return Trace.objects.select_related("session").filter(Exists(sessions))


def find_trace(pk: int) -> Trace:
    """Return a trace.

    Raises:
        NotFound: the trace does not exist.
    """
    trace = Trace.objects.select_related("session").filter(pk=pk).first()
    if trace is None:
        raise NotFound(
            f"No trace {pk}.",
            hint="It may have been deleted with its session. /runs/ lists the runs with their traces.",
        )
    return trace


def find_invocation_trace(session: AgentSession, invocation_id: str) -> Trace | None:
    """Return the trace of an invocation; None if it was not recorded."""
    return Trace.objects.filter(session=session, invocation_id=invocation_id).first()


def waterfall(session: AgentSession, invocation_id: str) -> Waterfall:
    """Return the trace of an invocation; empty if none was recorded."""
    rows = Span.objects.filter(session=session, invocation_id=invocation_id).order_by("started_ns", "pk")
    spans = list(rows[: MAX_SPANS + 1])
    hidden = rows.count() - MAX_SPANS if len(spans) > MAX_SPANS else 0
    trace = find_invocation_trace(session, invocation_id)
    # the only stage of a received trace is its error, which its spans show
    stages = [] if session.realm == TRACED else _build_stages(session, invocation_id, trace)
    pauses = list_pauses(trace) if trace else Pauses()
    bars, seconds = _build_bars(session, spans[:MAX_SPANS], pauses) if spans else ([], 0.0)
    seconds = seconds or (stages[-1].since_start if stages else 0.0)
    return Waterfall(invocation_id, trace, bars, stages, seconds, hidden)


def list_pauses(trace: Trace) -> Pauses:
    """Return the pauses of an invocation: from each of its ends to the next stage."""
    return Pauses(
        (ended_at, then)
        for (name, ended_at, _), (_, then, _) in pairwise(trace.decoded_stages)
        if name in ENDS
    )


def working_seconds(trace: Trace) -> float | None:
    """Return the working time of an invocation; None if it has not ended."""
    if trace.finished_at is None:
        return None
    return list_pauses(trace).work(trace.started_at, trace.finished_at)


def _build_bars(session: AgentSession, spans: Sequence[Span], pauses: Pauses) -> tuple[list[Bar], float]:
    first, last = spans[0].started_ns / 1e9, max(span.ended_ns for span in spans) / 1e9
    total_s = max(1e-9, pauses.work(first, last))
    seqs = _event_seqs(session, [span.event_id for span in spans if span.event_id])
    exchanges = read_exchanges(session, spans)
    errors_inside = {(span.parent_id, span.message) for span in spans if span.failed}
    bars = [
        _build_bar(
            span,
            depth,
            _bar_position(
                pauses.work(first, span.started_ns / 1e9),
                pauses.work(span.started_ns / 1e9, span.ended_ns / 1e9),
                total_s,
            ),
            seq=seqs.get(span.event_id),
            repeats_error=(span.span_id, span.message) in errors_inside,
            exchange=exchanges.get(span.span_id),
        )
        for depth, span in _in_order(spans)
    ]
    return bars, total_s


def _build_bar(
    span: Span,
    depth: int,
    position: tuple[int, int],
    *,
    seq: int | None,
    repeats_error: bool,
    exchange: ToolExchange | None,
) -> Bar:
    """Return the bar of a span at a position as `_bar_position` returns it."""
    attributes = json.loads(span.attributes)
    start, width = position
    return Bar(
        pk=span.pk,
        label=label_span(span, attributes),
        name=span.name,
        kind=span.kind,
        depth=depth,
        start=start,
        width=width,
        seconds=(span.ended_ns - span.started_ns) / 1e9,
        failed=span.failed,
        message=span.message,
        seq=seq,
        attributes=attributes,
        repeats_error=repeats_error,
        exchange=exchange,
        is_orphan=depth == 0 and bool(span.parent_id),
    )


def label_span(span: Span, attributes: Mapping[str, Any]) -> str:
    """Return the word and name of what a span measures; its recorded name if no attribute names it.

    A span without a name is one that log records have announced, but that has not arrived.
    """
    if not span.name:
        return "not received yet"
    word, attribute = SPAN_SUBJECTS.get(Span.Kind(span.kind), ("", ""))
    subject = attributes.get(attribute)
    return f"{word} {subject}" if subject else span.name


def _bar_position(start: float, length: float, total_s: float) -> tuple[int, int]:
    width = max(MIN_WIDTH, round(length / total_s * SCALE))
    return min(round(start / total_s * SCALE), SCALE - width), width


def _in_order(spans: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """Yield spans with their depth, parents before children; those whose parents are unknown or a cycle at depth 0."""
    inside: dict[str, list[Span]] = defaultdict(list)
    span_ids = {span.span_id for span in spans}
    for span in spans:
        inside[
            span.parent_id if span.parent_id in span_ids and span.parent_id != span.span_id else ""
        ].append(span)
    waiting = [(0, span) for span in reversed(inside.pop("", []))]
    while waiting or inside:
        if not waiting:
            waiting = [(0, span) for span in inside.pop(next(iter(inside)))]
        depth, span = waiting.pop()
        yield min(depth, MAX_DEPTH), span
        waiting += [(depth + 1, below) for below in reversed(inside.pop(span.span_id, []))]


def _event_seqs(session: AgentSession, event_ids: Sequence[str]) -> dict[str, int]:
    rows = Event.objects.filter(session=session, event_id__in=set(event_ids))
    return dict(rows.values_list("event_id", "seq"))


def _build_stages(session: AgentSession, invocation_id: str, trace: Trace | None) -> list[ReachedStage]:
    entries = list(trace.decoded_stages) if trace else []
    pauses = list_pauses(trace) if trace else Pauses()
    runs = Run.objects.filter(session=session, invocation_id=invocation_id).order_by("created_at")
    for run in runs:
        entries.append(["queued", run.created_at, run.source])
        if run.started_at is not None:
            entries.append(["taken", run.started_at, ""])
    entries.sort(key=lambda stage: stage[1])
    reached = []
    for index, (name, reached_at, of) in enumerate(entries):
        before = entries[index - 1][1] if index else reached_at
        since_start, seconds = pauses.work(entries[0][1], reached_at), pauses.work(before, reached_at)
        reached.append(
            ReachedStage(
                STAGES.get(name, name),
                of,
                reached_at,
                since_start,
                seconds,
                pauses.between(before, reached_at),
            )
        )
    return reached
