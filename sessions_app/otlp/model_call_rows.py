"""Model calls that received spans tell of, as the recorder stores those that it observes."""

from __future__ import annotations

from collections.abc import Iterable

from sessions_app.otlp.conversations import ReadSpan, build_event_id
from sessions_app.store import scopes
from sessions_app.store.models import ModelCall
from sessions_app.store.session_key import SessionKey
from sessions_app.store.traces import content_store
from sessions_app.store.traces.content_store import Piece
from sessions_app.store.traces.records import save_call

UNKNOWN_TOOLS = "unknown"
"""Name of a list of tools that is not stored: programs may not export the tools of a model."""

_COLUMNS = {
    "promptTokenCount": "prompt_tokens",
    "candidatesTokenCount": "output_tokens",
    "thoughtsTokenCount": "thought_tokens",
    "cachedContentTokenCount": "cached_tokens",
    "totalTokenCount": "total_tokens",
}


def save_model_calls(key: SessionKey, trace_id: str, spans: Iterable[ReadSpan]) -> None:
    """Create or update the calls that spans of models tell of. In the caller's transaction."""
    for read in spans:
        pieces: list[Piece] = []
        call = _build_call(trace_id, read, pieces)
        while not save_call(key, call, pieces):
            pass


def _build_call(trace_id: str, read: ReadSpan, pieces: list[Piece]) -> ModelCall:
    """Return the row of a call, and add the pieces of its contents."""
    span, facts = read.span, read.facts
    event_id = build_event_id(trace_id, span.span_id)
    contents = content_store.list_piece([content_store.make_piece(content) for content in facts.input])
    pieces.append(contents)
    request = {"model": facts.model, "contents": contents.sha, "count": len(facts.input)}
    if facts.instruction:
        pieces.append(content_store.make_piece(facts.instruction))
        request["system_instruction"] = pieces[-1].sha
    if facts.tools:
        pieces.append(
            content_store.list_piece(
                [content_store.make_piece(content_store.strip_secrets(tool)) for tool in facts.tools]
            )
        )
        request["tools"] = pieces[-1].sha
    else:
        request["tools"] = UNKNOWN_TOOLS
    response = None
    if facts.output:
        pieces.append(content_store.make_piece(facts.output))
        response = scopes.dumps([{"content": pieces[-1].sha}])
    usage = {_COLUMNS[field]: count for field, count in facts.usage.items()}
    return ModelCall(
        ref=f"{span.span_id}{trace_id[:16]}",
        invocation_id=trace_id,
        agent=facts.agent,
        model=facts.model,
        started_at=span.started_ns / 1e9,
        finished_at=span.ended_ns / 1e9,
        request=scopes.dumps(request),
        response=response,
        event_id=event_id,
        event_ids=scopes.dumps([event_id]),
        error_type=(facts.error_type or "Error") if span.failed else "",
        error=span.message,
        **usage,
    )
