"""What is read out of an event's wire form (camelCase JSON, as ADK's REST sends it). Pure.

`record` turns a wire event into the row that is stored; `summarise` into the bounded JSON a timeline row
shows, so that pages never parse whole events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sessions_app import attribution, state
from sessions_app.attribution import UNKNOWN, Writer
from sessions_app.models import Kind, Scope
from sessions_app.redact import redact

INTERNAL_METADATA_PREFIX = "__adk_internal_"
"""ADK keeps its own marks under this prefix of `customMetadata`; they are stored and never sent out."""

TEXT_LIMIT = 4000
SHORT_LIMIT = 400
LIST_LIMIT = 50
SOURCES_LIMIT = 12
MAX_TOKENS = 2**31 - 1
"""Most tokens an event's column holds."""


@dataclass(frozen=True, slots=True)
class KeyWrite:
    """One key of a state delta, ready to be stored. `removed` makes it a tombstone."""

    scope: Scope
    key: str
    value: state.Value
    writer: Writer = UNKNOWN
    removed: bool = False

    @property
    def name(self) -> str:
        """The key with its scope's prefix."""
        return state.PREFIX[self.scope] + self.key


@dataclass(frozen=True, slots=True)
class TempKey:
    """One `temp:` key of an event, as the recorder saw it."""

    key: str
    value: state.Value
    writer: Writer = UNKNOWN


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event ready to be stored: its columns, its JSON, and the keys it writes in the order of locking."""

    event_id: str
    invocation_id: str
    author: str
    kind: Kind
    timestamp: float
    branch: str
    is_final: bool
    is_error: bool
    total_tokens: int
    text: str
    summary: str
    data: str
    private: str | None
    writes: list[KeyWrite] = field(default_factory=list)
    temp: list[TempKey] = field(default_factory=list)


def record(
    wire: dict[str, Any],
    *,
    delta: Mapping[str, Any] | None = None,
    writers: Mapping[str, Writer] | None = None,
    keep_temp: bool = False,
) -> EventRecord:
    """Return the row of a wire event, in a form every store holds: nothing in it can lose the event.

    Args:
        wire: the whole event in wire form; its `actions.stateDelta` is replaced by the canonical delta.
        delta: the state delta as Python values; default: the one in `wire`.
        writers: who wrote each prefixed key, as the recorder saw it.
        keep_temp: keep `temp:` keys beside the event, as the recorder wants them.
    """
    written = delta if delta is not None else (wire.get("actions") or {}).get("stateDelta") or {}
    try:
        return _record(wire, written, writers or {}, keep_temp)
    except (ValueError, RecursionError):
        return _record(state.jsonable(wire), written, writers or {}, keep_temp)


def _record(
    wire: dict[str, Any], written: Mapping[str, Any], writers: Mapping[str, Writer], keep_temp: bool
) -> EventRecord:
    """Return the row of a wire event.

    Raises:
        ValueError: something in it is not JSON (`state.storable`).
        RecursionError: it is nested too deeply.
    """
    scoped = state.split(written)
    seen = {**_inferred(wire, written), **writers}
    known = {state.canonical_key(key): writer for key, writer in seen.items()}
    writes = [
        KeyWrite(scope, key, state.canonical(value, key), known.get(state.PREFIX[scope] + key, UNKNOWN))
        for scope, key, value in scoped.stored()
    ]
    wire["actions"] = {**(wire.get("actions") or {}), "stateDelta": _stored_delta(written, writes)}
    temp = [
        TempKey(key, state.canonical(value, key), known.get(state.TEMP_PREFIX + key, UNKNOWN))
        for key, value in scoped.temp.items()
    ]
    public = redact(without_internals(wire))
    data = state.storable(public)
    summary = summarise(public)
    return EventRecord(
        event_id=wire["id"],
        invocation_id=wire.get("invocationId") or "",
        author=state.clean_text(wire.get("author") or ""),
        kind=kind_of(wire),
        timestamp=wire["timestamp"],
        branch=state.clean_text(wire.get("branch") or ""),
        is_final=is_final_response(wire),
        is_error=bool(wire.get("errorCode")),
        total_tokens=_total_tokens(wire),
        text=state.clean_text(summary.get("text", "")),
        summary=state.storable(summary),
        data=data,
        private=None if public == wire else state.storable(wire),
        writes=writes,
        temp=temp if keep_temp else [],
    )


def removing(record: EventRecord, keys: Collection[str]) -> EventRecord:
    """Return the record with tombstones for these keys, which have their prefixes and are in its delta."""
    removed = set(map(state.canonical_key, keys))
    writes = [replace(write, removed=write.name in removed) for write in record.writes]
    return replace(record, writes=writes)


def _stored_delta(written: Mapping[str, Any], writes: list[KeyWrite]) -> dict[str, Any]:
    """Return the canonical delta in the order it was written in."""
    stored = {write.name: write.value.data for write in writes}
    return {key: stored[key] for key in map(state.canonical_key, written) if key in stored}


def _inferred(wire: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Writer]:
    author, responses = wire.get("author") or "", function_responses(wire)
    return attribution.infer(delta, author=author, responses=responses, text=spoken(wire))


def without_internals(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event without ADK's internal metadata (`google/adk/events/_internal_metadata.py`)."""
    metadata = wire.get("customMetadata")
    if not isinstance(metadata, dict):
        return dict(wire)
    kept = {key: value for key, value in metadata.items() if not key.startswith(INTERNAL_METADATA_PREFIX)}
    if len(kept) == len(metadata):
        return dict(wire)
    public = {key: value for key, value in wire.items() if key != "customMetadata"}
    return {**public, "customMetadata": kept} if kept else public


