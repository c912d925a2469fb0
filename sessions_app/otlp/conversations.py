"""The conversation that the spans of a trace tell of, as events of a session in wire form. Pure.

The message of the user is the end of the first request to a model. A span of a model makes an event, a span of a tool
the event with its result. Spans inside of a tool belong to the run of an agent that is used as a tool, or to the tool's
own calls of models: they are no part of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sessions_app.otlp.message_forms import Content
from sessions_app.otlp.span_facts import SpanFacts
from sessions_app.store.models import Span

MAX_DEPTH = 1_000
"""Spans around a span that are looked at."""

Wire = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A stored span, without its JSON, and what it tells."""

    span: Span
    facts: SpanFacts


@dataclass(slots=True)
class _OpenCall:
    """A call of the model without a result."""

    name: str
    given_id: str
    event_id: str


def build_event_id(trace_id: str, span_id: str) -> str:
    """Return the id of the event that a span makes."""
    return f"{trace_id}-{span_id}"


def read_conversation(trace_id: str, spans: Sequence[ReadSpan]) -> list[Wire]:
    """Return the events of a trace in wire form, oldest first.

    Args:
        trace_id: in hex; it becomes the id of the invocation.
        spans: of the trace, in any order.
    """
    ordered = sorted(spans, key=lambda read: (read.span.started_ns, read.span.span_id))
    return _Conversation(trace_id, ordered).read()


def select_model_spans(spans: Sequence[ReadSpan]) -> list[ReadSpan]:
    """Return the spans of model calls. Of spans inside each other, as ADK makes them, the outer one has all facts."""
    by_id = {read.span.span_id: read for read in spans}
    selected: dict[str, ReadSpan] = {}
    inner: list[tuple[str, ReadSpan]] = []
    for read in spans:
        if read.span.kind == Span.Kind.MODEL:
            parent = by_id.get(read.span.parent_id)
            if parent is not None and parent.span.kind == Span.Kind.MODEL and parent is not read:
                inner.append((parent.span.span_id, read))
            else:
                selected[read.span.span_id] = read
    for parent_id, read in inner:
        if outer := selected.get(parent_id):
            selected[parent_id] = replace(outer, facts=outer.facts.merge(read.facts))
    return list(selected.values())


