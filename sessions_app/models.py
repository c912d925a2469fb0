"""The store: sessions, events, scoped state and the ledger of every change to it.

Every row that belongs to a session carries its realm through the session or the scope: an empty realm is real
life, any other one is an eval attempt's (or a fork's, or a replay's) private world.

Times are float seconds since the epoch, as in ADK. Values and event bodies are JSON in text columns: PostgreSQL's
jsonb refuses NUL, lone surrogates and NaN, and reorders keys.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import models

from sessions_app.fulltext import WordIndex, WordsField
from sessions_app.jsonsql import TOUCHES_OTHERS, MarkField


class Scope(models.TextChoices):
    """The three stored scopes of state. `temp:` lives in the invocation and is kept as `TempWrite`."""

    SESSION = "session"
    USER = "user"
    APP = "app"


class Kind(models.TextChoices):
    """What an event is at a glance."""

    USER = "user", "user input"
    AGENT = "agent", "agent response"
    TOOL_CALL = "tool_call", "tool call"
    TOOL_RESULT = "tool_result", "tool result"
    STATE = "state", "state update"
    CONTROL = "control", "control signal"
    ERROR = "error", "error"


class Cause(models.TextChoices):
    """Why a key changed."""

    SEED = "seed", "initial state"
    APPEND = "append", "event"
    EDIT = "edit", "edited by hand"
    REWIND = "rewind", "rewind"
    IMPORT = "import", "import"
    FORK = "fork", "fork"


class AgentSession(models.Model):
    """One conversation between a user and an app. `revision` grows by one with every write: compare and set."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField()
    created_at = models.FloatField()
    updated_at = models.FloatField(
        help_text="ADK's last_update_time: the timestamp of the last event appended."
    )
    revision = models.BigIntegerField(default=0)
    last_seq = models.BigIntegerField(default=0, help_text="Number of events; the seq of the newest one.")
    origin = models.CharField(max_length=16, default="live")
    title = models.TextField(default="", help_text="Given by a person; pages fall back to first_text.")
    first_text = models.TextField(default="", help_text="Start of the first thing the user said.")
    last_text = models.TextField(default="")
    error_count = models.IntegerField(default=0)
    total_tokens = models.BigIntegerField(default=0)
    forked_from = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="forks",
        help_text="Null also once it is deleted.",
    )
    forked_seq = models.BigIntegerField(
        null=True,
        help_text="seq of the last event taken over from the session it was forked from; null: no fork.",
    )
    lineage = models.TextField(
        default="", help_text="JSON: app, user, session and event it was forked at; outlives that session."
    )
    pinned_at = models.FloatField(null=True, help_text="When a person pinned it; null: it is not pinned.")
    indexed_seq = models.BigIntegerField(
        default=-1,
        db_default=-1,
        help_text="What was written up to this seq is found by indexes, what came later by looking at it.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["realm", "app_name", "user_id", "session_id"], name="session_identity"
            ),
        ]
        indexes = [
            models.Index(
                fields=["realm", "-pinned_at", "-id"],
                name="session_pinned",
                condition=models.Q(pinned_at__isnull=False),
            ),
            models.Index(fields=["realm", "-updated_at", "-id"], name="session_newest"),
            models.Index(fields=["realm", "app_name", "-updated_at", "-id"], name="session_newest_of_app"),
            models.Index(
                fields=["id"],
                name="session_unindexed",
                condition=models.Q(last_seq__gt=models.F("indexed_seq")),
            ),
            models.Index(
                fields=["realm", "-updated_at", "-id"],
                name="session_with_errors",
                condition=models.Q(error_count__gt=0),
            ),
            models.Index(fields=["session_id"], name="session_by_id"),
        ]


class SessionTag(models.Model):
    """A word that a person put on a session to find it by. No part of any agent's state."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="tags", db_index=False)
    name = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "name"], name="session_tag_identity")]
        indexes = [models.Index(fields=["name", "session"], name="session_by_tag")]


class DeletedSession(models.Model):
    """A session that a person deleted and may still have back. Meanwhile its realm is one of its own."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="deletion")
    batch = models.CharField(max_length=32, help_text="What was deleted together comes back together.")
    realm = models.TextField(default="", help_text="Where it was and comes back to.")
    deleted_at = models.FloatField()

    class Meta:
        indexes = [
            models.Index(fields=["batch"], name="deleted_together"),
            models.Index(fields=["deleted_at"], name="deleted_when"),
        ]


