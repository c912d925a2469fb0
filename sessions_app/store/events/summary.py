"""Summaries of events: the bounded JSON that a timeline row shows, so that pages never parse whole events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any

from pydantic.alias_generators import to_camel

from sessions_app.store import scopes
from sessions_app.store.events.content import (
    CHANGES_BY_PERSON,
    as_seconds,
    content_parts,
    control_signals,
    failed_results,
    find_blob,
    function_calls,
    function_responses,
    is_aborted,
    is_interim_result,
    list_media_blocks,
    message_text,
    partial_parts,
    read_a2a_data,
    waiting_call_ids,
)
from sessions_app.store.events.token_counts import count_tokens
from sessions_app.store.short_texts import truncate

CALLS_IN_SUMMARY = '"calls":['
"""Text that only stored summaries of events with tool calls contain."""

FAILURE_IN_SUMMARY = '"failed":true'
"""Text that only stored summaries of events with failed results contain."""

RENDERED_FIELDS = (
    *("text", "functionCall", "functionResponse", "inlineData", "fileData"),
    *("executableCode", "codeExecutionResult"),
)
"""Fields of a part that timeline rows render."""

ANNOTATION_FIELDS = frozenset(
    {"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
)
"""Fields of a part that only annotate it."""

PART_ORDER = ("thought", "text", "calls", "results", "code", "others", "media")
"""Keys of the parts in a summary, in the order of most events."""

CANCELLED = "cancelled"
"""Flag of an event that closes a cancelled invocation."""

CUT_OFF = "values cut off"
"""Flag of an event with values that were nested too deeply, or inside themselves."""

USUAL_FINISH_REASONS = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})

TEXT_LIMIT, SHORT_LIMIT = 4000, 400
"""Characters of a message text, and of any other value."""

LIST_LIMIT = 50
"""Entries of a list, unless `LIMITS` has another number. Later calls and results have no arguments and no result."""

LIMITS = {"calls": 1_000, "results": 1_000, "artifacts": 1_000, "sources": 12, "searched": 12}
"""Entries of other lists. Calls, results and artifacts are looked up in summaries by id and name."""


def summarize(wire: Mapping[str, Any], asked_model: str = "") -> dict[str, Any]:
    """Return an event's summary, which is bounded and has no empty entries. `asked_model` is the model asked for it.

    Keys: text, thought, cut (text was truncated), calls [{id, name, args, waiting}], results [{id, name, result,
    failed, and interim if another response follows}], media [{mime, name, size or uri, pointer}], code, others
    [{name, value}] (parts of other kinds), order [[key, count]] (see `PART_ORDER`), output, heard and voiced
    (transcriptions of what was said to and by the agent), sources [{title, uri}], searched [queries], delta [keys],
    artifacts {name: version}, signals {name: value}, compaction {start, end, text}, error {code, message}, tokens
    {prompt, output, total, cached, thoughts}, more {key: number of entries that its list leaves out}, model (the
    version that answered), asked_model (only with tokens), node, remote (status of the A2A task that sent it), flags
    [names], changed [{what, by, tool, and args if it were arguments}] (by a person, at a pause of the run). Events that
    a person added by hand also have person (a name).
    """
    actions = wire.get("actions") or {}
    parts = [*content_parts(wire), *partial_parts(wire)]
    text = message_text(wire)
    lists = _list_entries(wire, parts)
    limits = {key: LIMITS.get(key, LIST_LIMIT) for key in lists}
    summary: dict[str, Any] = {
        "text": text[:TEXT_LIMIT],
        "cut": len(text) > TEXT_LIMIT,
        "thought": shorten(message_text(wire, thoughts=True), TEXT_LIMIT),
        **{key: items[: limits[key]] for key, items in lists.items()},
        "artifacts": dict(lists["artifacts"][: limits["artifacts"]]),
        "more": {key: more for key, items in lists.items() if (more := len(items) - limits[key]) > 0},
        "order": _part_order(parts),
        "output": shorten(wire["output"]) if wire.get("output") is not None else None,
        "heard": _transcription_text(wire.get("inputTranscription")),
        "voiced": _transcription_text(wire.get("outputTranscription")),
        "signals": {name: _signal_value(value) for name, value in control_signals(actions)},
        "compaction": _compaction_entry(actions.get("compaction")),
        "error": _error_entry(wire),
        "tokens": (tokens := read_token_counts(wire)),
        "asked_model": shorten(asked_model) if tokens else "",
        "model": shorten(wire.get("modelVersion") or ""),
        "node": shorten((wire.get("nodeInfo") or {}).get("path") or ""),
        "remote": _remote_status(wire),
        "flags": _set_flags(wire),
        "changed": _list_changes(wire),
    }
    return {key: value for key, value in summary.items() if value}


def _list_entries(wire: Mapping[str, Any], parts: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return all entries of the lists of a summary by key; artifacts as pairs."""
    actions = wire.get("actions") or {}
    waiting = waiting_call_ids(wire)
    failed = {id(response) for response in failed_results(wire)}
    return {
        "calls": [
            _call_entry(call, waiting, is_whole=number < LIST_LIMIT)
            for number, call in enumerate(function_calls(wire))
        ],
        "results": [
            _result_entry(result, id(result) in failed, is_whole=number < LIST_LIMIT)
            for number, result in enumerate(function_responses(wire))
        ],
        "media": list(_all_media(parts)),
        "code": [code for part in parts if (code := _code_entry(part))],
        "others": [other for part in parts if (other := _other_entry(part))],
        "sources": list(_distinct_sources(wire)),
        "searched": _search_queries(wire),
        "delta": [shorten(key) for key in actions.get("stateDelta") or {}],
        "artifacts": [
            (shorten(name), version) for name, version in (actions.get("artifactDelta") or {}).items()
        ],
    }


