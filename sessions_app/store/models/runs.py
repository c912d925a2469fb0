"""Runs and the processes that execute them, and what the recorder observes: traces, spans, calls, nested runs, logs."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import Any

from django.db import models

from sessions_app.store.models.sessions import AgentSession

_SECONDS = partial(
    models.Func,
    template="coalesce(%(expressions)s, 0.0)",  # a parameter would keep SQLite from using the index
    output_field=models.FloatField(),
)
TRACE_DURATION = _SECONDS(models.F("finished_at") - models.F("started_at"))
"""Seconds that an invocation took; 0 until it ends. It has an index."""

RUN_DURATION = _SECONDS(models.F("finished_at") - models.F("started_at") - models.F("paused_s"))
"""Seconds that a run took without its pauses; 0 until it ends, and if it never started. It has an index."""


class RuntimeProcess(models.Model):
    """A runtime of one app, or a server that starts runtimes (with an empty `app_name`).

    A started run crashes with its process. A queued run waits for the next server.
    """

    id = models.CharField(max_length=32, primary_key=True)
    app_name = models.TextField()
    host = models.TextField()
    pid = models.IntegerField()
    pid_started_at = models.FloatField(
        default=0.0, help_text="Not used any more: `pid_identity` tells processes apart."
    )
    pid_identity = models.TextField(default="", db_default="", help_text="See `processes.identity`.")
    code_version = models.CharField(max_length=64, default="")
    server = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The server that started it, if any.",
    )
    started_at = models.FloatField()
    heartbeat_at = models.FloatField()
    stopped_at = models.FloatField(null=True)


class Run(models.Model):
    """One message sent to an agent, and its outcome. A run belongs to a runtime, not to a request."""

    class Status(models.TextChoices):
        """Status of a run. Queued and running runs are active. A waiting run is continued by another run."""

        QUEUED = "queued"
        RUNNING = "running"
        WAITING = "waiting", "waiting for input"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"
        CRASHED = "crashed"

    ACTIVE = (Status.QUEUED, Status.RUNNING)

    id = models.CharField(max_length=32, primary_key=True)
    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="runs", db_index=False)
    runtime = models.ForeignKey(RuntimeProcess, null=True, on_delete=models.SET_NULL, related_name="runs")
    status = models.CharField(max_length=16, choices=Status, default=Status.QUEUED)
    request = models.TextField(
        default="{}", help_text="JSON: new_message, streaming, state_delta, run_config, …"
    )
    source = models.CharField(max_length=16, default="console", help_text="console, api or script.")
    person = models.TextField(
        default="", db_default="", help_text="Name of the person who started it; empty: unknown."
    )
    invocation_id = models.TextField(default="")
    code_version = models.CharField(max_length=64, default="", help_text="Hash of the agent's files.")
    git_revision = models.TextField(
        default="", db_default="", help_text="Commit of the agent's folder; + when changed."
    )
    created_at = models.FloatField()
    started_at = models.FloatField(null=True)
    finished_at = models.FloatField(null=True)
    cancel_requested_at = models.FloatField(null=True)
    first_seq = models.BigIntegerField(null=True, help_text="seq of the session when the run started.")
    last_seq = models.BigIntegerField(null=True, help_text="seq of the session when the run ended.")
    paused_s = models.FloatField(
        default=0.0, db_default=0.0, help_text="Seconds for which it waited for decisions of persons."
    )
    paused_times = models.TextField(
        default="[]",
        db_default="[]",
        help_text="JSON: the newest of these intervals, [start, end], in order.",
    )
    error_type = models.TextField(default="")
    error = models.TextField(default="")
    traceback = models.TextField(default="")

    class Meta:
        indexes = [
            models.Index(fields=["session", "created_at"], name="run_of_session"),
            models.Index(fields=["-created_at", "-id"], name="run_newest"),
            models.Index(fields=["status", "created_at"], name="run_by_status"),
            models.Index(
                fields=["error_type", "-created_at", "-id"],
                name="run_by_error",
                condition=~models.Q(error_type=""),
            ),
            models.Index(fields=["session"], condition=models.Q(status="waiting"), name="run_waiting"),
            models.Index(fields=["session", "invocation_id"], name="run_of_invocation"),
            models.Index(RUN_DURATION, models.F("id"), name="run_by_duration"),
        ]

    @property
    def seconds(self) -> float | None:
        """Duration in seconds without pauses; None if the run has not started or not ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0.0, self.finished_at - self.started_at - self.paused_s)