class SavedView(models.Model):
    """A search of the session browser, kept under a name."""

    name = models.CharField(max_length=64, unique=True)
    query = models.TextField(help_text="The query string of its page, without the place on it.")
    created_at = models.FloatField()
    updated_at = models.FloatField()


class Event(models.Model):
    """One event of a session. `seq` is 1, 2, 3 … without holes: the cursor, the order and the time axis."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.BigIntegerField()
    event_id = models.TextField()
    invocation_id = models.TextField()
    author = models.TextField()
    kind = models.CharField(max_length=16, choices=Kind)
    timestamp = models.FloatField()
    branch = models.TextField(default="")
    app_version = models.BigIntegerField(
        default=0, help_text="Version of the app's state this event's commit saw."
    )
    user_version = models.BigIntegerField(
        default=0, help_text="Version of the user's state this event's commit saw."
    )
    is_final = models.BooleanField(default=False)
    total_tokens = models.IntegerField(default=0)
    summary = models.TextField(
        help_text="JSON: what a timeline row shows, bounded in size. See `wire.summarise`."
    )
    data = models.TextField(
        help_text="JSON: the event as ADK's REST sends it; credentials and internals left out."
    )
    private = models.TextField(
        null=True, help_text="JSON: the whole event, when `data` leaves something out."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "seq"], name="event_seq"),
            models.UniqueConstraint(fields=["session", "event_id"], name="event_identity"),
        ]
        indexes = [
            models.Index(fields=["session", "invocation_id", "seq"], name="event_invocation"),
            models.Index(fields=["session", "kind", "seq"], name="event_of_kind"),
            models.Index(fields=["session", "seq"], name="event_touching", condition=TOUCHES_OTHERS),
        ]


class EventWords(models.Model):
    """What an event is found by: its words. See `indexing`. On SQLite only the index has rows (see `fulltext`)."""

    id = models.BigIntegerField(primary_key=True, help_text="Of session and seq. See `event_index.place`.")
    words = WordsField(null=True)

    class Meta:
        indexes = [WordIndex(fields=["words"], name="event_words")]


class SessionTrait(models.Model):
    """What a session has among its events, once each: a kind, an author, a tool, an error, a branch."""

    class Name(models.TextChoices):
        """What is kept of a session's events."""

        KIND = "kind"
        AUTHOR = "author"
        TOOL = "tool"
        ERROR = "error"
        BRANCH = "branch"

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="traits", db_index=False)
    name = models.CharField(max_length=8, choices=Name)
    value = models.CharField(max_length=200, help_text="The start of it, when it is longer.")
    seq = models.BigIntegerField(help_text="seq of the newest event that has it.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "name", "value"], name="trait_of_session")]
        indexes = [models.Index(fields=["name", "value", "session"], name="sessions_by_trait")]


class AppScope(models.Model):
    """Owner of an app's state. `version` counts the commits that wrote it and is taken under this row's lock."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["realm", "app_name"], name="app_scope_identity")]


class UserScope(models.Model):
    """Owner of a user's state in an app. `version` as in `AppScope`."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["realm", "app_name", "user_id"], name="user_scope_identity")
        ]


class StateRow(models.Model):
    """One key of one owner as it is now. `key_id` is the key, or its hash when it is too long to index."""

    key = models.TextField()
    key_id = models.CharField(max_length=255)
    value = models.TextField(help_text="JSON, credentials left out.")
    private = models.TextField(
        null=True, help_text="JSON: the whole value, when `value` leaves something out."
    )
    note = models.CharField(
        max_length=32, default="", help_text="What had to be done to make the value JSON."
    )
    position = models.BigIntegerField(help_text="seq (session) or version (user, app) of the last write.")

    class Meta:
        abstract = True


class SessionState(StateRow):
    """A key of a session."""

    owner = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="state_rows", db_index=False
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key_id"], name="session_state_key")]


