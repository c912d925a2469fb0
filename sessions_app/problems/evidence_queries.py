"""Queries for the evidence of problems. Their number and their rows are bounded."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Max
from django.db.models.functions import Greatest, Length, Substr

from sessions_app.agents.folder import initial_state_fault
from sessions_app.problems.evidence import (
    DeclaredTool,
    EventEvidence,
    Evidence,
    KeyWrite,
    LoggedError,
    ModelRequest,
    ResultForm,
    RunEvidence,
    Stage,
    SummarizedCall,
    TempKey,
    ToolCall,
    ToolResult,
    TurnPart,
    UntrackedChange,
)
from sessions_app.problems.failures import FINISH_REASONS
from sessions_app.problems.state_evidence import StateEvidence
from sessions_app.problems.state_queries import read_state_evidence
from sessions_app.store import scopes
from sessions_app.store.events.call_pairing import CallPairing
from sessions_app.store.events.content import RETRIED_ERROR, function_calls, function_responses
from sessions_app.store.events.summary import CANCELLED, CUT_OFF, FAILURE_IN_SUMMARY
from sessions_app.store.events.superseded_events import find_superseded_ranges
from sessions_app.store.models import (
    AgentSession,
    Event,
    LogRecord,
    ModelCall,
    ModelPiece,
    NestedRun,
    Run,
    Scope,
    SessionTrait,
    StateChange,
    TempWrite,
    Trace,
    UntrackedKey,
)
from sessions_app.store.traces.content_store import read_members
from sessions_app.traces.model_calls import leaf_names

EARLIER_EVENTS = 500
"""Events before the batch that are read of its invocations."""

LARGE_EVENT = 200_000
"""Characters from which the arguments and results of an event are not read."""

ROWS_READ = 500
"""Newest rows of each table that are read for a batch."""

CACHES_READ = 5
"""Lost caches of a batch whose contents are compared."""

VALUE_READ = 2_000
"""Characters of a state value that are read to compare it."""

LOG_MESSAGE_READ = 2_000
"""Characters of a log record that are read at its start and at its end."""

RECORDER_LOGGER = "devui"
"""Logger of the records that the recorder itself adds."""

AGENTS_READ = 50
TOOL_LISTS_READ = 20
TOOL_LEVELS = 4

NO_REPLY_FLAGS = {"turnComplete", "interrupted", CANCELLED}
"""Flags of events of a live connection or a cancelled invocation, which are no replies."""

TRANSFER = "transfer_to_agent"
"""Tool that ADK adds itself, so it is never reported as unused."""


@dataclass(frozen=True, slots=True)
class EvidenceBatch:
    """The evidence of the invocations with events behind `start` up to `end`, and of the session as a whole.

    `state` is the evidence of its state; None if there are later events, which may write it.
    """

    session_pk: int
    start: int
    end: int
    version: int
    evidence: list[Evidence]
    state: StateEvidence | None = None

    @property
    def invocation_ids(self) -> list[str]:
        """The ids of its invocations; empty: the session as a whole."""
        return [evidence.invocation_id for evidence in self.evidence]


def read_batch(session: AgentSession, limit: int) -> EvidenceBatch:
    """Read the evidence of the next unchecked events of a session, and of the session as a whole."""
    start = max(0, session.problems_seq)
    events = list(_light_events(session).filter(seq__gt=start).order_by("seq")[:limit])
    end = events[-1].seq if len(events) == limit else session.last_seq
    ids = list(dict.fromkeys(event.invocation_id for event in events))
    if start and ids:
        earlier = _light_events(session).filter(seq__lte=start, invocation_id__in=ids).order_by("-seq")
        events = [*reversed(earlier[:EARLIER_EVENTS]), *events]
    return EvidenceBatch(
        session.pk,
        start,
        end,
        session.problems_version,
        [
            *_build_evidence(session, events, [invocation_id for invocation_id in ids if invocation_id]),
            _session_evidence(session),
        ],
        read_state_evidence(session) if end == session.last_seq else None,
    )


def _light_events(session: AgentSession) -> Any:
    columns = ("seq", "event_id", "invocation_id", "author", "branch", "timestamp", "summary")
    return Event.objects.filter(session=session).only(*columns)


def _build_evidence(
    session: AgentSession, events: Sequence[Event], ids: Collection[str]
) -> Iterator[Evidence]:
    """Yield the evidence of invocations."""
    of_batch = {"session": session.pk, "invocation_id__in": ids}
    wires = _read_wires(events)
    by_invocation: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_invocation[event.invocation_id].append(event)
    requests = _read_requests(session, of_batch) if ids else {}
    runs = _read_runs(Run.objects.filter(**of_batch)) if ids else {}
    traces = _group_rows(
        Trace.objects.filter(**of_batch).values_list("invocation_id", "pk", "stages")[:ROWS_READ]
        if ids
        else ()
    )
    untracked = _read_untracked(of_batch) if ids else {}
    writes = _read_writes(session, events)
    logged = _read_logged_errors(of_batch) if ids else {}
    has_calls = any(event.decoded_summary["calls"] for event in events)
    nested = _read_nested_failures(session, ids) if has_calls else {}
    summarized = _read_summarized_calls(session, events[-1].seq) if has_calls else []
    temp = _read_temp_keys(session)
    for invocation_id in ids:
        invocation_events = by_invocation[invocation_id]
        calls, results = _read_tool_use(invocation_events, wires)
        yield Evidence(
            app_name=session.app_name,
            invocation_id=invocation_id,
            events=[_event_evidence(event, wires) for event in invocation_events],
            calls=calls,
            results=[*results, *nested.get(invocation_id, ())],
            requests=requests.get(invocation_id, ()),
            previous_requests=_previous_requests(requests, invocation_id),
            runs=runs.get(invocation_id, ()),
            stages=[
                _read_stage(stage) for _, stages in traces[invocation_id] for stage in json.loads(stages)
            ],
            logged_errors=_logged_errors(invocation_events, logged.get(invocation_id, ())),
            trace_pk=next((pk for pk, _ in traces[invocation_id]), 0),
            untracked=list(untracked.get(invocation_id, {}).values()),
            writes=writes.get(invocation_id, ()),
            earlier_temp=[
                key
                for key in temp
                if key.invocation_id != invocation_id and key.seq < invocation_events[-1].seq
            ],
            summarized_calls=summarized,
        )


def _read_untracked(of_batch: Mapping[str, Any]) -> dict[str, dict[str, UntrackedChange]]:
    """Return the newest untracked change of each key, by invocation and name of the key."""
    rows = UntrackedKey.objects.filter(**of_batch).order_by("scope", "key", "-pk")
    newest: defaultdict[str, dict[str, UntrackedChange]] = defaultdict(dict)
    columns = rows.values_list("invocation_id", "scope", "key", "value")
    for invocation_id, scope, key, value in list(columns[:ROWS_READ])[::-1]:
        name = scopes.PREFIX[Scope(scope)] + key
        newest[invocation_id][name] = UntrackedChange(name, value is None)
    return newest


def _session_evidence(session: AgentSession) -> Evidence:
    """Return the evidence of the session as a whole: runs without an invocation, first state, unused tools."""
    runs = _read_runs(Run.objects.filter(session=session, invocation_id=""))
    return Evidence(
        app_name=session.app_name,
        runs=runs.get("", ()),
        writes=_read_seeds(session),
        unused_tools=_read_unused_tools(session),
        initial_state_fault=_initial_state_fault(session),
    )


def _initial_state_fault(session: AgentSession) -> str:
    """Return why the file that a session should begin with could not be used; empty for other sessions."""
    is_new = session.origin == "live" and not session.realm
    return initial_state_fault(session.app_name, session.created_at) if is_new else ""


def _group_rows(rows: Iterable[tuple[Any, ...]]) -> defaultdict[str, list[tuple[Any, ...]]]:
    grouped: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for key, *columns in rows:
        grouped[key].append(tuple(columns))
    return grouped


def _read_wires(events: Sequence[Event]) -> dict[int, dict[str, Any]]:
    """Return the JSON of the events with calls or results, or without an answer, by seq, without large events."""
    pks = [event.pk for event in events if not _is_answer(event) or _has_tools(event)]
    if not pks:
        return {}
    rows = Event.objects.filter(pk__in=pks).annotate(size=Length("data")).filter(size__lt=LARGE_EVENT)
    return {seq: json.loads(data) for seq, data in rows.values_list("seq", "data")}


def _has_tools(event: Event) -> bool:
    return bool(event.decoded_summary["calls"] or event.decoded_summary["results"])


def _is_answer(event: Event) -> bool:
    """Tell whether an event has something for the user; code, its output and files that are empty are nothing."""
    summary = event.decoded_summary
    texts = [summary[name] for name in ("text", "output", "voiced")]
    texts += [code.get("code") or code.get("output") for code in summary["code"] or ()]
    has_file = any(media.get("size") or media.get("uri") for media in summary["media"] or ())
    return has_file or bool(summary["others"]) or any(text and text.strip() for text in texts)


def _turn_part(event: Event, wire: Mapping[str, Any]) -> TurnPart:
    summary = event.decoded_summary
    if event.author == "user" or _has_tools(event):
        return TurnPart.STEP
    if _is_answer(event):
        return TurnPart.ANSWER
    has_effect = summary["signals"] or summary["artifacts"] or summary["error"]
    is_reply = "content" in wire or "finishReason" in wire
    if has_effect or not is_reply or NO_REPLY_FLAGS.intersection(summary["flags"] or ()):
        return TurnPart.NONE
    return TurnPart.EMPTY_REPLY


def _event_evidence(event: Event, wires: Mapping[int, dict[str, Any]]) -> EventEvidence:
    summary = event.decoded_summary
    error = summary["error"] or {}
    reasons = FINISH_REASONS.intersection(summary["flags"] or ())
    return EventEvidence(
        event.seq,
        event.event_id,
        event.author,
        event.timestamp,
        error.get("code", ""),
        error.get("message", ""),
        next(iter(reasons), ""),
        CUT_OFF in (summary["flags"] or ()),
        _turn_part(event, wires.get(event.seq, {})),
    )


def _read_calls(event: Event, wires: Mapping[int, dict[str, Any]]) -> Iterator[ToolCall]:
    full_calls = function_calls(wires.get(event.seq, {}))
    for index, call in enumerate(event.decoded_summary["calls"] or ()):
        args = full_calls[index].get("args") or {} if index < len(full_calls) else None
        if args is not None and not isinstance(args, dict):
            args = None
        yield ToolCall(event.seq, event.event_id, event.author, call["id"], call["name"], args)


def _read_summarized_calls(session: AgentSession, last_seq: int) -> list[SummarizedCall]:
    """Return the calls of the newest events that a compaction before `last_seq` summarized."""
    ranges = find_superseded_ranges(session, 0)
    marks = [mark.seq for mark in ranges.compactions if mark.seq < last_seq]
    if not marks:
        return []
    newest = _light_events(session).filter(seq__lt=max(marks)).order_by("-seq")[:EARLIER_EVENTS]
    events = [event for event in reversed(newest) if not ranges.rewound_by(event)]
    summary_seqs = {event.seq: ranges.first_compacted_by(event) for event in events}
    summarized = [event for event in events if summary_seqs[event.seq]]
    wires = _read_wires(summarized)
    calls, results = _read_tool_use(summarized, wires)
    responses = {result.call: result.response for result in results}
    return [SummarizedCall(call, summary_seqs[call.seq], responses.get(call)) for call in calls]


def _read_tool_use(
    events: Iterable[Event], wires: Mapping[int, dict[str, Any]]
) -> tuple[list[ToolCall], list[ToolResult]]:
    """Return the calls and the results of events, each result with its call."""
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    pairing = CallPairing[ToolCall]()
    for event in events:
        summary = event.decoded_summary
        own_results = _read_results(event.seq, event.author, summary, wires.get(event.seq, {}))
        for answered, result in zip(summary["results"] or (), own_results, strict=True):
            results.append(replace(result, call=pairing.take(answered, event.branch)))
        own_calls = list(_read_calls(event, wires))
        pairing.add_event(zip(summary["calls"] or (), own_calls, strict=True), event.branch)
        calls += own_calls
    return calls, results


def _read_nested_failures(session: AgentSession, ids: Collection[str]) -> dict[str, list[ToolResult]]:
    """Return the failed results of tools inside nested runs by invocation. Their seq is that of the session's call."""
    runs = NestedRun.objects.filter(outer=session, invocation_id__in=ids, outer_seq__isnull=False)
    calls = {
        child: (invocation_id, seq or 0)
        for child, invocation_id, seq in runs.values_list("child_id", "invocation_id", "outer_seq")
    }
    if not calls:
        return {}
    rows = Event.objects.filter(session__in=runs.values("child"), summary__contains=FAILURE_IN_SUMMARY)
    failures: defaultdict[str, list[ToolResult]] = defaultdict(list)
    for row in rows.annotate(size=Length("data")).filter(size__lt=LARGE_EVENT).order_by("-pk")[:ROWS_READ]:
        invocation_id, seq = calls[row.session_id]
        results = _read_results(seq, row.author, row.decoded_summary, json.loads(row.data))
        failures[invocation_id] += (replace(result, is_nested=True) for result in results if result.form)
    return failures


