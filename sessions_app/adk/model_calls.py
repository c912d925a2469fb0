"""Conversion of ADK's model requests and responses to records of the store.

Hashes are computed in the thread that writes the records, not in the event loop. Known contents are recognized by a
cheap fingerprint, since consecutive requests of a long session are mostly equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel

from sessions_app.store import scopes
from sessions_app.store.database.bounded_dict import BoundedDict
from sessions_app.store.events.token_counts import count_tokens
from sessions_app.store.models import ModelCall
from sessions_app.store.session_key import SessionKey
from sessions_app.store.short_texts import truncate
from sessions_app.store.traces import content_store
from sessions_app.store.traces.content_store import Piece
from sessions_app.store.traces.outbox import Make, Unit
from sessions_app.store.traces.records import MAX_ERROR, save_call

KNOWN_CONTENTS_MOST = 100_000
"""Maximum number of remembered fingerprints."""

_known_contents: BoundedDict[tuple[Any, ...], str] = BoundedDict(KNOWN_CONTENTS_MOST)

_SEPARATE = frozenset({"contents", "config", "tools_dict", "live_connect_config"})
_CONFIG_APART = ("system_instruction", "tools")

USAGE = {
    "prompt_tokens": "prompt",
    "output_tokens": "output",
    "thought_tokens": "thoughts",
    "cached_tokens": "cached",
    "total_tokens": "total",
}
"""Kinds of tokens, by their columns."""


@dataclass(eq=False, slots=True)
class OpenModelCall:
    """A model call in progress.

    Attributes:
        key, invocation_id, branch: where it belongs.
        ref: its id in the trace.
        agent: name of the agent that calls the model.
        request: the request as ADK sends it.
        started_at, first_at, finished_at: epoch seconds of its start, first and last response; None: not yet.
        responses: its complete responses.
        partials: its partial responses, stored if no complete one follows.
        chunks: number of partial responses.
        event_ids: ids of the events made of its responses.
        error: the exception that ended it.
        by_callback: a callback answered in place of the model.
        is_live: a request of a live connection.
    """

    key: SessionKey
    ref: str
    invocation_id: str
    agent: str
    request: LlmRequest
    started_at: float
    branch: str
    first_at: float | None = None
    finished_at: float | None = None
    responses: list[LlmResponse] = field(default_factory=list)
    partials: list[LlmResponse] = field(default_factory=list)
    chunks: int = 0
    event_ids: list[str] = field(default_factory=list)
    error: Exception | None = None
    by_callback: bool = False
    is_live: bool = False

    def snapshot(self) -> Make:
        """Return a function that builds the record of the call as of now, for the thread that writes it."""
        request = self.request
        config = request.config.model_copy() if request.config else None
        frozen = replace(
            self,
            request=request.model_copy(update={"contents": list(request.contents), "config": config}),
            responses=list(self.responses),
            partials=[] if self.responses else list(self.partials),
            event_ids=list(self.event_ids),
        )
        return partial(_call_record, frozen)


def _call_record(call: OpenModelCall) -> Unit:
    pieces: list[Piece] = []
    request = _request_fields(call.request, pieces) | ({"live": True} if call.is_live else {})
    response = [_store_response(item, pieces) for item in call.responses]
    if call.partials:
        response = [{"content": _store_content(join_partials(call.partials), pieces), "partial": True}]
    row = ModelCall(
        ref=call.ref,
        invocation_id=call.invocation_id,
        agent=scopes.clean_text(call.agent),
        branch=scopes.clean_text(call.branch),
        model=scopes.clean_text(call.request.model or ""),
        started_at=call.started_at,
        first_at=call.first_at,
        finished_at=call.finished_at,
        request=scopes.dumps(request),
        response=scopes.dumps(response) if response else None,
        chunks=call.chunks,
        event_id=call.event_ids[-1] if call.event_ids else "",
        event_ids=scopes.dumps(call.event_ids),
        by_callback=call.by_callback,
        error_type=type(call.error).__name__ if call.error else "",
        error=truncate(scopes.clean_error(str(call.error or "")), MAX_ERROR),
        **token_usage(call.responses or call.partials),
    )
    return partial(save_call, call.key, row, pieces)


def request_json(request: LlmRequest) -> dict[str, Any]:
    """Return a request as JSON, in the form in which a recorded one is read (`traces.model_calls.request_json`)."""
    config = request.config or types.GenerateContentConfig()
    other_fields = {
        name: _to_json(value)
        for name in type(config).model_fields
        if name not in _CONFIG_APART and (value := getattr(config, name, None)) is not None
    }
    return {
        "model": request.model or "",
        "system_instruction": content_store.make_storable(_to_json(config.system_instruction)),
        "contents": [content_store.make_storable(_to_json(content)) for content in request.contents],
        "tools": [
            content_store.make_storable(content_store.strip_secrets(tool))
            for tool in _tool_declarations(config.tools or [])
        ],
        "config": content_store.make_storable(content_store.strip_secrets(other_fields)),
    }


def _request_fields(request: LlmRequest, pieces: list[Piece]) -> dict[str, Any]:
    """Return a request with contents, instruction and tools replaced by the hashes of their pieces."""
    fields: dict[str, Any] = {
        name: value
        for name in LlmRequest.model_fields
        if name not in _SEPARATE and (value := getattr(request, name, None)) is not None
    }
    fields = {name: content_store.make_storable(_to_json(value)) for name, value in fields.items()}
    content_list = content_store.list_piece([_content_piece(content) for content in request.contents])
    pieces.append(content_list)
    fields["contents"], fields["count"] = content_list.sha, len(request.contents)
    if request.config is not None:
        fields |= _config_fields(request.config, pieces)
    return fields


def _config_fields(config: types.GenerateContentConfig, pieces: list[Piece]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if config.system_instruction:
        instruction = content_store.make_piece(_to_json(config.system_instruction))
        pieces.append(instruction)
        fields["system_instruction"] = instruction.sha
    if config.tools:
        tools = content_store.list_piece(
            [
                content_store.make_piece(content_store.strip_secrets(tool))
                for tool in _tool_declarations(config.tools)
            ]
        )
        pieces.append(tools)
        fields["tools"] = tools.sha
    other_fields = {
        name: getattr(config, name)
        for name in type(config).model_fields
        if name not in _CONFIG_APART and getattr(config, name, None) is not None
    }
    fields["config"] = content_store.make_storable(
        content_store.strip_secrets({name: _to_json(item) for name, item in other_fields.items()})
    )
    return fields


def _tool_declarations(tools: Iterable[Any]) -> list[Any]:
    """Return all function declarations and all other tools, one item each."""
    declared: list[Any] = []
    for tool in tools:
        functions = getattr(tool, "function_declarations", None)
        declared += [_to_json(function) for function in functions or ()]
        other_fields = _to_json(tool)
        if isinstance(other_fields, dict):
            other_fields.pop("functionDeclarations", None)
        if other_fields:
            declared.append(other_fields)
    return declared


def response_json(response: LlmResponse) -> dict[str, Any]:
    """Return a response as JSON, in the form in which a recorded one is read (`traces.model_calls.responses`)."""
    fields = _response_fields(response)
    if response.content is not None:
        fields["content"] = content_store.make_storable(_to_json(response.content))
    return fields


def _store_response(response: LlmResponse, pieces: list[Piece]) -> dict[str, Any]:
    fields = _response_fields(response)
    if response.content is not None:
        fields["content"] = _store_content(response.content, pieces)
    return fields


def _response_fields(response: LlmResponse) -> dict[str, Any]:
    """Return the fields of a response without its content."""
    fields: dict[str, Any] = {
        name: value
        for name in LlmResponse.model_fields
        if name != "content" and (value := getattr(response, name, None)) is not None
    }
    metadata = fields.pop("custom_metadata", {})
    if agents := {name: value for name, value in metadata.items() if name != scopes.EVALUATION_KEY}:
        fields["custom_metadata"] = agents
    return {name: content_store.make_storable(_to_json(value)) for name, value in fields.items()}


def _store_content(content: types.Content, pieces: list[Piece]) -> str:
    piece = _content_piece(content)
    pieces.append(piece)
    return piece.sha


def join_partials(partials: Iterable[LlmResponse]) -> types.Content:
    """Return the text of partial responses as one content."""
    texts = [
        part.text
        for response in partials
        if response.content
        for part in response.content.parts or []
        if part.text
    ]
    return types.Content(role="model", parts=[types.Part(text="".join(texts))])


def token_usage(responses: Iterable[LlmResponse]) -> dict[str, int]:
    """Return the token counts of a call by the columns of `ModelCall`, from the last response that has them."""
    known = [response.usage_metadata for response in responses if response.usage_metadata is not None]
    if not known:
        return {}
    counts = count_tokens(lambda name: getattr(known[-1], name, None))
    return {column: counts.get(kind, 0) for column, kind in USAGE.items()}


def _content_piece(content: types.Content) -> Piece:
    """Return the piece of a content. A known content is serialized only if it has to be stored."""
    fingerprint = _content_fingerprint(content)
    if fingerprint is None:
        return content_store.make_piece(_to_json(content))
    sha = _known_contents.get(fingerprint)
    if sha is not None:
        return Piece(sha, partial(_content_json, content))
    piece = content_store.make_piece(_to_json(content))
    _known_contents[fingerprint] = piece.sha
    return piece


def _content_json(content: types.Content) -> str:
    return content_store.make_piece(_to_json(content)).text


def _content_fingerprint(content: types.Content) -> tuple[Any, ...] | None:
    """Return a cheap fingerprint of a content of text, calls and results; None for other contents."""
    parts = content.parts or ()
    if len(parts) == 1 and len(parts[0].__pydantic_fields_set__) == 1 and (text := parts[0].text) is not None:
        return content.role, len(text), hash(text)  # nearly all contents
    fingerprint: list[Any] = [content.role]
    for part in parts:
        if len(part.__pydantic_fields_set__) == 1 and (text := part.text) is not None:
            fingerprint += (len(text), hash(text))
        elif part.text is not None or part.thought_signature:
            return None
        elif (call := part.function_call) is not None:
            fingerprint += (call.id, call.name, hash(repr(call.args)), call.will_continue)
        elif (result := part.function_response) is not None and not result.parts:
            fingerprint += (result.id, result.name, hash(repr(result.response)), "result")
        else:
            return None
    return tuple(fingerprint)


def _to_json(value: Any) -> Any:
    """Return the JSON form of a value: ADK's aliases for models, text for values that JSON cannot hold."""
    if isinstance(value, BaseModel):
        try:
            dumped = value.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
            scopes.dump_storable(dumped)
        except (ValueError, TypeError, RecursionError):
            return _fields_to_json(value)
        return dumped
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        return {scopes.canonicalize_key(name): _to_json(item) for name, item in value.items()}
    return scopes.to_jsonable(value)


def _fields_to_json(value: BaseModel) -> dict[str, Any]:
    """Return the JSON form of a model whose dump fails; only values that are not JSON become text."""
    return {
        (info.serialization_alias or info.alias or name): _to_json(item)
        for name, info in type(value).model_fields.items()
        if (item := getattr(value, name, None)) is not None
    }