def _part_order(parts: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return the order of the parts if it is not `PART_ORDER`: (key, characters or entries) of consecutive parts.

    After `LIST_LIMIT` of them the rest is joined.
    """
    runs: list[tuple[str, int]] = []
    for part in parts:
        for key, size in _part_keys(part):
            if runs and runs[-1][0] == key:
                size += runs.pop()[1]
            runs.append((key, size))
    ranks = [PART_ORDER.index(key) for key, _ in runs]
    if all(before < after for before, after in pairwise(ranks)):
        return []
    unlisted = {key: sum(size for other, size in runs[LIST_LIMIT:] if other == key) for key in PART_ORDER}
    return [*runs[:LIST_LIMIT], *((key, size) for key, size in unlisted.items() if size)]


def _part_keys(part: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the summary keys of a part, each with its characters of text or number of entries."""
    if isinstance(part.get("text"), str):
        yield ("thought" if part.get("thought") else "text"), len(part["text"])
    if part.get("functionCall"):
        yield "calls", 1
    if part.get("functionResponse"):
        yield "results", 1
    if _code_entry(part):
        yield "code", 1
    if _other_entry(part):
        yield "others", 1
    if media := sum(1 for _ in _all_media([dict(part)])):
        yield "media", media


def shorten(value: Any, limit: int = SHORT_LIMIT) -> str:
    """Return a value as text of at most `limit` characters; the last one is an ellipsis if it is longer."""
    return truncate(_as_text(value), limit)


def shorten_id(value: Any) -> str:
    """Return an id as text of at most `SHORT_LIMIT` characters. A longer one ends with its hash: ids stay distinct."""
    text = _as_text(value)
    if len(text) <= SHORT_LIMIT:
        return text
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{text[: SHORT_LIMIT - len(digest) - 1]}…{digest}"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else scopes.dumps(value)


def _call_entry(call: Mapping[str, Any], waiting: set[str], *, is_whole: bool) -> dict[str, Any]:
    args = call.get("args") or {}
    kept_args = islice(args.items(), LIST_LIMIT if is_whole else 0)
    summary = {
        "id": shorten_id(call.get("id") or ""),
        "name": shorten(call.get("name") or ""),
        "args": {shorten(name): shorten(value) for name, value in kept_args},
        "waiting": call.get("id") in waiting,
    }
    return summary if len(args) <= LIST_LIMIT else {**summary, "more": len(args) - LIST_LIMIT}


def _result_entry(response: Mapping[str, Any], failed: bool, *, is_whole: bool) -> dict[str, Any]:
    return {
        "id": shorten_id(response.get("id") or ""),
        "name": shorten(response.get("name") or ""),
        "result": shorten(_without_bytes(response.get("response"))) if is_whole or failed else "",
        "failed": failed,
        **({"interim": True} if is_interim_result(response) else {}),
    }


def _without_bytes(result: Any) -> Any:
    """Return a result without the bytes in its content blocks, which are among the media."""
    blocks = {id(block) for _, block in list_media_blocks(result)}
    return _replace_blocks(result, blocks) if blocks else result


def _replace_blocks(value: Any, blocks: Set[int]) -> Any:
    """Return a value with nothing but the types of the objects in it whose `id()` is among `blocks`."""
    if id(value) in blocks:
        return {name: value[name] for name in ("type", "mimetype") if name in value}
    if isinstance(value, dict):
        return {name: _replace_blocks(item, blocks) for name, item in value.items()}
    return [_replace_blocks(item, blocks) for item in value] if isinstance(value, list) else value


def _all_media(parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the blobs and files among the parts and in tool results, each with the pointer to its part."""
    for number, part in enumerate(parts):
        if read_a2a_data(part) is None:
            yield from _media_entries(part, f"/content/parts/{number}")
        response, pointer = part.get("functionResponse") or {}, f"/content/parts/{number}/functionResponse"
        response_parts = response.get("parts")
        for index, answer in enumerate(response_parts if isinstance(response_parts, list) else []):
            if isinstance(answer, dict):
                yield from _media_entries(answer, f"{pointer}/parts/{index}")
        for inner, block in list_media_blocks(response.get("response")):
            yield from _media_entries(block, f"{pointer}/response{inner}")


def _media_entries(part: Mapping[str, Any], pointer: str) -> Iterator[dict[str, Any]]:
    if blob := find_blob(part):
        data = blob["data"] if isinstance(blob.get("data"), str) else ""
        size = (len(data) - data[-2:].count("=")) * 3 // 4
        yield {**_type_and_name(blob), "size": size, "pointer": pointer}
    elif file := part.get("fileData"):
        yield {**_type_and_name(file), "uri": shorten(file.get("fileUri") or ""), "pointer": pointer}


def _type_and_name(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"mime": shorten(data.get("mimeType") or ""), "name": shorten(data.get("displayName") or "")}


def _code_entry(part: Mapping[str, Any]) -> dict[str, str] | None:
    if code := part.get("executableCode"):
        return {"language": code.get("language") or "", "code": shorten(code.get("code") or "", TEXT_LIMIT)}
    if result := part.get("codeExecutionResult"):
        output = shorten(result.get("output") or "", TEXT_LIMIT)
        return {"outcome": result.get("outcome") or "", "output": output}
    return None


def _other_entry(part: Mapping[str, Any]) -> dict[str, str] | None:
    """Return a part of any other type: data of a remote agent, a tool built into the model, or an unknown type."""
    if (data := read_a2a_data(part)) is not None:
        return {"name": "data", "value": shorten(data)}
    if any(part.get(name) is not None for name in RENDERED_FIELDS):
        return None
    for name, body in (("toolCall", "args"), ("toolResponse", "response")):
        if isinstance(tool := part.get(name), dict):
            return {"name": shorten(tool.get("toolType") or name), "value": shorten(tool.get(body) or {})}
    unknown = {name: value for name, value in part.items() if name not in ANNOTATION_FIELDS}
    return {"name": shorten(", ".join(unknown)), "value": shorten(unknown)} if unknown else None


def _set_flags(wire: Mapping[str, Any]) -> list[str]:
    """Return the names of the set flags, and the model's finish reason if it is unusual and not the event's error."""
    flags = [name for name in ("partial", "interrupted", "turnComplete") if wire.get(name)]
    flags += [CANCELLED] if is_aborted(wire) else []
    flags += ["partial answer"] if partial_parts(wire) else []
    reason = wire.get("finishReason")
    is_usual = not reason or reason in USUAL_FINISH_REASONS or reason == wire.get("errorCode")
    return flags if is_usual else [*flags, shorten(reason)]


def _remote_status(wire: Mapping[str, Any]) -> str:
    """Return the status of the task of an agent on another server (A2A) that sent the event; empty: no task did.

    `RemoteA2aAgent` stores what the server answered in the event's metadata: a task with its status, or a message.
    """
    metadata = wire.get("customMetadata")
    if not isinstance(metadata, Mapping) or not isinstance(answer := metadata.get("a2a:response"), Mapping):
        return ""
    status = answer.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    if not isinstance(state, str):
        return "message"
    return shorten(state.removeprefix("TASK_STATE_").lower().replace("_", "-"))


def _list_changes(wire: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what people changed of the call that produced the event."""
    names = ("what", "by", "tool", "args")
    return [
        {name: shorten(change[name]) for name in names if change.get(name)}
        for change in _list_dicts(wire.get("customMetadata"), CHANGES_BY_PERSON)[:LIST_LIMIT]
    ]


def _signal_value(value: Any) -> bool | int | str:
    return value if isinstance(value, bool | int) else shorten(value)


def _transcription_text(speech: object) -> str:
    text = speech.get("text") if isinstance(speech, dict) else None
    return shorten(text, TEXT_LIMIT) if isinstance(text, str) else ""


def _distinct_sources(wire: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the distinct sources of the event's text: search results, then the model's citations."""
    chunks = _list_dicts(wire.get("groundingMetadata"), "groundingChunks")
    results = [chunk.get("web") or chunk.get("retrievedContext") or chunk.get("maps") for chunk in chunks]
    seen_sources: set[str] = set()
    for source in (*results, *_list_dicts(wire.get("citationMetadata"), "citations")):
        uri, title = (
            (source.get("uri") or "", source.get("title") or "") if isinstance(source, dict) else ("", "")
        )
        if (uri or title) and (uri or title) not in seen_sources:
            seen_sources.add(uri or title)
            yield {"title": shorten(title or uri), "uri": shorten(uri)}


def _search_queries(wire: Mapping[str, Any]) -> list[str]:
    grounding = wire.get("groundingMetadata")
    queries = grounding.get("webSearchQueries") if isinstance(grounding, dict) else None
    return [shorten(query) for query in queries] if isinstance(queries, list) else []


def _list_dicts(holder: object, name: str) -> list[dict[str, Any]]:
    items = holder.get(name) if isinstance(holder, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _compaction_entry(span: object) -> dict[str, Any] | None:
    if not isinstance(span, dict):
        return None
    content = {"content": span.get("compactedContent")}
    return {
        "start": as_seconds(span.get("startTimestamp")),
        "end": as_seconds(span.get("endTimestamp")),
        "text": shorten(message_text(content), TEXT_LIMIT),
    }


def _error_entry(wire: Mapping[str, Any]) -> dict[str, str] | None:
    code, message = wire.get("errorCode"), wire.get("errorMessage")
    if not (code or message) or is_aborted(wire):
        return None
    return {"code": shorten(code or ""), "message": shorten(message or "")}


def read_token_counts(wire: Mapping[str, Any]) -> dict[str, int]:
    """Return the token counts of a model call by type, without zeros."""
    usage = wire.get("usageMetadata")
    if not isinstance(usage, Mapping):
        return {}
    return count_tokens(lambda name: usage.get(to_camel(name)))