class UserState(StateRow):
    """A key of a user in an app, stored without its `user:` prefix."""

    owner = models.ForeignKey(UserScope, on_delete=models.CASCADE, related_name="state_rows", db_index=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key_id"], name="user_state_key")]


class AppState(StateRow):
    """A key of an app, stored without its `app:` prefix."""

    owner = models.ForeignKey(AppScope, on_delete=models.CASCADE, related_name="state_rows", db_index=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key_id"], name="app_state_key")]


class StateChange(models.Model):
    """The ledger: one row per key written, never changed. State at an event is one index seek a key.

    `position` orders an owner's rows: the event's seq for a session, the scope's version for a user or an app.
    (An autoincrement id is no order on PostgreSQL: ids commit out of order.) Rows of users and apps outlive the
    session that wrote them, so the writer is kept in plain columns.
    """

    scope = models.CharField(max_length=8, choices=Scope)
    owner_id = models.BigIntegerField(help_text="Primary key of the AgentSession, UserScope or AppScope.")
    key = models.TextField()
    key_id = models.CharField(max_length=255)
    position = models.BigIntegerField()
    value = models.TextField(null=True, help_text="JSON; null in a tombstone.")
    private = models.TextField(null=True)
    note = models.CharField(max_length=32, default="")
    removed = models.BooleanField(default=False, help_text="A tombstone: the key was removed.")
    cause = models.CharField(max_length=8, choices=Cause)
    timestamp = models.FloatField()
    session = models.ForeignKey(
        AgentSession, null=True, on_delete=models.SET_NULL, related_name="changes", db_index=False
    )
    from_user = models.TextField(help_text="User of the writing session.")
    from_session = models.TextField(help_text="ADK id of the writing session.")
    seq = models.BigIntegerField(help_text="seq of the writing event; 0 for a seed.")
    event_id = models.TextField(default="")
    invocation_id = models.TextField(default="")
    author = models.TextField(default="")
    writer = models.CharField(
        max_length=16, default="", help_text="tool, callback, output_key, delta, …; empty: unknown."
    )
    writer_name = models.TextField(default="")
    call_id = models.TextField(default="")
    inferred = models.BooleanField(default=True, help_text="The writer was inferred, no recorder saw it.")

    class Meta:
        indexes = [
            models.Index(fields=["scope", "owner_id", "key_id", "position"], name="change_of_key"),
            models.Index(fields=["session", "seq"], name="change_of_event"),
        ]


class StateValue(models.Model):
    """A value that a key of an owner has had, once each: what finds a state that ever was. See `indexing`."""

    scope = models.CharField(max_length=8, choices=Scope)
    key_id = models.CharField(max_length=255)
    mark = MarkField(help_text="The value's type and start, in the order of values. See `jsonsql.mark`.")
    owner_id = models.BigIntegerField(help_text="Primary key of the AgentSession, UserScope or AppScope.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "key_id", "mark", "owner_id"], name="value_of_owner")
        ]
        indexes = [models.Index(fields=["scope", "owner_id"], name="values_of_owner")]


class TempWrite(models.Model):
    """A `temp:` key as the recorder saw it: shown while its invocation lasts, never part of any state."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="temp_writes", db_index=False
    )
    seq = models.BigIntegerField()
    invocation_id = models.TextField()
    key = models.TextField()
    value = models.TextField(help_text="JSON, credentials left out.")
    note = models.CharField(max_length=32, default="")
    author = models.TextField(default="")
    writer = models.CharField(max_length=16, default="")
    writer_name = models.TextField(default="")
    call_id = models.TextField(default="")

    class Meta:
        indexes = [models.Index(fields=["session", "invocation_id", "seq"], name="temp_of_invocation")]


class UntrackedKey(models.Model):
    """A key that an agent changed in its own copy of the state, without an event: lost after the invocation."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="untracked_keys", db_index=False
    )
    seq = models.BigIntegerField(help_text="seq of the session's last event when the invocation ended.")
    invocation_id = models.TextField()
    scope = models.CharField(max_length=8, choices=Scope)
    key = models.TextField()
    value = models.TextField(null=True, help_text="JSON, credentials left out; null: the key was taken out.")
    stored = models.TextField(null=True, help_text="JSON of what events had stored; null: no such key.")
    note = models.CharField(max_length=32, default="")
    noticed_at = models.FloatField()

    class Meta:
        indexes = [models.Index(fields=["session", "invocation_id"], name="untracked_of_invocation")]


class AgentCard(models.Model):
    """What is known of an app's agent: its description as the runtime loaded it, or why it could not be loaded."""

    class Status(models.TextChoices):
        """Whether the agent could be loaded when last tried."""

        UNKNOWN = "unknown", "not loaded yet"
        READY = "ready", "ready"
        FAILED = "failed", "failed to load"

    app_name = models.TextField(unique=True)
    status = models.CharField(max_length=8, choices=Status, default=Status.UNKNOWN)
    code_version = models.CharField(
        max_length=64, default="", help_text="Hash of the agent's files when loaded."
    )
    description = models.TextField(default="{}", help_text="JSON: the tree of agents.")
    error = models.TextField(default="{}", help_text="JSON: type, message, file, line, traceback.")
    checked_at = models.FloatField(default=0.0)


class AppSettings(models.Model):
    """What a person decided for an app's sessions. Nothing here is part of any agent's state."""

    app_name = models.TextField(unique=True)
    session_ttl_s = models.FloatField(
        null=True,
        help_text="Seconds without an event after which a session has expired; null: it never does.",
    )


class RuntimeProcess(models.Model):
    """A process that runs the agents of one app. A run whose process is gone has crashed."""

    id = models.CharField(max_length=32, primary_key=True)
    app_name = models.TextField()
    host = models.TextField()
    pid = models.IntegerField()
    pid_started_at = models.FloatField(default=0.0, help_text="Tells a reused pid from this process.")
    code_version = models.CharField(max_length=64, default="")
    started_at = models.FloatField()
    heartbeat_at = models.FloatField()
    stopped_at = models.FloatField(null=True)


class Run(models.Model):
    """One message sent to an agent and what became of it. It belongs to a runtime process, not to a request."""

    class Status(models.TextChoices):
        """Where a run stands. Queued and running ones are active; a waiting one is answered by another run."""

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
    invocation_id = models.TextField(default="")
    code_version = models.CharField(max_length=64, default="")
    created_at = models.FloatField()
    started_at = models.FloatField(null=True)
    finished_at = models.FloatField(null=True)
    cancel_requested_at = models.FloatField(null=True)
    first_seq = models.BigIntegerField(null=True, help_text="seq of the session when the run started.")
    last_seq = models.BigIntegerField(null=True, help_text="seq of the session when the run ended.")
    error_type = models.TextField(default="")
    error = models.TextField(default="")
    traceback = models.TextField(default="")

    class Meta:
        indexes = [
            models.Index(fields=["session", "created_at"], name="run_of_session"),
            models.Index(fields=["status", "created_at"], name="run_by_status"),
            models.Index(fields=["session"], condition=models.Q(status="waiting"), name="run_waiting"),
        ]


class Trace(models.Model):
    """An invocation as the recorder saw it from inside: which stages it reached when."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="traces", db_index=False)
    invocation_id = models.TextField()
    trace_id = models.CharField(max_length=32, default="", help_text="OpenTelemetry's, in hex, if any.")
    root_agent = models.TextField(default="")
    started_at = models.FloatField()
    finished_at = models.FloatField(null=True, help_text="Null: it goes on, or its process was killed.")
    stages = models.TextField(default="[]", help_text="JSON: [name, time, agent or tool] of each stage.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "invocation_id"], name="trace_of_invocation")
        ]
        indexes = [models.Index(fields=["-started_at", "-id"], name="trace_newest")]

    @property
    def stages_told(self) -> list[list[Any]]:
        """The stages as lists of name, time, agent or tool."""
        told: list[list[Any]] = json.loads(self.stages)
        return told


class ModelCall(models.Model):
    """One request to a model and what came back. The contents are `ModelPiece`s, named by their hashes."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="model_calls", db_index=False
    )
    ref = models.CharField(max_length=32, help_text="The recorder's own name of the call.")
    invocation_id = models.TextField()
    number = models.IntegerField(help_text="1, 2, 3 … in its invocation.")
    agent = models.TextField()
    branch = models.TextField(default="")
    model = models.TextField(default="")
    event_id = models.TextField(default="", help_text="ADK id of the last event that it became.")
    event_ids = models.TextField(default="[]", help_text="JSON: of all of them.")
    started_at = models.FloatField()
    first_at = models.FloatField(null=True, help_text="When the first chunk or the response came.")
    finished_at = models.FloatField(null=True, help_text="Null: it goes on, or its process was killed.")
    request = models.TextField(help_text="JSON: what was asked; credentials left out.")
    response = models.TextField(null=True, help_text="JSON: what came back; null: nothing.")
    chunks = models.IntegerField(default=0, help_text="Partial responses before the whole one.")
    prompt_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    thought_tokens = models.IntegerField(default=0)
    cached_tokens = models.IntegerField(default=0)
    total_tokens = models.IntegerField(default=0)
    by_callback = models.BooleanField(
        default=False, help_text="A callback or a plug-in answered in the model's place."
    )
    error_type = models.TextField(default="")
    error = models.TextField(default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "ref"], name="model_call_identity")]
        indexes = [
            models.Index(fields=["session", "invocation_id", "number"], name="call_of_invocation"),
            models.Index(fields=["session", "event_id"], name="call_of_event"),
            models.Index(fields=["session", "agent", "id"], name="call_of_agent"),
        ]


