"""Data classes of the evidence that problem detectors get; `evidence_queries` reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]

ROWS_READ = 500
"""Newest rows of each table that are read for a batch."""


class TurnPart(StrEnum):
    """Role of an event in its turn. `NONE`: it has only state or signals."""

    STEP = "message, call or result"
    ANSWER = "text, file, code, speech or output of an agent"
    EMPTY_REPLY = "reply of a model with nothing but thoughts"
    NONE = ""


@dataclass(frozen=True, slots=True)
class EventEvidence:
    """An event. `error_code` may be a finish reason; `finish_reason` is empty for a normal end.

    `is_cut_off`: it has values that were nested too deeply, or inside themselves.
    """

    seq: int
    event_id: str
    agent: str
    timestamp: float
    error_code: str = ""
    error_message: str = ""
    finish_reason: str = ""
    is_cut_off: bool = False
    turn_part: TurnPart = TurnPart.NONE


@dataclass(frozen=True, slots=True, eq=False)
class ToolCall:
    """A function call by a model. `args` is None if they are too large to be checked. Each call equals only itself."""

    seq: int
    event_id: str
    agent: str
    call_id: str
    name: str
    args: Json | None


@dataclass(frozen=True, slots=True)
class SummarizedCall:
    """A call that later model requests no longer hold, because the compaction at `summary_seq` summarized it.

    `response` is that of its result; None if the result is not summarized, or too large.
    """

    call: ToolCall
    summary_seq: int
    response: Json | None


class ResultForm(StrEnum):
    """The form in which a tool's result reports a failure."""

    ERROR = "an error in its result"
    STATUS = "the status “error”"
    MCP = "MCP’s isError"
    RETRIED = "an exception, which the retry plug-in caught"
    ANSWERED = "an exception, in whose place a callback answered"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result of a tool. `form` is None if it reports no failure; `response` is None if it is too large.

    A result inside a nested run has the seq of the session's call. `call` is the call that it answers, if known; ids of
    calls are reused.
    """

    seq: int
    agent: str
    call_id: str
    name: str
    response: Json | None
    form: ResultForm | None = None
    message: str = ""
    is_nested: bool = False
    call: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool in a model request; `schema` is the JSON schema of its arguments, if it has one."""

    name: str
    schema: Json | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A recorded model call.

    Attributes:
        instruction: hash of the instruction.
        contents: hashes of the contents, for a request that may have lost its cache and the request before; else None.
        tools: the declared tools; None if unknown. `tools_sha` is their hash.
        max_output_tokens: the limit in the config; None if there is none.
        finish_reason: finish reason of the last response.
        started_at: its time; requests without an event are recorded late, so that their keys are not in order.
        is_partial: the model sent only partial responses.
        is_live: a request of a live connection, which may end before the model replies.
    """

    pk: int
    number: int
    invocation_id: str
    agent: str
    model: str
    event_ids: frozenset[str]
    instruction: str
    tools_sha: str
    contents: Sequence[str] | None
    tools: Sequence[DeclaredTool] | None
    max_output_tokens: int | None
    cached_tokens: int
    prompt_tokens: int
    finish_reason: str
    error_type: str
    error: str
    started_at: float = 0.0
    is_partial: bool = False
    is_live: bool = False


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """A run of the invocation; it may be active."""

    pk: str
    status: str
    error_type: str
    error: str
    last_seq: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the trace: its name, and the agent, tool or error that it is about."""

    name: str
    of: str


@dataclass(frozen=True, slots=True)
class LoggedError:
    """A log record or printed line of level ERROR or above. `seq` is the event that it follows; 0: unknown.

    `raised_by` is the tool whose exception the recorder logged with its traceback; empty for all other records.
    """

    pk: int
    seq: int
    agent: str
    logger: str
    message: str
    raised_by: str


@dataclass(frozen=True, slots=True)
class UntrackedChange:
    """A key that was changed without an event, with its prefix."""

    name: str
    is_removed: bool


@dataclass(frozen=True, slots=True)
class KeyWrite:
    """A write of a state key by an event, or with seq 0 by the creation of the session; `name` has the prefix.

    `notes` say how the stored value differs from the written one.
    """

    name: str
    seq: int
    agent: str
    value: str | None
    notes: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class TempKey:
    """The last write of a `temp:` key in an invocation; `name` has the prefix."""

    name: str
    seq: int
    invocation_id: str


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """All input of the problem detectors: one invocation, or the session as a whole if `invocation_id` is empty.

    An invocation with very many events has only the newest. Without the recorder, all fields are empty that only it
    observes: requests, stages, untracked changes and `temp:` keys.

    Attributes:
        logged_errors: log records of level ERROR or above.
        trace_pk: key of the trace that has the stages; 0: none.
        previous_requests: last model request of each agent before this invocation.
        earlier_temp: `temp:` keys written in earlier invocations, newest first.
        summarized_calls: calls of earlier events that a compaction replaced by its summary, oldest first.
        unused_tools: declared tools that the session never called, by agent; only for the session as a whole.
        initial_state_fault: why the agent's initial state file could not be used; only for the session as a whole.
    """

    app_name: str
    invocation_id: str = ""
    events: Sequence[EventEvidence] = ()
    calls: Sequence[ToolCall] = ()
    results: Sequence[ToolResult] = ()
    requests: Sequence[ModelRequest] = ()
    previous_requests: Mapping[str, ModelRequest] = field(default_factory=dict)
    runs: Sequence[RunEvidence] = ()
    stages: Sequence[Stage] = ()
    logged_errors: Sequence[LoggedError] = ()
    trace_pk: int = 0
    untracked: Sequence[UntrackedChange] = ()
    writes: Sequence[KeyWrite] = ()
    earlier_temp: Sequence[TempKey] = ()
    summarized_calls: Sequence[SummarizedCall] = ()
    unused_tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    initial_state_fault: str = ""

    @property
    def last_seq(self) -> int:
        """The seq of the last event; 0 if there is none."""
        return self.events[-1].seq if self.events else 0

    def find_request(self, event_id: str) -> ModelRequest | None:
        """Return the model request that produced an event, if it was recorded."""
        return next((request for request in self.requests if event_id in request.event_ids), None)