def _read_results(
    seq: int, author: str, summary: Mapping[str, Any], wire: Mapping[str, Any]
) -> Iterator[ToolResult]:
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


def _read_stage(stage: Sequence[Any]) -> Stage:
    return Stage(str(stage[0]), str(stage[2]) if len(stage) > 2 else "")


def _read_runs(rows: Any) -> dict[str, list[RunEvidence]]:
    columns = rows.order_by("-created_at").values_list(
        "invocation_id", "pk", "status", "error_type", "error", "last_seq"
    )
    runs = _group_rows(columns[:ROWS_READ])
    return {
        invocation_id: [
            RunEvidence(pk, status, error_type, error, last_seq or 0)
            for pk, status, error_type, error, last_seq in reversed(invocation_runs)
        ]
        for invocation_id, invocation_runs in runs.items()
    }


def _read_writes(session: AgentSession, events: Sequence[Event]) -> dict[str, list[KeyWrite]]:
    """Return the newest writes of state keys by the events, by invocation, in order."""
    if not events:
        return {}
    first, last = events[0].seq, events[-1].seq
    changes = StateChange.objects.filter(session=session, seq__gte=first, seq__lte=last)
    writes: defaultdict[str, list[KeyWrite]] = defaultdict(list)
    for invocation_id, write in _key_writes(changes):
        writes[invocation_id].append(write)
    return writes