class ModelPiece(models.Model):
    """A part of model requests of a session, once: a content, a tool, an instruction, or a list of such."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="model_pieces", db_index=False
    )
    sha = models.CharField(max_length=32, help_text="Of `body`. See `traces.pieces`.")
    body = models.TextField(help_text="JSON, credentials left out; of a very long text the beginning.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "sha"], name="model_piece_identity")]


class Span(models.Model):
    """A span of OpenTelemetry that ADK made in a run: an invocation, an agent, a model call, a tool call."""

    class Kind(models.TextChoices):
        """What the time was spent on."""

        INVOCATION = "invocation"
        AGENT = "agent"
        MODEL = "model"
        TOOL = "tool"
        OTHER = "other"

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="spans", db_index=False)
    invocation_id = models.TextField()
    trace_id = models.CharField(max_length=32, help_text="Hex.")
    span_id = models.CharField(max_length=16, help_text="Hex.")
    parent_id = models.CharField(max_length=16, default="", help_text="Hex; empty: it has none.")
    name = models.TextField()
    kind = models.CharField(max_length=12, choices=Kind)
    started_ns = models.BigIntegerField(help_text="Nanoseconds since the epoch.")
    ended_ns = models.BigIntegerField()
    failed = models.BooleanField(default=False)
    message = models.TextField(default="", help_text="How it failed.")
    event_id = models.TextField(default="", help_text="ADK id of the event it made, if it says so.")
    attributes = models.TextField(default="{}", help_text="JSON, without the request and the response.")

    class Meta:
        indexes = [
            models.Index(fields=["session", "invocation_id", "started_ns"], name="span_of_invocation"),
            models.Index(fields=["event_id"], name="span_by_event"),
        ]


class Artifact(models.Model):
    """One saved version of a named file: in a session, or, with an empty `session_id`, of a user in every session.

    There is no key to the session: ADK saves artifacts of sessions that another service keeps.
    """

    class Holding(models.TextChoices):
        """Which field of ADK's Part holds the payload."""

        TEXT = "text"
        DATA = "data", "inline data"
        LINK = "link", "a URI elsewhere"

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField(default="", help_text="ADK id of the session; empty: the user's.")
    filename = models.TextField(help_text="Without its `user:` prefix.")
    filename_id = models.CharField(
        max_length=255, help_text="The filename, or its hash when too long to index."
    )
    version = models.BigIntegerField(help_text="0, 1, 2 … in the order of saving.")
    holding = models.CharField(max_length=8, choices=Holding)
    mime_type = models.TextField(null=True)
    size = models.BigIntegerField(default=0, help_text="Bytes of the payload; a text's in UTF-8.")
    sha256 = models.CharField(max_length=64, default="", help_text="Of the payload; empty: there is none.")
    content = models.BinaryField(null=True, help_text="The payload, when it is small enough for a row.")
    part = models.TextField(help_text="JSON: ADK's Part without its payload.")
    custom_metadata = models.TextField(
        default="{}", help_text="JSON as the agent gave it: redact what is shown."
    )
    created_at = models.FloatField()
    from_session = models.TextField(default="", help_text="ADK id of the session it was saved in, if any.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["realm", "app_name", "user_id", "session_id", "filename_id", "version"],
                name="artifact_version",
            ),
        ]
        indexes = [
            models.Index(fields=["sha256"], name="artifact_content"),
            models.Index(fields=["realm", "-created_at", "-id"], name="artifact_newest"),
            models.Index(fields=["realm", "app_name", "-created_at", "-id"], name="artifact_newest_of_app"),
        ]


