"""Queries for the evidence of model requests and of the tools that they declare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Max

from sessions_app.problems.evidence import ROWS_READ, DeclaredTool, ModelRequest
from sessions_app.store.models import AgentSession, ModelCall, ModelPiece, SessionTrait
from sessions_app.store.traces.content_store import read_members
from sessions_app.traces.model_calls import leaf_names

CACHES_READ = 5
"""Lost caches of a batch whose contents are compared."""

AGENTS_READ = 50
TOOL_LISTS_READ = 20
TOOL_LEVELS = 4

TRANSFER = "transfer_to_agent"
"""Tool that ADK adds itself, so it is never reported as unused."""

REQUEST_COLUMNS = (
    *("pk", "session_id", "number", "invocation_id", "agent", "model", "event_ids", "request", "response"),
    *("cached_tokens", "prompt_tokens", "error_type", "error", "started_at"),
)


def read_requests(session: AgentSession, of_batch: Mapping[str, Any]) -> dict[str, list[ModelRequest]]:
    """Return the model requests by invocation; the empty id has the last earlier request of each agent."""
    rows = ModelCall.objects.only(*REQUEST_COLUMNS)
    calls = list(rows.filter(**of_batch).order_by("-pk")[:ROWS_READ])[::-1]
    if not calls:
        return {}
    before = (
        ModelCall.objects.filter(
            session=session, pk__lt=calls[0].pk, agent__in={call.agent for call in calls}
        )
        .order_by()
        .values("agent")
        .annotate(last=Max("pk"))
        .values_list("last", flat=True)
    )
    previous = list(rows.filter(pk__in=list(before[:AGENTS_READ])))
    decoded = {call.pk: json.loads(call.request) for call in [*previous, *calls]}
    contents = _read_contents(_without_cache([*previous, *calls]), decoded)
    tools = _read_tools(session.pk, [request.get("tools") or "" for request in decoded.values()])
    requests: dict[str, list[ModelRequest]] = {
        "": [_read_request(call, decoded[call.pk], tools, contents) for call in previous]
    }
    for call in calls:
        requests.setdefault(call.invocation_id, []).append(
            _read_request(call, decoded[call.pk], tools, contents)
        )
    return requests


def _without_cache(calls: Iterable[ModelCall]) -> list[ModelCall]:
    """Return pairs of calls of an agent: one with cached tokens, and the next one, which has none."""
    last: dict[str, ModelCall] = {}
    pairs: list[ModelCall] = []
    for call in calls:
        before = last.get(call.agent)
        last[call.agent] = call
        if before and before.cached_tokens and not call.cached_tokens:
            pairs += [before, call]
    return pairs[: 2 * CACHES_READ]


def _read_contents(
    calls: Iterable[ModelCall], requests: Mapping[int, Mapping[str, Any]]
) -> dict[int, list[str]]:
    """Return the hashes of the contents of calls, by key of the call."""
    shas = {call.pk: requests[call.pk].get("contents") for call in calls}
    return {call.pk: leaf_names(call.session_id, sha) for call in calls if (sha := shas[call.pk])}


def _read_request(
    call: ModelCall,
    request: Mapping[str, Any],
    tools: Mapping[str, list[DeclaredTool]],
    contents: Mapping[int, Sequence[str]],
) -> ModelRequest:
    config = request.get("config") or {}
    responses = json.loads(call.response or "[]")
    sha = request.get("tools") or ""
    return ModelRequest(
        pk=call.pk,
        number=call.number,
        invocation_id=call.invocation_id,
        agent=call.agent,
        model=call.model,
        event_ids=frozenset(json.loads(call.event_ids)),
        instruction=request.get("system_instruction") or "",
        tools_sha=sha,
        contents=contents.get(call.pk),
        tools=tools.get(sha) if sha else [],
        max_output_tokens=config.get("max_output_tokens"),
        cached_tokens=call.cached_tokens,
        prompt_tokens=call.prompt_tokens,
        finish_reason=str(responses[-1].get("finish_reason") or "") if responses else "",
        error_type=call.error_type,
        error=call.error,
        started_at=call.started_at,
        is_partial=bool(responses and responses[-1].get("partial")),
        is_live=bool(request.get("live")),
    )


def previous_requests(
    requests: Mapping[str, Sequence[ModelRequest]], invocation_id: str
) -> dict[str, ModelRequest]:
    """Return the last request of each agent before an invocation."""
    invocation_requests = requests.get(invocation_id)
    earlier = (
        request
        for agent_requests in requests.values()
        for request in agent_requests
        if invocation_requests and request.pk < invocation_requests[0].pk
    )
    return {request.agent: request for request in sorted(earlier, key=lambda request: request.pk)}


def _read_tools(session_pk: int, shas: Iterable[str]) -> dict[str, list[DeclaredTool]]:
    """Return the declared tools of tool lists by hash, without lists that are not stored any more."""
    roots = [sha for sha in dict.fromkeys(shas) if sha][-TOOL_LISTS_READ:]
    bodies: dict[str, str] = {}
    missing = roots
    for _ in range(TOOL_LEVELS):
        if not missing:
            break
        pieces = ModelPiece.objects.filter(session=session_pk, sha__in=missing[:ROWS_READ])
        bodies.update(pieces.values_list("sha", "body"))
        lists = filter(None, (read_members(bodies.get(sha, "")) for sha in missing))
        names = dict.fromkeys(name for _, members in lists for name in members)
        missing = [name for name in names if name not in bodies]
    return {root: tools for root in roots if (tools := _tools_in(root, bodies)) is not None}


def _tools_in(sha: str, bodies: Mapping[str, str]) -> list[DeclaredTool] | None:
    """Return the tools of a list piece; None if one of its pieces is missing."""
    body = bodies.get(sha)
    if body is None:
        return None
    if (list_ := read_members(body)) is None:
        return [_declared_tool(json.loads(body))]
    tools: list[DeclaredTool] = []
    for name in list_[1]:
        if (listed_tools := _tools_in(name, bodies)) is None:
            return None
        tools += listed_tools
    return tools


def _declared_tool(declaration: Mapping[str, Any]) -> DeclaredTool:
    schema = declaration.get("parametersJsonSchema") or declaration.get("parameters")
    return DeclaredTool(str(declaration.get("name") or ""), schema if isinstance(schema, dict) else None)


def read_unused_tools(session: AgentSession) -> dict[str, list[str]]:
    """Return the tools that an agent's last request declares and no event of the session calls, by agent.

    Empty until all events are indexed, because the index has the names of called tools.
    """
    if session.indexed_seq < session.last_seq:
        return {}
    last = (
        ModelCall.objects.filter(session=session)
        .order_by()
        .values("agent")
        .annotate(last=Max("pk"))
        .values_list("last", flat=True)
    )
    calls = ModelCall.objects.filter(pk__in=list(last[:AGENTS_READ])).only("agent", "request", "session_id")
    shas = {call.agent: json.loads(call.request).get("tools") or "" for call in calls}
    tools = _read_tools(session.pk, shas.values())
    if not tools:
        return {}
    traits = SessionTrait.objects.filter(session=session, name=SessionTrait.Name.TOOL)
    called = {*traits.values_list("value", flat=True), "", TRANSFER}
    unused = {
        agent: [tool.name for tool in tools.get(sha, ()) if tool.name not in called]
        for agent, sha in sorted(shas.items())
    }
    return {agent: names for agent, names in unused.items() if names}