def _read_seeds(session: AgentSession) -> list[KeyWrite]:
    """Return the keys with which the session began whose values differ from what was written."""
    seeds = StateChange.objects.filter(session=session, seq=0).exclude(note="")
    return [write for _, write in _key_writes(seeds)]


def _key_writes(changes: Any) -> Iterator[tuple[str, KeyWrite]]:
    """Yield the newest writes in order, each with its invocation."""
    columns = changes.order_by("-seq", "-pk").values_list(
        "invocation_id", "scope", "key", "seq", "author", Substr("value", 1, VALUE_READ), "note"
    )
    for invocation_id, scope, key, seq, author, value, note in list(columns[:ROWS_READ])[::-1]:
        name = scopes.PREFIX[Scope(scope)] + key
        yield invocation_id, KeyWrite(name, seq, author, value, note.split(","))


def _read_logged_errors(of_batch: Mapping[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Return log records of level ERROR or above by invocation, in order: that of the index, so that it is used."""
    records = LogRecord.objects.filter(**of_batch, level__gte=logging.ERROR).order_by("invocation_id", "pk")
    size = Length("message")
    columns = records.annotate(
        start=Substr("message", 1, LOG_MESSAGE_READ),
        end=Substr("message", Greatest(size - LOG_MESSAGE_READ, LOG_MESSAGE_READ) + 1),
    ).values_list("invocation_id", "pk", "after_event_id", "agent", "tool", "logger", "start", "end")
    return _group_rows(columns[:ROWS_READ])


def _logged_errors(events: Sequence[Event], rows: Iterable[tuple[Any, ...]]) -> list[LoggedError]:
    """Return logged errors. Those before the first event that the recorder saw belong to the user's message."""
    seqs = {"": events[0].seq, **{event.event_id: event.seq for event in events}}
    return [
        LoggedError(
            pk,
            seqs.get(event_id, 0),
            agent,
            logger,
            start + end,
            tool if logger == RECORDER_LOGGER else "",
        )
        for pk, event_id, agent, tool, logger, start, end in rows
    ]


def _read_temp_keys(session: AgentSession) -> list[TempKey]:
    """Return the last write of each `temp:` key by invocation, newest first."""
    writes = TempWrite.objects.filter(session=session).order_by().values_list("key", "invocation_id")
    last = writes.annotate(last=Max("seq")).order_by("-last")[:ROWS_READ]
    return [TempKey(scopes.TEMP_PREFIX + key, seq, invocation_id) for key, invocation_id, seq in last]


REQUEST_COLUMNS = (
    *("pk", "session_id", "number", "invocation_id", "agent", "model", "event_ids", "request", "response"),
    *("cached_tokens", "prompt_tokens", "error_type", "error", "started_at"),
)


def _read_requests(session: AgentSession, of_batch: Mapping[str, Any]) -> dict[str, list[ModelRequest]]:
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


def _previous_requests(
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


def _read_unused_tools(session: AgentSession) -> dict[str, list[str]]:
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
