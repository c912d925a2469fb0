"""Recording of a stored session: tool calls with their results, and model calls, by turn. Read-only."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from django.db.models import Q

from sessions_app.store import events as wire
from sessions_app.store import scopes
from sessions_app.store.events.call_pairing import CallPairing
from sessions_app.store.events.conditions import HAS_CALLS, HAS_RESULTS, IS_USER_MESSAGE
from sessions_app.store.models import AgentSession, Event, ModelCall, Scope, StateChange, TempWrite
from sessions_app.traces import model_calls

Json = dict[str, Any]

CONTROL_ACTIONS = ("transferToAgent", "escalate", "skipSummarization")
"""Actions of a tool that control the run."""

REWIND = "rewindBeforeInvocationId"


@dataclass(frozen=True)
class RecordedResult:
    """A recorded tool call. `turn` counts from 0.

    Attributes:
        response: the response that the model received.
        delta: the state keys, with their prefixes, that the call wrote, including `temp:` ones.
        actions: control actions, by ADK's names.
    """

    agent: str
    tool: str
    args: Json
    turn: int
    seq: int
    response: Json
    delta: Json = field(default_factory=dict)
    actions: Json = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedCall:
    """A recorded model call: the `number`th of its agent in the turn, both from 0."""

    pk: int
    agent: str
    turn: int
    number: int
    model: str
    error: str = ""


@dataclass(frozen=True)
class Recording:
    """The parts of a session that can be replayed."""

    session_pk: int
    tools: list[RecordedResult]
    calls: dict[tuple[str, int, int], RecordedCall]
    """Model calls by agent, turn and number."""


def read_recording(session: AgentSession) -> Recording:
    """Return the recording of a session, without rewound turns."""
    events = list(_relevant_events(session))
    turns = number_turns(events)
    return Recording(session.pk, list(_tool_results(session, events, turns)), _recorded_calls(session, turns))


def read_answer(pk: int) -> tuple[list[Json], Json]:
    """Return the responses of a recorded model call, and its request."""
    call = ModelCall.objects.get(pk=pk)
    responses = [response for response in model_calls.responses(call) if not response.get("partial")]
    return responses, model_calls.request_json(call)


def _relevant_events(session: AgentSession) -> Iterator[tuple[Event, Json]]:
    """Yield the relevant events with their wire form."""
    condition = IS_USER_MESSAGE | HAS_CALLS | HAS_RESULTS | Q(data__contains=REWIND)
    rows = Event.objects.filter(Q(session=session) & condition).defer("private", "summary").order_by("seq")
    for event in rows.iterator():
        yield event, json.loads(event.data)


def number_turns(events: list[tuple[Event, Json]]) -> dict[str, int]:
    """Return the turn, from 0, of each invocation that began with a message and was not rewound."""
    turns: list[str] = []
    for event, data in events:
        rewound_to = (data.get("actions") or {}).get(REWIND)
        if rewound_to and rewound_to in turns:
            del turns[turns.index(rewound_to) :]
        elif event.author == "user" and event.invocation_id not in turns and _has_user_content(data):
            turns.append(event.invocation_id)
    return {invocation_id: turn for turn, invocation_id in enumerate(turns)}


def _has_user_content(data: Json) -> bool:
    """Tell whether a message is more than the answer to a tool's question: ADK makes no turn of that alone."""
    return any(not part.get("functionResponse") for part in wire.content_parts(data))


def _tool_results(
    session: AgentSession, events: list[tuple[Event, Json]], turns: Mapping[str, int]
) -> Iterator[RecordedResult]:
    pairing = CallPairing[tuple[str, Json]]()
    state_writes = _StateWrites.of(session)
    for event, data in events:
        if event.invocation_id not in turns:
            continue
        results = wire.function_responses(data) if event.author != "user" else []
        for result in results:
            agent, call = pairing.take(result, event.branch) or (event.author, {})
            actions = (data.get("actions") or {}) if len(results) == 1 else {}
            yield RecordedResult(
                agent=agent,
                tool=result.get("name") or call.get("name") or "",
                args=call.get("args") or {},
                turn=turns[event.invocation_id],
                seq=event.seq,
                response=result.get("response") or {},
                delta=state_writes.by(event, result, results),
                actions={name: actions[name] for name in CONTROL_ACTIONS if actions.get(name)},
            )
        pairing.add_event(((call, (event.author, call)) for call in wire.function_calls(data)), event.branch)


@dataclass(frozen=True)
class _StateWrites:
    """State keys that tools wrote, by the seq of the event: (call id, tool, key with its prefix, value)."""

    by_seq: Mapping[int, list[tuple[str, str, str, Any]]]

    @classmethod
    def of(cls, session: AgentSession) -> Self:
        """Read the writes of tools and those without a known writer."""
        by_seq: dict[int, list[tuple[str, str, str, Any]]] = defaultdict(list)
        for row in StateChange.objects.filter(session=session, writer__in=("", "tool")):
            value = None if row.removed else json.loads(row.value or "null")
            key = f"{scopes.PREFIX[Scope(row.scope)]}{row.key}"
            by_seq[row.seq].append((row.call_id, row.writer_name, key, value))
        for ghost in TempWrite.objects.filter(session=session, writer__in=("", "tool")):
            key = f"{scopes.TEMP_PREFIX}{ghost.key}"
            by_seq[ghost.seq].append((ghost.call_id, ghost.writer_name, key, json.loads(ghost.value)))
        return cls(by_seq)

    def by(self, event: Event, result: Json, results: Sequence[Json]) -> Json:
        """Return the keys that the call of one of an event's results wrote.

        A sole result also has the keys without a known writer, and of two tools with one call id each has its own.
        """
        call_id, tool = result.get("id") or "", result.get("name")
        other_tools = {other.get("name") for other in results if (other.get("id") or "") == call_id} - {tool}
        return {
            key: value
            for writer, name, key, value in self.by_seq.get(event.seq, [])
            if (writer == call_id and name not in other_tools) or (len(results) == 1 and not writer)
        }


def _recorded_calls(
    session: AgentSession, turns: Mapping[str, int]
) -> dict[tuple[str, int, int], RecordedCall]:
    rows = ModelCall.objects.filter(session=session, by_callback=False).order_by("pk")
    recorded: dict[tuple[str, int, int], RecordedCall] = {}
    numbers: dict[tuple[str, int], int] = {}
    for call in rows.defer("request", "response"):
        if (turn := turns.get(call.invocation_id)) is None:
            continue
        number = numbers.get((call.agent, turn), 0)
        numbers[call.agent, turn] = number + 1
        error = f"{call.error_type}: {call.error}" if call.error_type else ""
        recorded[call.agent, turn, number] = RecordedCall(
            call.pk, call.agent, turn, number, call.model, error
        )
    return recorded
