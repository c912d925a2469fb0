"""Sources of an answer: what the model was given for it, and from which events and state keys that came.

The recorded request says what was sent. Its instruction is compared with the agent's declared instruction and the state
at that point, its contents with the events before it, and the ledger says who wrote the keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import CharField, Subquery
from django.db.models.functions import Substr

from sessions_app.agents import cards
from sessions_app.state.board_entries import BoardEntry
from sessions_app.state.ephemeral_keys import read_ghosts
from sessions_app.state.key_changes import BRIEF_LENGTH, scope_prefix, truncate
from sessions_app.store import short_texts
from sessions_app.store.events.conditions import comes_from_model
from sessions_app.store.events.superseded_events import superseded_ranges, superseding_rows
from sessions_app.store.models import AgentSession, Event, ModelCall, StateChange
from sessions_app.store.state import history
from sessions_app.traces.instruction_sources import (
    ARTIFACT,
    InstructionLine,
    InstructionPiece,
    explain_instruction,
    fill_template,
    split_lines,
)
from sessions_app.traces.model_calls import (
    CallRequest,
    find_event_call,
    find_recording_session,
    instruction_text,
    read_pieces,
    read_request,
)
from sessions_app.traces.request_history import RequestContext, RequestHistory, compare_history

INSTRUCTIONS = ("global_instruction", "static_instruction", "instruction")
"""Fields of an agent's description with an instruction, in the order of the request."""

INSTRUCTION_MARKS = ("<<<BEGIN_SYSTEM_INSTRUCTION>>>\n", "\n<<<END_SYSTEM_INSTRUCTION>>>")
"""Marks around the instruction of an agent that also has a static one: ADK sends it in a message."""

CONTENTS_COMPARED = 300
"""Last contents of a request that are compared with events."""

EVENTS_COMPARED = 1_000
"""Last events before a request that are compared with its contents."""

LINES_SHOWN = 300
"""Lines of an instruction that are shown; later ones only if a key filled them."""

PIECE_LENGTH = 10_000
"""Characters that are shown of a piece of a line."""

RESULTS_SHOWN = 50
"""Newest tool results that are listed."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """A key at the time of the answer: its last write then, or the write of a `temp:` key; neither: it was not set.

    Attributes:
        old: start of the JSON that the write replaced; None: there was none.
        value: start of its JSON.
    """

    name: str
    value: str | None = None
    old: str | None = None
    change: StateChange | None = None
    ghost: BoardEntry | None = None

    @property
    def is_artifact(self) -> bool:
        """Tell whether it is an artifact instead of a key."""
        return self.name.startswith(ARTIFACT)


@dataclass(frozen=True, slots=True)
class FilledPiece:
    """A piece of an instruction with the source of its key."""

    piece: InstructionPiece
    source: KeySource


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the instruction with the keys that filled it."""

    line: InstructionLine
    filled: list[FilledPiece]


@dataclass(frozen=True, slots=True)
class RequestResult:
    """A tool result in the request: the result, its event, and the event of its call; None: no event holds it."""

    result: Mapping[str, Any]
    event: Event | None
    call_seq: int | None


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """The instruction, tool results and history that a model was given for an answer.

    Attributes:
        is_answer: whether a model wrote the event.
        call: the recorded call; None: none is stored, and only the declared instruction is known.
        state_seq: seq of the event after which the state is read; 0: at the start.
        lines: the instruction: that of the request, otherwise the declared one, filled with the state.
        hidden_lines: number of further lines.
        is_declared: the agent's declared instruction is known.
        history: what the request has of the events before it; None without a recorded call.
        results: the newest tool results in the request.
        hidden_results: number of older ones.
    """

    event: Event
    is_answer: bool
    call: ModelCall | None
    state_seq: int
    lines: list[SourceLine]
    hidden_lines: int
    is_declared: bool
    history: RequestHistory | None
    results: list[RequestResult]
    hidden_results: int


def find_answer_sources(session: AgentSession, event: Event) -> AnswerSources:
    """Return what the model was given for an answer. The number of queries does not depend on the session's length."""
    recording, _ = find_recording_session(session, event)
    call = find_event_call(event, recording)
    first = _first_event(session, event, call)
    description = cards.read_description(session.app_name)
    name = call.agent if call else event.author
    agent = next((node for node in cards.iter_agents(description) if node.get("name") == name), {})
    declared = declared_instructions(description, agent)
    request_history: RequestHistory | None = None
    sent: list[str] | None = None
    results: list[RequestResult] = []
    if call is not None:
        request = read_request(call)
        request_history = _read_history(session, first, call, request, agent)
        sent = _list_instructions(request, request_history)
        results = list(_list_results(request_history))
    lines = _read_lines(session, first, declared, sent)
    shown = [
        replace(line, line=_truncate_pieces(line.line))
        for line in lines
        if line.line.number <= LINES_SHOWN or line.filled
    ]
    return AnswerSources(
        event=event,
        is_answer=comes_from_model(event),
        call=call,
        state_seq=first.seq - 1,
        lines=shown,
        hidden_lines=len(lines) - len(shown),
        is_declared=bool(declared),
        history=request_history,
        results=results[:RESULTS_SHOWN],
        hidden_results=max(0, len(results) - RESULTS_SHOWN),
    )


def _truncate_pieces(line: InstructionLine) -> InstructionLine:
    return replace(
        line,
        pieces=[replace(piece, text=short_texts.truncate(piece.text, PIECE_LENGTH)) for piece in line.pieces],
    )


def _first_event(session: AgentSession, event: Event, call: ModelCall | None) -> Event:
    """Return the first event that a call produced: what came before it is what the model could see."""
    ids = json.loads(call.event_ids) if call else []
    if len(ids) < 2:
        return event
    rows = Event.objects.filter(session=session, event_id__in=ids).defer("data", "private")
    return rows.order_by("seq").first() or event