@dataclass(slots=True)
class _Conversation:
    trace_id: str
    spans: Sequence[ReadSpan]
    events: list[Wire] = field(default_factory=list)
    open_calls: list[_OpenCall] = field(default_factory=list)
    unknown_results: list[Wire] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)

    def read(self) -> list[Wire]:
        by_id = {read.span.span_id: read for read in self.spans}
        models = {read.span.span_id: read for read in select_model_spans(self.spans)}
        for read in self.spans:
            if _is_inside_tool(read.span, by_id):
                continue
            if model := models.get(read.span.span_id):
                self._add_model(model)
            elif read.span.kind == Span.Kind.TOOL:
                self._add_tool(read)
        self._add_failure(by_id)
        _order_times(self.events)
        return self.events

    def _add_model(self, read: ReadSpan) -> None:
        if not self.events:
            self._add_message(read)
        self._add_results(read)
        output = read.facts.output
        event = self._event(read, read.facts.agent or "model")
        if output:
            event["content"] = {"role": "model", "parts": list(self._number_calls(read.span, output))}
        if read.facts.model:
            event["modelVersion"] = read.facts.model
        if usage := read.facts.usage:
            event["usageMetadata"] = usage
        if read.span.failed:
            event |= _error(read)
        self.events.append(event)

    def _add_message(self, read: ReadSpan) -> None:
        """Add the message of the user: the last contents of a request before the first answer."""
        parts: list[Any] = []
        for content in reversed(read.facts.input):
            own_parts = [part for part in content["parts"] if "functionResponse" not in part]
            if content["role"] != "user" or not own_parts:
                break
            parts = [*own_parts, *parts]
        if parts:
            event = self._event(read, "user", suffix="-message", at_ns=read.span.started_ns)
            self.events.append({**event, "content": {"role": "user", "parts": parts}})

    def _add_results(self, read: ReadSpan) -> None:
        """Add results that no span tells of, from the end of the next request."""
        responses = [
            part["functionResponse"] for content in read.facts.input[-1:] for part in _response_parts(content)
        ]
        parts = []
        for response in responses:
            if self._fill_result(response):
                continue
            if call := self._take_call(response.get("id"), response.get("name"), any_call=True):
                parts.append({"functionResponse": {**response, "id": call.event_id, "name": call.name}})
        self.unknown_results.clear()
        if parts:
            event = self._event(
                read, read.facts.agent or "model", suffix="-results", at_ns=read.span.started_ns
            )
            self.events.append({**event, "content": {"role": "user", "parts": parts}})

    def _fill_result(self, response: Wire) -> bool:
        """Set the result of a tool whose span does not have it. Return whether there is one."""
        for known in self.unknown_results:
            if response.get("name") in ("", None, known["name"]):
                known["response"] = response.get("response") or {}
                self.unknown_results.remove(known)
                return True
        return False

    def _add_tool(self, read: ReadSpan) -> None:
        facts = read.facts
        name = facts.tool or read.span.name.removeprefix("execute_tool ")
        author = facts.agent or (self.events[-1]["author"] if self.events else "model")
        call = self._take_call(facts.call_id, name)
        if call is None:
            call = _OpenCall(name, facts.call_id, self._unique_id(facts.call_id, read.span, 0))
            part = {"functionCall": {"id": call.event_id, "name": name, "args": facts.arguments}}
            event = self._event(read, author, suffix="-call", at_ns=read.span.started_ns)
            self.events.append({**event, "content": {"role": "model", "parts": [part]}})
        result = facts.result
        if read.span.failed and not (result and result.get("error")):
            result = {"error": read.span.message or facts.error_type or "The tool failed."}
        response = {"id": call.event_id, "name": name, "response": result or {}}
        if result is None:
            self.unknown_results.append(response)
        part = {"functionResponse": response}
        self.events.append({**self._event(read, author), "content": {"role": "user", "parts": [part]}})

    def _add_failure(self, by_id: dict[str, ReadSpan]) -> None:
        """Add the error with which the trace ended, unless an event tells of it."""
        failed = [read for read in self.spans if read.span.failed and read.span.parent_id not in by_id]
        for read in failed[-1:]:
            if read.span.kind in (Span.Kind.MODEL, Span.Kind.TOOL):
                return
            message = read.span.message
            if not any(
                message and message in str((event.get("errorMessage"), event.get("content")))
                for event in self.events
            ):
                event = self._event(read, read.facts.agent or "agent", suffix="-error")
                self.events.append({**event, **_error(read)})

    def _number_calls(self, span: Span, content: Content) -> Iterator[Any]:
        """Yield the parts of an answer, with ids of calls that are unique in the trace: ADK does not export its own."""
        for index, part in enumerate(content["parts"]):
            call = part.get("functionCall")
            if not isinstance(call, dict):
                yield part
                continue
            given_id, name = str(call.get("id") or ""), str(call.get("name") or "")
            event_id = self._unique_id("" if given_id == f"{name}_{index}" else given_id, span, index)
            self.open_calls.append(_OpenCall(name, given_id, event_id))
            yield {"functionCall": {**call, "id": event_id}}

    def _unique_id(self, given_id: str, span: Span, index: int) -> str:
        unique = given_id if given_id and given_id not in self.call_ids else f"{span.span_id}-{index}"
        self.call_ids.add(unique)
        return unique

    def _take_call(self, call_id: Any, name: Any, *, any_call: bool = False) -> _OpenCall | None:
        """Return the open call with an id, else the first of a tool, else the first one; it is open no longer."""
        of_tool = [call for call in self.open_calls if call.name == name or not name]
        with_id = [call for call in of_tool if call_id and call_id in (call.given_id, call.event_id)]
        for call in with_id or (of_tool if name or any_call else []):
            self.open_calls.remove(call)
            return call
        return None

    def _event(self, read: ReadSpan, author: str, *, suffix: str = "", at_ns: int | None = None) -> Wire:
        return {
            "id": build_event_id(self.trace_id, read.span.span_id) + suffix,
            "invocationId": self.trace_id,
            "author": author,
            "timestamp": (read.span.ended_ns if at_ns is None else at_ns) / 1e9,
            "actions": {"stateDelta": {}, "artifactDelta": {}},
        }


def find_error_type(read: ReadSpan) -> str:
    """Return the type of the error of a failed span, from its attributes or its exception."""
    exceptions = (
        str(event["attributes"].get("exception.type") or "")
        for event in read.facts.events
        if _is_exception(event)
    )
    return read.facts.error_type or next(exceptions, "") or "ERROR"


def _error(read: ReadSpan) -> Wire:
    return {"errorCode": find_error_type(read), "errorMessage": read.span.message}


def _response_parts(content: Content) -> list[Wire]:
    return [part for part in content["parts"] if isinstance(part.get("functionResponse"), dict)]


def _is_exception(event: Any) -> bool:
    return event.get("name") == "exception" and isinstance(event.get("attributes"), dict)


def _is_inside_tool(span: Span, by_id: dict[str, ReadSpan]) -> bool:
    """Tell whether a span around a span is that of a tool."""
    around = by_id.get(span.parent_id)
    for _ in range(MAX_DEPTH):
        if around is None or around.span.kind == Span.Kind.TOOL:
            return around is not None
        around = by_id.get(around.span.parent_id)
    return False


def _order_times(events: list[Wire]) -> None:
    """Let no event be later than the next one: ADK's span of a model ends after the tools that it called."""
    for event, following in zip(reversed(events[:-1]), reversed(events[1:]), strict=True):
        event["timestamp"] = min(event["timestamp"], following["timestamp"])
