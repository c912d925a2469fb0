"""Arguments and results of the tool calls that spans measure, from the summaries of their events."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sessions_app.store.events.call_pairing import CallPairing
from sessions_app.store.events.kinds import EventKind
from sessions_app.store.models import AgentSession, Event, Span

MAX_EVENTS = 500
"""Events with calls or results of an invocation that are read."""

CALL_ID = "gen_ai.tool.call.id"
TOOL_NAME = "gen_ai.tool.name"


@dataclass(slots=True, eq=False)
class ToolExchange:
    """A tool call and its result.

    Attributes:
        name: of the tool.
        call_id: of the call; empty without one.
        arguments: by name; each value is a text, shortened as in the timeline.
        call_seq: seq of the event with the call, which has the whole arguments.
        result: a text, shortened likewise; empty without a result.
        result_seq: seq of the event with the result, which has it whole; None without a result.
    """

    name: str
    call_id: str
    arguments: dict[str, str]
    call_seq: int
    result: str = ""
    result_seq: int | None = None


def read_exchanges(session: AgentSession, spans: Sequence[Span]) -> dict[str, ToolExchange]:
    """Return the calls of the tool spans of an invocation by span id, each call at most once.

    One query; none without tool spans.
    """
    tool_spans = [span for span in spans if span.kind == Span.Kind.TOOL]
    if not tool_spans:
        return {}
    rows = Event.objects.filter(
        session=session,
        invocation_id=tool_spans[0].invocation_id,
        kind__in=(EventKind.TOOL_CALL, EventKind.TOOL_RESULT),
    ).order_by("seq")
    unused = _pair_calls(rows.only("seq", "branch", "summary")[:MAX_EVENTS])
    attributes = {span.span_id: json.loads(span.attributes) for span in tool_spans}
    # An agent may set any value.
    call_ids = {span_id: str(values.get(CALL_ID, "")) for span_id, values in attributes.items()}
    exchanges: dict[str, ToolExchange] = {}
    # Spans of tools that raised have no id: what they called is among what spans with an id leave.
    for span_id in sorted(attributes, key=lambda span_id: not call_ids[span_id]):
        same_name = unused[str(attributes[span_id].get(TOOL_NAME, ""))]
        if exchange := _find_exchange(same_name, call_ids[span_id]):
            same_name.remove(exchange)
            exchanges[span_id] = exchange
    return exchanges


def _find_exchange(exchanges: Sequence[ToolExchange], call_id: str) -> ToolExchange | None:
    """Return the first exchange of a call id, else the first without a result; None if there is none."""
    same_call = (exchange for exchange in exchanges if exchange.call_id == call_id)
    unanswered = (exchange for exchange in exchanges if exchange.result_seq is None)
    return next(chain(same_call, unanswered), None)


def _pair_calls(events: Iterable[Event]) -> dict[str, list[ToolExchange]]:
    """Return calls by name, in order, with their results."""
    pairing: CallPairing[ToolExchange] = CallPairing()
    calls: dict[str, list[ToolExchange]] = defaultdict(list)
    for event in events:
        summary: dict[str, Any] = event.decoded_summary
        event_calls = [
            (call, ToolExchange(call.get("name", ""), call.get("id", ""), call.get("args") or {}, event.seq))
            for call in summary.get("calls", ())
        ]
        pairing.add_event(event_calls, event.branch)
        for _, exchange in event_calls:
            calls[exchange.name].append(exchange)
        for result in summary.get("results", ()):
            if answered := pairing.take(result, event.branch):
                answered.result, answered.result_seq = result.get("result", ""), event.seq
    return calls