def parts_of(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of the event's content."""
    content = wire.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts or [] if isinstance(part, dict)]


def function_calls(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function calls among the event's parts."""
    return [part["functionCall"] for part in parts_of(wire) if part.get("functionCall")]


def function_responses(wire: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function responses among the event's parts."""
    return [part["functionResponse"] for part in parts_of(wire) if part.get("functionResponse")]


def spoken(wire: Mapping[str, Any], *, thoughts: bool = False) -> str:
    """Return the event's text without its thoughts, or the thoughts alone."""
    return "".join(
        part["text"]
        for part in parts_of(wire)
        if isinstance(part.get("text"), str) and bool(part.get("thought")) is thoughts
    )


def is_final_response(wire: Mapping[str, Any]) -> bool:
    """Tell whether the event is a final response (ADK's rule, `Event.is_final_response`)."""
    actions = wire.get("actions") or {}
    if actions.get("skipSummarization") or wire.get("longRunningToolIds"):
        return True
    calls = function_calls(wire)
    if wire.get("errorCode") and not wire.get("partial") and not calls:
        return True
    parts = parts_of(wire)
    trailing_result = bool(parts) and parts[-1].get("codeExecutionResult") is not None
    return not (calls or function_responses(wire) or wire.get("partial") or trailing_result)


def kind_of(wire: Mapping[str, Any]) -> Kind:
    """Tell which of the seven kinds the event is; the most telling one when several fit."""
    actions = wire.get("actions") or {}
    if wire.get("errorCode") or wire.get("errorMessage"):
        return Kind.ERROR
    if function_calls(wire):
        return Kind.TOOL_CALL
    if function_responses(wire):
        return Kind.TOOL_RESULT
    if parts_of(wire):
        return Kind.USER if wire.get("author") == "user" else Kind.AGENT
    if any(True for _ in _signals(actions)):
        return Kind.CONTROL
    if actions.get("stateDelta"):
        return Kind.STATE
    return Kind.AGENT if wire.get("output") is not None else Kind.CONTROL


def summarise(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a timeline row shows of an event: bounded, empty entries left out.

    Keys: text, thought, cut (text was cut), calls [{id, name, args, waiting}], results [{id, name, result,
    failed}], media [{mime, name, size or uri, pointer}], code, output, heard and voiced (transcriptions of what was
    said to and by the agent), sources [{title, uri}], searched [queries], delta [keys], artifacts {name: version},
    signals {name: value}, compaction {start, end, text}, error {code, message}, tokens {prompt, output, total,
    cached, thoughts}, model, node, flags [names].
    """
    actions = wire.get("actions") or {}
    parts = parts_of(wire)
    text = spoken(wire)
    waiting = set(wire.get("longRunningToolIds") or [])
    artifacts = actions.get("artifactDelta") or {}
    summary: dict[str, Any] = {
        "text": text[:TEXT_LIMIT],
        "cut": len(text) > TEXT_LIMIT,
        "thought": spoken(wire, thoughts=True)[:TEXT_LIMIT],
        "calls": [_call(call, waiting) for call in function_calls(wire)[:LIST_LIMIT]],
        "results": [_result(result) for result in function_responses(wire)[:LIST_LIMIT]],
        "media": list(islice(_all_media(parts), LIST_LIMIT)),
        "code": [code for part in parts[:LIST_LIMIT] if (code := _code(part))],
        "output": short(wire["output"]) if wire.get("output") is not None else None,
        "heard": _transcribed(wire.get("inputTranscription")),
        "voiced": _transcribed(wire.get("outputTranscription")),
        "sources": list(islice(_sources(wire), SOURCES_LIMIT)),
        "searched": _searched(wire),
        "delta": [short(key) for key in islice(actions.get("stateDelta") or {}, LIST_LIMIT)],
        "artifacts": {short(name): version for name, version in islice(artifacts.items(), LIST_LIMIT)},
        "signals": dict(_signals(actions)),
        "compaction": _compaction(actions.get("compaction")),
        "error": _error(wire),
        "tokens": _tokens(wire),
        "model": short(wire.get("modelVersion") or ""),
        "node": short((wire.get("nodeInfo") or {}).get("path") or ""),
        "flags": [name for name in ("partial", "interrupted", "turnComplete") if wire.get(name)],
    }
    return {key: value for key, value in summary.items() if value}


def short(value: Any) -> str:
    """Return a value as text of at most `SHORT_LIMIT` characters."""
    text = value if isinstance(value, str) else state.dumps(value)
    return text if len(text) <= SHORT_LIMIT else text[: SHORT_LIMIT - 1] + "…"


def _call(call: Mapping[str, Any], waiting: set[str]) -> dict[str, Any]:
    args = islice((call.get("args") or {}).items(), LIST_LIMIT)
    return {
        "id": short(call.get("id") or ""),
        "name": short(call.get("name") or ""),
        "args": {short(name): short(value) for name, value in args},
        "waiting": call.get("id") in waiting,
    }


def _result(response: Mapping[str, Any]) -> dict[str, Any]:
    body = response.get("response")
    failed = isinstance(body, dict) and bool(body.get("error") or body.get("status") == "error")
    return {
        "id": short(response.get("id") or ""),
        "name": short(response.get("name") or ""),
        "result": short(body),
        "failed": failed,
    }


def _all_media(parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the blobs and files among the parts and in what tools answered, each with the place of its part."""
    for number, part in enumerate(parts):
        yield from _media(part, f"/content/parts/{number}")
        given = (part.get("functionResponse") or {}).get("parts")
        for place, answer in enumerate(given if isinstance(given, list) else []):
            if isinstance(answer, dict):
                yield from _media(answer, f"/content/parts/{number}/functionResponse/parts/{place}")


def _media(part: Mapping[str, Any], pointer: str) -> Iterator[dict[str, Any]]:
    if blob := part.get("inlineData"):
        data = blob.get("data") or ""
        size = (len(data) - data[-2:].count("=")) * 3 // 4
        yield {**_named(blob), "size": size, "pointer": pointer}
    elif file := part.get("fileData"):
        yield {**_named(file), "uri": short(file.get("fileUri") or ""), "pointer": pointer}


def _named(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"mime": short(data.get("mimeType") or ""), "name": short(data.get("displayName") or "")}


def _code(part: Mapping[str, Any]) -> dict[str, str] | None:
    if code := part.get("executableCode"):
        return {"language": code.get("language") or "", "code": (code.get("code") or "")[:TEXT_LIMIT]}
    if result := part.get("codeExecutionResult"):
        return {"outcome": result.get("outcome") or "", "output": (result.get("output") or "")[:TEXT_LIMIT]}
    return None


_SIGNALS = (
    "transferToAgent",
    "escalate",
    "skipSummarization",
    "endOfAgent",
    "agentState",
    "rewindBeforeInvocationId",
    "compaction",
    "route",
    "requestedAuthConfigs",
    "requestedToolConfirmations",
    "renderUiWidgets",
    "setModelResponse",
)


def _signals(actions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in _SIGNALS:
        value = actions.get(name)
        if value not in (None, False, {}, []):
            yield name, value if isinstance(value, bool | int) else short(value)


def _transcribed(said: object) -> str:
    text = said.get("text") if isinstance(said, dict) else None
    return text[:TEXT_LIMIT] if isinstance(text, str) else ""


def _sources(wire: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield where the event's text comes from: what a search found, then what the model cites, each address once."""
    chunks = _listed(wire.get("groundingMetadata"), "groundingChunks")
    found = [chunk.get("web") or chunk.get("retrievedContext") or chunk.get("maps") for chunk in chunks]
    told: set[str] = set()
    for source in (*found, *_listed(wire.get("citationMetadata"), "citations")):
        uri, title = (
            (source.get("uri") or "", source.get("title") or "") if isinstance(source, dict) else ("", "")
        )
        if (uri or title) and (uri or title) not in told:
            told.add(uri or title)
            yield {"title": short(title or uri), "uri": short(uri)}


def _searched(wire: Mapping[str, Any]) -> list[str]:
    grounding = wire.get("groundingMetadata")
    queries = grounding.get("webSearchQueries") if isinstance(grounding, dict) else None
    return [short(query) for query in queries[:SOURCES_LIMIT]] if isinstance(queries, list) else []


def _listed(holder: object, name: str) -> list[dict[str, Any]]:
    found = holder.get(name) if isinstance(holder, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def seconds(said: object) -> float:
    """Return a time as an event has it; a text that some other program wrote in its place counts as none."""
    return float(said) if isinstance(said, int | float) else 0.0


def _compaction(span: object) -> dict[str, Any] | None:
    if not isinstance(span, dict):
        return None
    content = {"content": span.get("compactedContent")}
    return {
        "start": seconds(span.get("startTimestamp")),
        "end": seconds(span.get("endTimestamp")),
        "text": spoken(content)[:TEXT_LIMIT],
    }


def _error(wire: Mapping[str, Any]) -> dict[str, str] | None:
    code, message = wire.get("errorCode"), wire.get("errorMessage")
    if not (code or message):
        return None
    return {"code": short(code or ""), "message": short(message or "")}


def _tokens(wire: Mapping[str, Any]) -> dict[str, int]:
    usage = wire.get("usageMetadata")
    if not isinstance(usage, Mapping):
        return {}
    names = {
        "prompt": "promptTokenCount",
        "output": "candidatesTokenCount",
        "total": "totalTokenCount",
        "cached": "cachedContentTokenCount",
        "thoughts": "thoughtsTokenCount",
    }
    counts = ((short_name, usage.get(name)) for short_name, name in names.items())
    return {name: count for name, count in counts if isinstance(count, int) and count > 0}


def _total_tokens(wire: Mapping[str, Any]) -> int:
    return min(_tokens(wire).get("total", 0), MAX_TOKENS)
