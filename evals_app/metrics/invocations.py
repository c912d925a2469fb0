"""Readers of an invocation's JSON (snake case, as ADK's `Invocation` dumps it). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sessions_app.store.events.call_pairing import name_occurrences

Json = Mapping[str, Any]

NestedCalls = Mapping[str, Sequence[Mapping[str, Any]]]
"""Tool calls of nested agents, [{id, name, args, agent}], by the occurrence of the turn's call that ran the agents."""

NESTED_CALLS = "nested_calls"
"""Key in the details of a score: `NestedCalls` of each turn, if the metric counted them."""


def content_text(content: Json | None) -> str:
    """Return the text of a message as ADK's metrics see it: one part a line, including thoughts, which are marked."""
    parts = (content or {}).get("parts") or []
    return "\n".join(
        f"[thought] {part['text']}" if part.get("thought") else part["text"]
        for part in parts
        if part.get("text")
    )


def user_text(invocation: Json) -> str:
    """Return the user's text; other content is named by its type."""
    return content_text(invocation.get("user_content")) or _media_text(invocation.get("user_content"))


def answer_text(invocation: Json) -> str:
    """Return the final response's text; other content is named by its type."""
    return content_text(invocation.get("final_response")) or _media_text(invocation.get("final_response"))


def tool_calls(invocation: Json, nested: NestedCalls | None = None) -> list[dict[str, Any]]:
    """Return the tool calls in order: [{id, name, args, occurrence}] (`eval_case.get_all_tool_calls`).

    `occurrence` names a call within its turn, because ids are reused (`name_occurrences`). Nested calls follow the call
    that ran their agent, and have its occurrence.
    """
    calls: list[dict[str, Any]] = []
    direct_calls = list(_iter_calls(invocation))
    names = name_occurrences(call.get("id") or "" for call in direct_calls)
    for call, name in zip(direct_calls, names, strict=True):
        fields = {"id": call.get("id") or "", "name": call.get("name") or "", "args": call.get("args") or {}}
        calls += [
            {**nested_call, "occurrence": name} for nested_call in (fields, *(nested or {}).get(name, ()))
        ]
    return calls


def read_turn_nested_calls(details: Json, turn: int) -> NestedCalls:
    """Return the nested calls of a turn from the details of the metric's overall score; empty if it counted none."""
    turns: Sequence[NestedCalls] = details.get(NESTED_CALLS) or ()
    return turns[turn] if turn < len(turns) else {}


def steps(invocation: Json) -> list[tuple[str, str]]:
    """Return the agents' intermediate texts: (author, text)."""
    data = invocation.get("intermediate_data") or {}
    messages = [
        (event.get("author") or "", content_text(event.get("content")))
        for event in data.get("invocation_events") or []
    ]
    messages += [
        (author, content_text({"parts": parts})) for author, parts in data.get("intermediate_responses") or []
    ]
    return [(author, text) for author, text in messages if text]


def _iter_calls(invocation: Json) -> Iterator[Json]:
    data = invocation.get("intermediate_data") or {}
    yield from data.get("tool_uses") or []
    for event in data.get("invocation_events") or []:
        for part in (event.get("content") or {}).get("parts") or []:
            if part.get("function_call"):
                yield part["function_call"]


def _media_text(content: Json | None) -> str:
    parts = (content or {}).get("parts") or []
    names = [_part_name(part) for part in parts]
    return ", ".join(name for name in names if name)


def _part_name(part: Json) -> str:
    for kind in ("inline_data", "file_data"):
        if blob := part.get(kind):
            return f"[{blob.get('mime_type') or 'file'}]"
    return ""