class RunPause(models.Model):
    """A call of a model or tool, its outcome, or a write of state, where a run waits for a person's decision.

    It is deleted when the runtime carries out the decision, and when the run ends.
    """

    class Kind(models.TextChoices):
        """Kind of a pause: before a call of a model or tool, after one of a tool, at an error, at a write."""

        MODEL = "model"
        TOOL = "tool"
        RESULT = "result"
        TOOL_ERROR = "tool_error"
        MODEL_ERROR = "model_error"
        STATE = "state"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="pauses")
    kind = models.CharField(max_length=11, choices=Kind)
    agent = models.TextField(help_text="Agent that calls or writes.")
    target = models.TextField(help_text="Name of the tool or model, or of the state keys.")
    content = models.TextField(help_text="JSON: what the pause shows, and the state. See `runs.pauses`.")
    created_at = models.FloatField()
    expires_at = models.FloatField(help_text="When the run ends unless a person decides.")
    decision = models.TextField(default="", db_default="", help_text="JSON; empty: none yet.")
    decided_by = models.TextField(default="", db_default="", help_text="Name of the person; empty: unknown.")


UNINDEXED_NESTED = models.Q(
    stored_count__gt=models.F("indexed_count"), finished_at__isnull=False, outer_seq__isnull=False
)
"""Condition: a nested run has ended and has events that are not indexed yet. It has a partial index."""


class NestedRun(models.Model):
    """A run of an agent inside a tool call (`AgentTool`), and the call. Its events and state are those of `child`.

    ADK keeps the session of such a run in memory only; `child` is what the recorder observed of it.
    """

    CUT_OFF = "Cut off: the call was cancelled, or the process ended."
    """Error of a run whose end was not recorded."""

    caller = models.ForeignKey(
        AgentSession,
        on_delete=models.CASCADE,
        related_name="called_runs",
        db_index=False,
        help_text="Session with the call; itself a child, if the agent that called is nested.",
    )
    caller_seq = models.BigIntegerField(
        null=True, help_text="seq of the event of `caller` with the call; null: not stored yet."
    )
    outer = models.ForeignKey(
        AgentSession,
        on_delete=models.CASCADE,
        related_name="inner_runs",
        db_index=False,
        help_text="The outermost session: the one that lists show.",
    )
    outer_seq = models.BigIntegerField(
        null=True, help_text="seq of the event of `outer` with the outermost call; null: not stored yet."
    )
    child = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="nested_run")
    invocation_id = models.TextField(help_text="Invocation of `outer` that it belongs to.")
    call_id = models.TextField(help_text="Id of the function call that it carries out.")
    agent = models.TextField()
    started_at = models.FloatField()
    finished_at = models.FloatField(null=True, help_text="Null: unfinished, or its process was killed.")
    changed_at = models.FloatField(help_text="Time of the last write, for live pages.")
    error = models.TextField(default="", help_text="Why it failed or was cut off; empty: it did not.")
    state_omitted = models.IntegerField(
        default=0, help_text="Keys of the state at its start that are not stored."
    )
    event_count = models.IntegerField(default=0, help_text="Number of its events.")
    stored_count = models.IntegerField(default=0, help_text="Number of its events that are stored.")
    indexed_count = models.IntegerField(
        default=0, db_default=0, help_text="Stored events in the search index of `outer`."
    )

    class Meta:
        indexes = [
            models.Index(fields=["caller", "caller_seq"], name="nested_run_by_event"),
            models.Index(fields=["outer", "outer_seq"], name="nested_run_by_outer_event"),
            models.Index(fields=["outer", "changed_at"], name="nested_run_by_change"),
            models.Index(fields=["id"], name="nested_run_to_index", condition=UNINDEXED_NESTED),
        ]

    @property
    def omitted_count(self) -> int:
        """Number of its events that are not stored, because the outermost call had too many."""
        return self.event_count - self.stored_count


LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
"""Lowest number of each level."""


class LogRecord(models.Model):
    """A log record or printed line of an invocation. The order is that of the primary keys."""

    class Source(models.TextChoices):
        """Source of a record: Python's `logging`, or a standard stream."""

        LOG = "log"
        STDOUT = "stdout"
        STDERR = "stderr"

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="log_records", db_index=False
    )
    invocation_id = models.TextField()
    ref = models.CharField(max_length=32, help_text="The recorder's id of its part of the invocation.")
    number = models.IntegerField(help_text="1, 2, 3 … within `ref`.")
    at = models.FloatField()
    level = models.IntegerField(help_text="Python's number: 20 is INFO, 30 WARNING, 40 ERROR.")
    source = models.CharField(max_length=8, choices=Source)
    logger = models.TextField(default="", help_text="Name of the logger; empty: printed.")
    agent = models.TextField(default="", help_text="Agent that was running, if known.")
    tool = models.TextField(default="", help_text="Tool that was running, if known.")
    call_id = models.TextField(default="", help_text="Id of the tool's function call, if known.")
    after_event_id = models.TextField(
        default="", help_text="ADK id of the invocation's last event before it; empty: none."
    )
    message = models.TextField(help_text="Without credentials; a long one is truncated.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "ref", "number"], name="log_record_identity")
        ]
        indexes = [
            models.Index(fields=["session", "invocation_id", "id"], name="log_of_invocation"),
            models.Index(fields=["session", "id"], name="log_of_session"),
        ]


UNCOUNTED = models.Q(finished_at__gt=models.F("counted_until"))
"""Condition: an invocation has ended and is not part of the trends yet. It has a partial index."""

HAS_NO_RUN = models.Q(own_status__gt="")
"""Condition: the list of runs shows the invocation, as it has no run. It has partial indexes."""


class Trace(models.Model):
    """The stages of an invocation with their times, as the recorder observed them."""

    LOST_TOOLSET = "toolset failed"
    """Stage at which a toolset failed to load; it names the toolset, its agent and the error."""

    ERROR_CAUSE = "error cause"
    """Stage at which an exception had a known cause; it names the cause, the type and the message."""

    LOST_WRITE = "state write lost"
    """Stage at which tool calls that ran at once had written different values of a state key."""

    SEQUENCE_STOPPED = "sequence stopped"
    """Stage at which an answer continued an agent, but not the agents that come after it."""

    FAILED = "failed"
    """Last stage of an invocation that ended with an exception."""

    CUT_OFF = "cut off"
    """Last stage of an invocation that was cancelled or whose process ended."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="traces", db_index=False)
    invocation_id = models.TextField()
    trace_id = models.CharField(max_length=32, default="", help_text="OpenTelemetry's id in hex, if any.")
    root_agent = models.TextField(default="")
    started_at = models.FloatField()
    finished_at = models.FloatField(null=True, help_text="Null: unfinished, or its process was killed.")
    stages = models.TextField(default="[]", help_text="JSON: [name, time, agent or tool] of each stage.")
    counted_until = models.FloatField(
        default=0.0, db_default=0.0, help_text="Its end when it was last added to the trends; 0: never."
    )
    own_status = models.CharField(
        max_length=16,
        default="",
        db_default="",
        help_text="`Run.Status` of an invocation of another program; empty: it has a run, or is in a realm.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "invocation_id"], name="trace_of_invocation")
        ]
        indexes = [
            models.Index(fields=["-started_at", "-id"], name="trace_newest"),
            models.Index(fields=["trace_id"], name="trace_by_trace_id", condition=~models.Q(trace_id="")),
            models.Index(fields=["id"], name="trace_uncounted", condition=UNCOUNTED),
            models.Index(fields=["-started_at", "-id"], name="own_trace_newest", condition=HAS_NO_RUN),
            models.Index(TRACE_DURATION, models.F("id"), name="own_trace_by_duration", condition=HAS_NO_RUN),
        ]

    @property
    def decoded_stages(self) -> list[list[Any]]:
        """The stages as lists of name, time, and agent or tool."""
        stages: list[list[Any]] = json.loads(self.stages)
        return stages


class ModelCall(models.Model):
    """One request to a model with its response. The contents are `ModelPiece`s, referred to by their hashes."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="model_calls", db_index=False
    )
    ref = models.CharField(max_length=32, help_text="The recorder's id of the call.")
    invocation_id = models.TextField()
    number = models.IntegerField(help_text="1, 2, 3 … within the invocation.")
    agent = models.TextField()
    branch = models.TextField(default="")
    model = models.TextField(default="")
    event_id = models.TextField(default="", help_text="ADK id of the last event that it produced.")
    event_ids = models.TextField(default="[]", help_text="JSON: ids of all events that it produced.")
    started_at = models.FloatField()
    first_at = models.FloatField(null=True, help_text="Time of the first chunk or the response.")
    finished_at = models.FloatField(null=True, help_text="Null: unfinished, or its process was killed.")
    request = models.TextField(help_text="JSON: the request, redacted.")
    response = models.TextField(null=True, help_text="JSON: the response; null: none.")
    chunks = models.IntegerField(default=0, help_text="Number of partial responses.")
    prompt_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    thought_tokens = models.IntegerField(default=0)
    cached_tokens = models.IntegerField(default=0)
    total_tokens = models.IntegerField(default=0)
    by_callback = models.BooleanField(default=False, help_text="A callback or plug-in answered instead.")
    error_type = models.TextField(default="")
    error = models.TextField(default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "ref"], name="model_call_identity")]
        indexes = [
            models.Index(fields=["session", "invocation_id", "number"], name="call_of_invocation"),
            models.Index(fields=["session", "event_id"], name="call_of_event"),
            models.Index(fields=["session", "agent", "id"], name="call_of_agent"),
            models.Index(
                fields=["session", "invocation_id"],
                name="call_failed",
                condition=models.Q(error_type__gt=""),
            ),
        ]


