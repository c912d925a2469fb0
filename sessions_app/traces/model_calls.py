"""Reads of model calls: one in full, those of an invocation, and the difference to the previous call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sessions_app.presentation import value_diff
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.store.errors import NotFound
from sessions_app.store.models import AgentSession, Event, ModelCall, ModelPiece
from sessions_app.store.realms import find_nested_run
from sessions_app.store.traces.content_store import read_members

PIECES_PER_QUERY = 400
"""Pieces read per query."""

CALLS_SHOWN = 200
"""Calls of an invocation that are listed."""

MAX_FORKS = 20
"""Forks of forks that are followed to find the original call."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """The request of a model call, with the names of its contents.

    Attributes:
        content_names: the piece names of all contents, in order.
        rest: other fields of the request: config, cache, tier.
    """

    instruction: Any
    content_names: list[str]
    tools: list[dict[str, Any]]
    rest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ContentRange:
    """Consecutive contents of a request; `change` compares them to the previous call: same, added or removed."""

    change: str
    first: int
    count: int
    names: list[str]
    contents: list[Any]

    @property
    def hidden(self) -> int:
        """Number of contents that were not read."""
        return self.count - len(self.contents)


def read_calls(session: AgentSession, invocation_id: str) -> list[ModelCall]:
    """Return the first calls of an invocation in order."""
    rows = ModelCall.objects.filter(session=session, invocation_id=invocation_id)
    return list(rows.defer("request", "response").order_by("number")[:CALLS_SHOWN])


def count_more_calls(calls: Sequence[ModelCall]) -> int:
    """Return the number of calls of an invocation after those that `read_calls` returned. No query if it has few."""
    if len(calls) < CALLS_SHOWN:
        return 0
    last = calls[-1]
    return ModelCall.objects.filter(
        session=last.session_id, invocation_id=last.invocation_id, number__gt=last.number
    ).count()


def find_call(session: AgentSession, pk: int) -> ModelCall:
    """Return a call of a session.

    Raises:
        NotFound: the session has no such call.
    """
    call = ModelCall.objects.filter(session=session, pk=pk).first()
    if call is None:
        raise NotFound(
            f"Session {session.pk} has no model call {pk}.",
            hint=f"GET /api/v1/sessions/{session.pk}/model-calls lists them.",
        )
    return call


def find_recording_session(session: AgentSession, event: Event) -> tuple[AgentSession, str]:
    """Return the session and invocation under which the recorder stored an event: of a nested session the outer ones.

    Of an event that a fork of a nested session has copied, those of its origin.
    """
    origin: AgentSession | None = session
    while origin is not None:
        if nested := find_nested_run(origin):
            return nested.outer, nested.invocation_id
        origin = origin.forked_from if event.seq <= (origin.forked_seq or 0) else None
    return session, event.invocation_id


def find_event_call(event: Event, session: AgentSession) -> ModelCall | None:
    """Return the model call that produced an event. For an event copied by a fork it is the origin's call."""
    origin: AgentSession | None = session
    for _ in range(MAX_FORKS):
        if origin is None:
            return None
        if call := _call_in(origin, event):
            return call
        if origin.forked_seq is None or event.seq > origin.forked_seq:
            return None
        origin = origin.forked_from
    return None


def _call_in(session: AgentSession, event: Event) -> ModelCall | None:
    rows = ModelCall.objects.filter(session=session)
    if call := rows.filter(event_id=event.event_id).first():
        return call
    agent_calls = rows.filter(invocation_id=event.invocation_id, agent=event.author).exclude(event_ids="[]")
    pairs = agent_calls.values_list("pk", "event_ids").order_by("number")[:CALLS_SHOWN]
    pk = next((pk for pk, ids in pairs if event.event_id in json.loads(ids)), None)
    return rows.filter(pk=pk).first() if pk else None


def call_before(call: ModelCall) -> ModelCall | None:
    """Return the previous call of the same agent."""
    rows = ModelCall.objects.filter(session=call.session_id, agent=call.agent, pk__lt=call.pk)
    return rows.order_by("-pk").first()


def read_request(call: ModelCall) -> CallRequest:
    """Return the request of a call, without reading its contents."""
    request = json.loads(call.request)
    apart = {name: request.pop(name, None) for name in ("contents", "system_instruction", "tools")}
    request.pop("count", None)
    instruction_names = list(filter(None, (apart["system_instruction"],)))
    tools = leaf_names(call.session_id, apart["tools"]) if apart["tools"] else []
    pieces = read_pieces(call.session_id, [*instruction_names, *tools])
    return CallRequest(
        instruction=pieces.get(apart["system_instruction"] or ""),
        content_names=leaf_names(call.session_id, apart["contents"]) if apart["contents"] else [],
        tools=[pieces[name] for name in tools if name in pieces],
        rest=request,
    )


