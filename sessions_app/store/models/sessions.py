"""Apps, their sessions and events, tags, judgements, deleted sessions, and saved views."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from django.db import models

from sessions_app.store.database.json_sql import COUNTS_AS_ERROR, IS_REWIND_OR_COMPACTION
from sessions_app.store.session_key import StorableKey

UNINDEXED = models.Q(last_seq__gt=models.F("indexed_seq"))
"""Condition: the session has events that are not indexed yet. It has a partial index. See `index_backlog`."""

UNCHECKED = models.Q(last_seq__gt=models.F("problems_seq"))
"""Condition: the session has events that were not checked for problems. It has a partial index."""


class AgentSession(models.Model):
    """One conversation between a user and an app. `revision` grows with every write, for compare and set."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField()
    created_at = models.FloatField()
    updated_at = models.FloatField(help_text="ADK's last_update_time: time of the last event.")
    revision = models.BigIntegerField(default=0)
    last_seq = models.BigIntegerField(default=0, help_text="Number of events; the seq of the newest one.")
    origin = models.CharField(max_length=16, default="live")
    title = models.TextField(default="", help_text="Set by a person; pages fall back to first_text.")
    title_person = models.TextField(
        default="", db_default="", help_text="Name of the person who set the title; empty: unknown."
    )
    # That of the first message that is more than a greeting, if there is one (`sessions.greetings`).
    first_text = models.TextField(default="", help_text="Start of the user's first message.")
    last_text = models.TextField(default="")
    error_count = models.IntegerField(
        default=0, help_text="Events that are errors or have a failed tool result."
    )
    total_tokens = models.BigIntegerField(default=0)
    forked_from = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="forks",
        help_text="Null if that session was deleted.",
    )
    forked_seq = models.BigIntegerField(
        null=True,
        help_text="seq of the last copied event; null: no fork.",
    )
    lineage = models.TextField(default="", help_text="JSON: the origin of a fork; outlives that session.")
    pinned_at = models.FloatField(null=True, help_text="When it was pinned; null: not pinned.")
    pinned_person = models.TextField(
        default="", db_default="", help_text="Name of the person who pinned it; empty: unknown."
    )
    indexed_seq = models.BigIntegerField(
        default=-1,
        db_default=-1,
        help_text="Events up to this seq are indexed; later ones are scanned.",
    )
    problem_count = models.IntegerField(
        default=0, db_default=0, help_text="Errors and warnings among its problems."
    )
    problems_beyond = models.IntegerField(
        default=0, db_default=0, help_text="Those of them that are not stored."
    )
    problems_seq = models.BigIntegerField(
        default=-1, db_default=-1, help_text="Events up to this seq were checked for problems."
    )
    problems_version = models.IntegerField(
        default=0,
        db_default=0,
        help_text="Grows with every check, and whenever events must be checked again.",
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
                condition=UNINDEXED,
            ),
            models.Index(fields=["id"], name="session_unchecked", condition=UNCHECKED),
            models.Index(
                fields=["realm", "-updated_at", "-id"],
                name="session_with_problems",
                condition=models.Q(problem_count__gt=0),
            ),
            models.Index(
                fields=["realm", "-updated_at", "-id"],
                name="session_with_errors",
                condition=models.Q(error_count__gt=0),
            ),
            models.Index(fields=["session_id"], name="session_by_id"),
            models.Index(fields=["realm", "user_id", "-id"], name="session_by_user"),
            models.Index(fields=["realm", "last_seq", "id"], name="session_by_events"),
            models.Index(fields=["realm", "total_tokens", "id"], name="session_by_tokens"),
            models.Index(fields=["realm", "problem_count", "id"], name="session_by_problems"),
            models.Index(
                models.F("realm"),
                models.F("updated_at") - models.F("created_at"),
                models.F("id"),
                name="session_by_duration",
            ),
        ]

    @property
    def name(self) -> str:
        """Display name: the title, else the start of the user's first message, else the id."""
        return self.title or self.first_text or self.session_id

    @property
    def key(self) -> StorableKey:
        """The session's key."""
        return StorableKey(self.realm, self.app_name, self.user_id, self.session_id)


