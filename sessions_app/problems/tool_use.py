"""Evidence of tools: the calls and the results of events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sessions_app.problems.evidence import ResultForm, ToolCall, ToolResult
from sessions_app.store import scopes
from sessions_app.store.events.call_pairing import CallPairing
from sessions_app.store.events.content import RETRIED_ERROR, function_calls, function_responses
from sessions_app.store.models import Event


def _read_calls(event: Event, wires: Mapping[int, dict[str, Any]]) -> Iterator[ToolCall]:
    full_calls = function_calls(wires.get(event.seq, {}))
    for index, call in enumerate(event.decoded_summary["calls"] or ()):
        args = full_calls[index].get("args") or {} if index < len(full_calls) else None
        if args is not None and not isinstance(args, dict):
            args = None
        yield ToolCall(event.seq, event.event_id, event.author, call["id"], call["name"], args)


def read_tool_use(
    events: Iterable[Event], wires: Mapping[int, dict[str, Any]]
) -> tuple[list[ToolCall], list[ToolResult]]:
    """Return the calls and the results of events, each result with its call."""
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    pairing = CallPairing[ToolCall]()
    for event in events:
        summary = event.decoded_summary
        own_results = read_results(event.seq, event.author, summary, wires.get(event.seq, {}))
        for answered, result in zip(summary["results"] or (), own_results, strict=True):
            results.append(replace(result, call=pairing.take(answered, event.branch)))
        own_calls = list(_read_calls(event, wires))
        pairing.add_event(zip(summary["calls"] or (), own_calls, strict=True), event.branch)
        calls += own_calls
    return calls, results


def read_results(
    seq: int, author: str, summary: Mapping[str, Any], wire: Mapping[str, Any]
) -> Iterator[ToolResult]:
    """Yield the results of an event, by its summary and its JSON; it is empty for large events."""
    full_responses = function_responses(wire)
    for index, result in enumerate(summary["results"] or ()):
        response = full_responses[index].get("response") if index < len(full_responses) else None
        response = response if isinstance(response, dict) else None
        form = _result_form(response) if result["failed"] else None
        message = _failure_message(response, form) if response and form else ""
        yield ToolResult(
            seq,
            author,
            result["id"],
            result["name"],
            response,
            form,
            message or (result["result"] if form else ""),
        )


def _result_form(response: Mapping[str, Any] | None) -> ResultForm:
    response = response or {}
    if response.get("response_type") == RETRIED_ERROR:
        return ResultForm.RETRIED
    if response.get("isError") or response.get("is_error"):
        return ResultForm.MCP
    return ResultForm.ERROR if response.get("error") or not response else ResultForm.STATUS


def _failure_message(response: Mapping[str, Any], form: ResultForm) -> str:
    """Return the message of a failed result."""
    if form is ResultForm.RETRIED:
        parts = (response.get("error_type"), response.get("error_details"))
        return ": ".join(part for part in parts if isinstance(part, str) and part)
    if form is ResultForm.MCP:
        content = response.get("content")
        texts = (
            [part.get("text") for part in content if isinstance(part, dict)]
            if isinstance(content, list)
            else []
        )
        return " ".join(text for text in texts if isinstance(text, str))
    names = ("error",) if form is ResultForm.ERROR else ("error_message", "message", "report", "detail")
    value = next((response[name] for name in names if response.get(name)), "")
    if isinstance(value, dict):
        value = value.get("message") or value
    return value if isinstance(value, str) else scopes.dumps(value)