def request_json(call: ModelCall) -> dict[str, Any]:
    """Return the full request as JSON, in ADK's field order."""
    parts = read_request(call)
    pieces = read_pieces(call.session_id, parts.content_names)
    return {
        "model": parts.rest.get("model", call.model),
        "system_instruction": parts.instruction,
        "contents": [pieces.get(name) for name in parts.content_names],
        "tools": parts.tools,
        **{name: value for name, value in parts.rest.items() if name != "model"},
    }


def call_json(call: ModelCall) -> dict[str, Any]:
    """Return a call's request and responses as JSON."""
    return {"request": request_json(call), "responses": responses(call)}


def responses(call: ModelCall) -> list[dict[str, Any]]:
    """Return the responses of a call with their contents."""
    stored: list[dict[str, Any]] = json.loads(call.response or "[]")
    pieces = read_pieces(
        call.session_id, [response["content"] for response in stored if "content" in response]
    )
    return [
        {**response, "content": pieces.get(response["content"])} if "content" in response else response
        for response in stored
    ]


def compare_contents(
    call: ModelCall, request: CallRequest, before: CallRequest | None, limit: int
) -> list[ContentRange]:
    """Compare a request's contents with those of the previous call. At most the last `limit` of each range are read."""
    old = before.content_names if before else []
    ranges = [
        (change, first, names)
        for change, first, names in _changed_ranges(old, request.content_names)
        if names and (change != "removed" or before is not None)
    ]
    if before is None:
        ranges = [("same", first, names) for _, first, names in ranges]
    pieces = read_pieces(call.session_id, [name for _, _, names in ranges for name in names[-limit:]])
    return [
        ContentRange(change, first, len(names), names, [pieces.get(name) for name in names[-limit:]])
        for change, first, names in ranges
    ]


def instruction_change(request: CallRequest, before: CallRequest | None) -> list[DiffLine]:
    """Return the line difference to the previous call's instruction; empty if there is none."""
    if before is None or request.instruction == before.instruction:
        return []
    return value_diff.diff_lines(
        json.dumps(instruction_text(before.instruction)), json.dumps(instruction_text(request.instruction))
    )


def tools_change(request: CallRequest, before: CallRequest | None) -> tuple[list[str], list[str]]:
    """Return the names of the tools that were added and removed since the previous call."""
    if before is None:
        return [], []
    now, then = tool_names(request.tools), tool_names(before.tools)
    return [name for name in now if name not in then], [name for name in then if name not in now]


def tool_names(tools: Iterable[dict[str, Any]]) -> list[str]:
    """Return the names of tools; a tool without a name is named by its type."""
    return [str(tool.get("name") or next(iter(tool), "tool")) for tool in tools]


def instruction_text(instruction: Any) -> str:
    """Return the text of an instruction."""
    if isinstance(instruction, str):
        return instruction
    if isinstance(instruction, dict):
        return "\n".join(str(part.get("text", "")) for part in instruction.get("parts") or [])
    if isinstance(instruction, list):
        return "\n".join(map(instruction_text, instruction))
    return "" if instruction is None else str(instruction)


def leaf_names(session_pk: int, name: str) -> list[str]:
    """Return the names of the pieces that a list piece contains, in order."""
    names = [name]
    while True:
        pieces = _piece_texts(session_pk, names)
        level = [read_members(pieces.get(digest, "")) for digest in names]
        members = [member for entry in level if entry for member in entry[1]]
        if not any(entry and entry[0] for entry in level):
            return members
        names = members


def read_pieces(session_pk: int, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of pieces by name."""
    return {
        name: json.loads(text) for name, text in _piece_texts(session_pk, list(dict.fromkeys(names))).items()
    }


def _piece_texts(session_pk: int, names: Sequence[str]) -> dict[str, str]:
    pieces: dict[str, str] = {}
    for start in range(0, len(names), PIECES_PER_QUERY):
        rows = ModelPiece.objects.filter(session=session_pk, sha__in=names[start : start + PIECES_PER_QUERY])
        pieces.update(rows.values_list("sha", "body"))
    return pieces


def _changed_ranges(old: list[str], new: list[str]) -> list[tuple[str, int, list[str]]]:
    """Return ranges of (change, position of the first content, names), with what both ends of the lists share."""
    start = _common_length(old, new)
    end = _common_length(old[start:][::-1], new[start:][::-1])
    return [
        ("same", 1, new[:start]),
        ("removed", start + 1, old[start : len(old) - end]),
        ("added", start + 1, new[start : len(new) - end]),
        ("same", len(new) - end + 1, new[len(new) - end :]),
    ]


def _common_length(texts: Sequence[str], others: Sequence[str]) -> int:
    shorter = min(len(texts), len(others))
    return next((index for index in range(shorter) if texts[index] != others[index]), shorter)