class MemoryEntry(models.Model):
    """One thing an agent may recall of a user in later sessions. A removed one stays, emptied, to stay removed."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField(default="", help_text="ADK id of the session it comes from, if any.")
    entry_id = models.TextField(help_text="ADK's memory id: the event's id, or one of its own.")
    removed = models.BooleanField(default=False)
    author = models.TextField(default="")
    timestamp = models.FloatField(help_text="When it was said or, unknown, when it was added.")
    told_time = models.TextField(default="", help_text="The time in the words it was added with, if any.")
    content = models.TextField(help_text="JSON: ADK's Content, credentials left out.")
    private = models.TextField(
        null=True, help_text="JSON: the whole content, when `content` leaves something out."
    )
    custom_metadata = models.TextField(
        default="{}", help_text="JSON as the agent gave it: redact what is shown."
    )
    words = WordsField(null=True, help_text="What it is found by. Written by `fulltext` alone.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["realm", "app_name", "user_id", "session_id", "entry_id"], name="memory_identity"
            ),
        ]
        indexes = [
            WordIndex(fields=["words"], name="memory_words"),
            models.Index(
                fields=["realm", "app_name", "user_id"],
                name="memory_removed",
                condition=models.Q(removed=True),
            ),
            models.Index(
                fields=["realm", "-timestamp", "-id"], name="memory_newest", condition=models.Q(removed=False)
            ),
            models.Index(
                fields=["realm", "app_name", "user_id", "-timestamp", "-id"],
                name="memory_newest_of_user",
                condition=models.Q(removed=False),
            ),
        ]


class ImportSource(models.Model):
    """A store of another program that sessions were imported from."""

    location = models.TextField(unique=True, help_text="Path or URL, without a password.")
    format = models.TextField(help_text="What it was found to be. See `importers.records.Format`.")
    fingerprint = models.TextField(default="", help_text="What it was when it was last read to its end.")
    read_at = models.FloatField(null=True, help_text="When it was last read to its end; null: never yet.")


class ImportedSession(models.Model):
    """Where an imported session came from and how far. Beyond `last_seq` it went on here."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="imported")
    source = models.ForeignKey(ImportSource, on_delete=models.CASCADE, related_name="sessions")
    last_seq = models.BigIntegerField(default=0, help_text="seq of the last event that came from the source.")
    is_settled = models.BooleanField(
        default=False, help_text="All of it has come: events, state and times are as in the source."
    )


class MirroredSession(models.Model):
    """A session that one of ADK's services keeps: that one is the truth, what is here is a copy that pages show."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="mirrored")
    place = models.TextField(help_text="ADK's URI of the service, without a password.")
    behind = models.TextField(
        default="", help_text="How the copy differs from the truth; empty: it does not."
    )


class ImportedScope(models.Model):
    """A user's or an app's state that nobody but one source has written: its `version` is still that one's."""

    source = models.ForeignKey(ImportSource, on_delete=models.CASCADE, related_name="scopes")
    scope = models.CharField(max_length=8, choices=Scope)
    owner_id = models.BigIntegerField(help_text="Primary key of the UserScope or AppScope.")
    version = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["scope", "owner_id"], name="imported_scope")]
