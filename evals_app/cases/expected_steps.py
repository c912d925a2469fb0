"""Expected steps of a turn before its response: tool calls and texts of agents, in both of ADK's forms. Pure.

`IntermediateData` has separate lists of calls and texts; `InvocationEvents` has them as parts of events.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sessions_app.store.events.call_pairing import CallPairing

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """Expected tool call. `origin` is its former index in the turn; None for a new call."""

    name: str
    args: Json
    origin: int | None = None


@dataclass(frozen=True, slots=True)
class ExpectedText:
    """Expected intermediate text of an agent. `origin` is its former index; None for a new text."""

    author: str
    text: str
    origin: int | None = None


def expected_calls(data: Json | None) -> list[ExpectedCall]:
    """Return the expected tool calls, in order."""
    calls = (data or {}).get("tool_uses") or [
        part["function_call"] for _, part in _iter_parts(data, "function_call")
    ]
    return [
        ExpectedCall(call.get("name") or "", call.get("args") or {}, index)
        for index, call in enumerate(calls)
    ]


def expected_texts(data: Json | None) -> list[ExpectedText]:
    """Return the expected intermediate texts of agents, in order."""
    listed = (data or {}).get("intermediate_responses") or []
    texts = [(author, _parts_text(parts)) for author, parts in listed]
    texts += [(event.get("author") or "", part["text"]) for event, part in _iter_parts(data, "text")]
    return [ExpectedText(author, text, index) for index, (author, text) in enumerate(texts)]


def with_steps(
    data: Json | None, calls: Sequence[ExpectedCall], texts: Sequence[ExpectedText], author: str
) -> Json | None:
    """Return a turn's intermediate data with new calls (in lists of events by `author`) and texts. Other data stays."""
    if list(calls) == expected_calls(data) and list(texts) == expected_texts(data):
        return data
    if data is not None and "invocation_events" in data:
        return _update_events(data, calls, texts, author)
    return _update_lists(data or {}, calls, texts)


def _update_lists(data: Json, calls: Sequence[ExpectedCall], texts: Sequence[ExpectedText]) -> Json | None:
    old_calls, old_said = data.get("tool_uses") or [], data.get("intermediate_responses") or []
    updated = dict(data)
    if calls or old_calls:
        updated["tool_uses"] = [_merge_call(_item_at(old_calls, call.origin), call) for call in calls]
    if texts or old_said:
        updated["intermediate_responses"] = [
            _merge_text(_item_at(old_said, text.origin), text) for text in texts
        ]
    return updated if any(updated.values()) or data else None


def _merge_call(old: Any, new: ExpectedCall) -> Json:
    merged = {**(old or {}), "name": new.name, "args": new.args}
    if not new.args and old is not None and not old.get("args"):
        merged = {**old, "name": new.name}
    return merged


def _merge_text(old: Any, new: ExpectedText) -> list[Any]:
    if old is None:
        return [new.author, [{"text": new.text}]]
    parts = old[1]
    return [new.author, parts if _parts_text(parts) == new.text else [{"text": new.text}]]


def _update_events(
    data: Json, calls: Sequence[ExpectedCall], texts: Sequence[ExpectedText], author: str
) -> Json:
    """Update the parts of events in place, and append new ones."""
    updated = copy.deepcopy(data)
    slots = [part for _, part in _iter_parts(updated, "function_call")]
    old = [copy.deepcopy(part["function_call"]) for part in slots]
    old_calls = [call for call in calls if call.origin is not None and call.origin < len(old)]
    indexes = sorted({call.origin for call in old_calls if call.origin is not None})
    removed_parts = [slot for index, slot in enumerate(slots) if index not in indexes]
    removed_parts += _find_results(updated, removed_parts)
    for index, call in zip(indexes, old_calls, strict=False):
        slots[index]["function_call"] = _merge_call(old[call.origin or 0], call)
    text_parts = [(event, part) for event, part in _iter_parts(updated, "text")]
    still = {text.origin: text for text in texts if text.origin is not None}
    for index, (event, part) in enumerate(text_parts):
        if index in still:
            part["text"], event["author"] = still[index].text, still[index].author
        else:
            removed_parts.append(part)
    _remove_parts(updated, removed_parts)
    new: list[tuple[str, Json]] = [
        (author, {"function_call": _merge_call(None, call)}) for call in calls if call not in old_calls
    ]
    new += [(text.author, {"text": text.text}) for text in texts if text.origin is None]
    updated["invocation_events"] += [
        {"author": by, "content": {"role": "model", "parts": [part]}} for by, part in new
    ]
    return updated


def _find_results(data: Json, call_parts: Sequence[Json]) -> list[Json]:
    """Return the parts with the results of some calls."""
    pairing = CallPairing[Json]()
    results = []
    for event in data["invocation_events"]:
        parts = (event.get("content") or {}).get("parts") or []
        taken = [
            (part, pairing.take(part["function_response"])) for part in parts if part.get("function_response")
        ]
        results += [part for part, call in taken if any(call is call_part for call_part in call_parts)]
        pairing.add_event((part["function_call"], part) for part in parts if part.get("function_call"))
    return results


def _remove_parts(data: Json, removed_parts: Sequence[Json]) -> None:
    """Remove parts from the events, and events without parts."""
    if not removed_parts:
        return
    events = []
    for event in data["invocation_events"]:
        parts = (event.get("content") or {}).get("parts")
        if parts:
            remaining = [part for part in parts if not any(part is removed for removed in removed_parts)]
            if not remaining:
                continue
            event["content"]["parts"] = remaining
        events.append(event)
    data["invocation_events"] = events


def _iter_parts(data: Json | None, what: str) -> Iterator[tuple[Json, Json]]:
    """Yield (event, part) for parts of a type. Thoughts are no text."""
    for event in (data or {}).get("invocation_events") or []:
        for part in (event.get("content") or {}).get("parts") or []:
            if part.get(what) and not (what == "text" and part.get("thought")):
                yield event, part


def _parts_text(parts: Any) -> str:
    return "\n".join(part["text"] for part in parts or [] if part.get("text") and not part.get("thought"))


def _item_at(listed: Sequence[Any], index: int | None) -> Any:
    return listed[index] if index is not None and index < len(listed) else None