class ModelPiece(models.Model):
    """A distinct part of a session's model requests: a content, a tool, an instruction, or a list of these."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="model_pieces", db_index=False
    )
    sha = models.CharField(max_length=32, help_text="Hash of `body`. See `traces.pieces`.")
    body = models.TextField(help_text="JSON, redacted; long texts are truncated.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "sha"], name="model_piece_identity")]


class Span(models.Model):
    """An OpenTelemetry span, recorded or received: an invocation, an agent, a model call, a tool call, or another."""

    class Kind(models.TextChoices):
        """The operation that a span measures."""

        INVOCATION = "invocation"
        AGENT = "agent"
        MODEL = "model"
        TOOL = "tool"
        OTHER = "other"

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="spans", db_index=False)
    invocation_id = models.TextField()
    trace_id = models.CharField(max_length=32, help_text="Hex.")
    span_id = models.CharField(max_length=16, help_text="Hex.")
    parent_id = models.CharField(max_length=16, default="", help_text="Hex; empty: no parent.")
    name = models.TextField()
    kind = models.CharField(max_length=12, choices=Kind)
    started_ns = models.BigIntegerField(help_text="Nanoseconds since the epoch.")
    ended_ns = models.BigIntegerField()
    failed = models.BooleanField(default=False)
    message = models.TextField(default="", help_text="The error message.")
    event_id = models.TextField(default="", help_text="ADK id of the event it produced, if known.")
    attributes = models.TextField(default="{}", help_text="JSON, without the request and the response.")
    events = models.TextField(
        default="[]", db_default="[]", help_text="JSON: name, at_ns and attributes of each event."
    )
    links = models.TextField(
        default="[]", db_default="[]", help_text="JSON: trace_id, span_id and attributes of each link."
    )
    source = models.TextField(
        default="{}",
        db_default="{}",
        help_text="JSON: resource and scope of the program that sent it, if any.",
    )

    class Meta:
        indexes = [
            models.Index(fields=["session", "invocation_id", "started_ns"], name="span_of_invocation"),
            models.Index(fields=["event_id"], name="span_by_event"),
            models.Index(fields=["trace_id", "span_id"], name="span_identity"),
        ]
