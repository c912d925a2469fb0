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
    ROWS_READ,
    EventEvidence,
    Evidence,
    KeyWrite,
    LoggedError,
    RunEvidence,
    Stage,
    SummarizedCall,
    TempKey,
    ToolResult,
    TurnPart,
    UntrackedChange,
)
from sessions_app.problems.failures import FINISH_REASONS
from sessions_app.problems.request_queries import previous_requests, read_requests, read_unused_tools
from sessions_app.problems.state_evidence import StateEvidence
from sessions_app.problems.state_queries import read_state_evidence
from sessions_app.problems.tool_use import read_results, read_tool_use
from sessions_app.store import scopes
from sessions_app.store.events.summary import CANCELLED, CUT_OFF, FAILURE_IN_SUMMARY
from sessions_app.store.events.superseded_events import find_superseded_ranges
from sessions_app.store.models import (
    AgentSession,
    Event,
    LogRecord,
    NestedRun,
    Run,
    Scope,
    StateChange,
    TempWrite,
    Trace,
    UntrackedKey,
)

EARLIER_EVENTS = 500
"""Events before the batch that are read of its invocations."""

LARGE_EVENT = 200_000
"""Characters from which the arguments and results of an event are not read."""

VALUE_READ = 2_000
"""Characters of a state value that are read to compare it."""

LOG_MESSAGE_READ = 2_000
"""Characters of a log record that are read at its start and at its end."""

RECORDER_LOGGER = "devui"
"""Logger of the records that the recorder itself adds."""

NO_REPLY_FLAGS = {"turnComplete", "interrupted", CANCELLED}
"""Flags of events of a live connection or a cancelled invocation, which are no replies."""


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
    requests = read_requests(session, of_batch) if ids else {}
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
        calls, results = read_tool_use(invocation_events, wires)
        yield Evidence(
            app_name=session.app_name,
            invocation_id=invocation_id,
            events=[_event_evidence(event, wires) for event in invocation_events],
            calls=calls,
            results=[*results, *nested.get(invocation_id, ())],
            requests=requests.get(invocation_id, ()),
            previous_requests=previous_requests(requests, invocation_id),
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
        unused_tools=read_unused_tools(session),
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
    calls, results = read_tool_use(summarized, wires)
    responses = {result.call: result.response for result in results}
    return [SummarizedCall(call, summary_seqs[call.seq], responses.get(call)) for call in calls]


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
        results = read_results(seq, row.author, row.decoded_summary, json.loads(row.data))
        failures[invocation_id] += (replace(result, is_nested=True) for result in results if result.form)
    return failures


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