class SessionTag(models.Model):
    """A tag that a person gave a session. Not part of any agent's state."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="tags", db_index=False)
    name = models.CharField(max_length=64)
    person = models.TextField(
        default="", db_default="", help_text="Name of the person who added it; empty: unknown."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "name"], name="session_tag_identity")]
        indexes = [models.Index(fields=["name", "session"], name="session_by_tag")]


class EventJudgement(models.Model):
    """The judgement of a person on an event. Not part of any agent's state.

    A withdrawn judgement stays as a row without a note, so that open pages learn of the change: see `NOT_WITHDRAWN`.
    """

    class Verdict(models.TextChoices):
        """Verdict of a judgement; a withdrawn one stays as a row."""

        GOOD = "good", "good"
        BAD = "bad", "bad"
        WITHDRAWN = "withdrawn", "withdrawn"

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="judgements", db_index=False
    )
    seq = models.BigIntegerField(help_text="Number of the event.")
    verdict = models.CharField(max_length=9, choices=Verdict)
    note = models.TextField(default="")
    person = models.TextField(default="", help_text="Name of the person who judged last; empty: unknown.")
    judged_at = models.FloatField(help_text="Time of the last change.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "seq"], name="judgement_of_event")]
        indexes = [
            models.Index(fields=["session", "judged_at"], name="judgement_newest"),
            models.Index(fields=["verdict", "session"], name="session_by_judgement"),
        ]

    @property
    def is_withdrawn(self) -> bool:
        """Tell whether it was withdrawn."""
        return self.verdict == self.Verdict.WITHDRAWN


NOT_WITHDRAWN = ~models.Q(verdict=EventJudgement.Verdict.WITHDRAWN)
"""Condition: the judgement was not withdrawn."""


class DeletedSession(models.Model):
    """A deleted session that can still be restored. Until then it has a realm of its own."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="deletion")
    batch = models.CharField(max_length=32, help_text="Sessions of a batch are restored together.")
    realm = models.TextField(default="", help_text="Realm before the deletion.")
    deleted_at = models.FloatField()

    class Meta:
        indexes = [
            models.Index(fields=["batch"], name="deleted_together"),
            models.Index(fields=["deleted_at"], name="deleted_when"),
        ]


class SavedView(models.Model):
    """A named search of the session list."""

    name = models.CharField(max_length=64, unique=True)
    query = models.TextField(help_text="Search parameters of the session list.")
    created_at = models.FloatField()
    updated_at = models.FloatField()


class EventSummary(dict[str, Any]):
    """Decoded summary of an event (`events.summarize`); missing fields read as None.

    Rows access a dozen fields that most events lack, and failed lookups are expensive in templates.
    """

    def __missing__(self, name: str) -> None:
        return None

    @property
    def call_ids(self) -> list[str]:
        """Ids of the calls that the event makes."""
        return [call["id"] for call in self.get("calls", ()) if call["id"]]

    @property
    def answer_ids(self) -> list[str]:
        """Ids of the calls that the event answers."""
        return [result["id"] for result in self.get("results", ()) if result["id"]]


class Event(models.Model):
    """One event of a session. `seq` counts 1, 2, 3 … without gaps; it is the order and the cursor."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.BigIntegerField()
    event_id = models.TextField()
    invocation_id = models.TextField()
    author = models.TextField()
    kind = models.CharField(max_length=16, help_text="A value of `events.EventKind`.")
    timestamp = models.FloatField()
    branch = models.TextField(default="")
    app_version = models.BigIntegerField(default=0, help_text="Version of the app's state at the commit.")
    user_version = models.BigIntegerField(default=0, help_text="Version of the user's state at the commit.")
    is_final = models.BooleanField(default=False)
    total_tokens = models.IntegerField(default=0)
    summary = models.TextField(help_text="JSON: content of a timeline row. See `events.summarize`.")
    data = models.TextField(help_text="JSON: the event as ADK's REST sends it, redacted.")
    private = models.TextField(null=True, help_text="JSON: the whole event if `data` omits parts.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "seq"], name="event_seq"),
            models.UniqueConstraint(fields=["session", "event_id"], name="event_identity"),
        ]
        indexes = [
            models.Index(fields=["session", "invocation_id", "seq"], name="event_invocation"),
            models.Index(fields=["session", "kind", "seq"], name="event_of_kind"),
            models.Index(fields=["session", "seq"], name="event_touching", condition=IS_REWIND_OR_COMPACTION),
            models.Index(fields=["session", "seq"], name="event_error", condition=COUNTS_AS_ERROR),
        ]

    @cached_property
    def decoded_summary(self) -> EventSummary:
        """The summary, decoded once."""
        return EventSummary(json.loads(self.summary))


class AgentCard(models.Model):
    """Description of an app's agent as the runtime loaded it, or the error why it could not be loaded."""

    class Status(models.TextChoices):
        """Result of the last attempt to load the agent."""

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
    """Settings of an app that people edit. Not part of any agent's state."""

    app_name = models.TextField(unique=True)
    session_ttl_s = models.FloatField(
        null=True,
        help_text="Seconds without an event after which a session has expired; null: it never does.",
    )