def declared_instructions(root: Mapping[str, Any], agent: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of an agent's instructions by their field, in the order of the request.

    The root agent declares the global one.
    """
    texts = {name: (root if name == "global_instruction" else agent).get(name) for name in INSTRUCTIONS}
    return {name: str(text) for name, text in texts.items() if text}


def _read_lines(
    session: AgentSession, first: Event, declared: Mapping[str, str], sent: Sequence[str] | None
) -> list[SourceLine]:
    """Return the lines of the instruction with the keys that filled them.

    Args:
        session: the session.
        first: the first event of the answer; the state is that before it.
        declared: the declared instructions by their field.
        sent: the instructions that were sent; None: not recorded, so the declared ones are filled.
    """
    before = Event.objects.filter(session=session, seq=first.seq - 1).defer("data", "private").first()
    state = history.state_at(session, before) if before else history.state_at_start(session)
    ghosts = read_ghosts(session, first.invocation_id, first.seq - 1).entries
    values = state.merge_scopes() | {
        entry.name: json.loads(entry.value or "null") for entry in ghosts if _is_whole(entry)
    }
    if sent is None:
        parts = [fill_template(name, text, values) for name, text in declared.items()]
    else:
        parts = [explain_instruction(text, declared, values) for text in sent]
    pieces = [piece for part in parts for piece in (*part, InstructionPiece("\n"))][:-1]
    rows = {scope_prefix(scope) + row.key: row.pk for scope, rows in state.scopes() for row in rows}
    sources = _read_key_sources({piece.key for piece in pieces if piece.key}, rows, ghosts)
    return [
        SourceLine(line, [FilledPiece(piece, sources[piece.key]) for piece in line.filled])
        for line in (split_lines(pieces) if pieces else ())
    ]


def _is_whole(entry: BoardEntry) -> bool:
    """Tell whether the value of a `temp:` key was read completely, so that it is JSON."""
    return not (entry.value or "").endswith("…")


def _list_instructions(request: CallRequest, request_history: RequestHistory) -> list[str]:
    """Return the instruction of a request, and what ADK puts into a message because the agent has a static one."""
    begin, end = INSTRUCTION_MARKS
    messages = (instruction_text(content.content) for content in request_history.kept if not content.events)
    moved = [text.partition(begin)[2].rpartition(end)[0] for text in messages]
    return [text for text in (instruction_text(request.instruction), *moved) if text]


def _read_key_sources(
    names: set[str], rows: Mapping[str, int], ghosts: Sequence[BoardEntry]
) -> dict[str, KeySource]:
    """Return the sources of keys by name. One query."""
    start = Substr("value", 1, BRIEF_LENGTH + 1, output_field=CharField())
    earlier = history.earlier_writes().annotate(shown=start).values("shown")[:1]
    changes = (
        StateChange.objects.filter(pk__in=[rows[name] for name in names if name in rows])
        .select_related("session")
        .defer("value", "private")
        .annotate(shown=start, old=Subquery(earlier))
    )
    by_name = {
        scope_prefix(change.scope) + change.key: KeySource(
            scope_prefix(change.scope) + change.key,
            truncate(getattr(change, "shown", None), BRIEF_LENGTH),
            truncate(getattr(change, "old", None), BRIEF_LENGTH),
            change,
        )
        for change in changes
    }
    temp = {
        entry.name: KeySource(entry.name, truncate(entry.value, BRIEF_LENGTH), ghost=entry)
        for entry in ghosts
    }
    return {name: by_name.get(name) or temp.get(name) or KeySource(name) for name in names}


def _read_history(
    session: AgentSession, first: Event, call: ModelCall, request: CallRequest, agent: Mapping[str, Any]
) -> RequestHistory:
    """Return the history in a request. Its last contents are compared with the last events."""
    names = request.content_names[-CONTENTS_COMPARED:]
    unread_contents = len(request.content_names) - len(names)
    pieces = read_pieces(call.session_id, names)
    contents = [(number, pieces.get(name)) for number, name in enumerate(names, start=unread_contents + 1)]
    before = (
        Event.objects.filter(session=session, seq__lt=first.seq).defer("data", "private").order_by("-seq")
    )
    events = list(before[:EVENTS_COMPARED])[::-1]
    unread_events = events[0].seq - 1 if events else 0
    superseding = superseding_rows(session, unread_events + 1).filter(seq__lt=first.seq)
    turn_start = next(
        (event.seq for event in events if event.invocation_id == first.invocation_id), first.seq
    )
    context = RequestContext(
        agent=call.agent,
        branch=call.branch,
        turn_start=turn_start,
        has_no_history=(agent.get("settings") or {}).get("include_contents") == "none",
        ranges=superseded_ranges(session, superseding),
        is_partial=unread_contents > 0,
    )
    compared = compare_history(contents, events, context)
    return replace(compared, unread_contents=unread_contents, unread_events=unread_events)


def _list_results(request_history: RequestHistory) -> Iterator[RequestResult]:
    """Yield the tool results in a request, newest first."""
    calls = {
        call_id: event.seq
        for content in request_history.kept
        for event in content.events
        for call_id in event.decoded_summary.call_ids
    }
    for content in reversed(request_history.kept):
        for result in reversed(content.summary.get("results") or []):
            event = next((event for event in content.events if _has_result(event, result["name"])), None)
            ids = event.decoded_summary.answer_ids if event else []
            yield RequestResult(
                result, event, next((calls[call_id] for call_id in ids if call_id in calls), None)
            )


def _has_result(event: Event, name: str) -> bool:
    return any(result["name"] == name for result in event.decoded_summary["results"] or ())
