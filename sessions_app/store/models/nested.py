"""Runs of agents inside tool calls, with their events."""

from __future__ import annotations

import json
from functools import cached_property

from django.db import models

from sessions_app.store.models.sessions import AgentSession, EventSummary

UNINDEXED_NESTED = models.Q(
    stored_count__gt=models.F("indexed_count"), finished_at__isnull=False, seq__isnull=False
)
"""Condition: a nested run has ended and has events that are not indexed yet. It has a partial index."""


class NestedEvent(models.Model):
    """One event of a nested run, as the recorder observed it. It belongs to no session's history."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="nested_events", db_index=False
    )
    ref = models.TextField(help_text="The nested run's `ref`.")
    number = models.IntegerField(help_text="1, 2, 3 … within the nested run.")
    event_id = models.TextField()
    author = models.TextField()
    kind = models.CharField(max_length=16, help_text="A value of `events.EventKind`.")
    timestamp = models.FloatField()
    branch = models.TextField(default="")
    is_final = models.BooleanField(default=False)
    total_tokens = models.IntegerField(default=0)
    summary = models.TextField(help_text="JSON: content of a timeline row. See `events.summarize`.")
    data = models.TextField(help_text="JSON: the event in ADK's wire form, redacted.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "ref", "number"], name="nested_event_identity")
        ]

    @cached_property
    def decoded_summary(self) -> EventSummary:
        """The summary, decoded once."""
        return EventSummary(json.loads(self.summary))


class NestedRun(models.Model):
    """A run of an agent inside a tool call (`AgentTool`), in a session that ADK kept in memory only.

    Runs are named by `ref`, so that they can be copied with their session.
    """

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="nested_runs", db_index=False
    )
    ref = models.TextField(help_text="ADK's id of the nested invocation.")
    parent_ref = models.TextField(
        default="", help_text="`ref` of the nested run that made the call; empty: none."
    )
    seq = models.BigIntegerField(
        null=True, help_text="seq of the session's event with the outermost call; null: not stored yet."
    )
    invocation_id = models.TextField(help_text="Invocation of the session that it belongs to.")
    call_id = models.TextField(help_text="Id of the function call that it carries out.")
    agent = models.TextField()
    started_at = models.FloatField()
    finished_at = models.FloatField(null=True, help_text="Null: unfinished, or its process was killed.")
    changed_at = models.FloatField(help_text="Time of the last write, for live pages.")
    error = models.TextField(default="", help_text="Why it failed or was cut off; empty: it did not.")
    state = models.TextField(default="{}", help_text="JSON: state at its start, redacted and bounded.")
    state_omitted = models.IntegerField(default=0, help_text="Keys that `state` leaves out.")
    event_count = models.IntegerField(default=0, help_text="Number of its events.")
    stored_count = models.IntegerField(default=0, help_text="Number of its events that are stored.")
    total_tokens = models.BigIntegerField(default=0, help_text="Tokens of its own model calls.")
    usage = models.TextField(
        default="{}", db_default="{}", help_text="JSON: tokens of its own model calls by model and kind."
    )
    indexed_count = models.IntegerField(
        default=0, db_default=0, help_text="Stored events in the search index."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "ref"], name="nested_run_identity")]
        indexes = [
            models.Index(fields=["session", "seq"], name="nested_run_of_event"),
            models.Index(fields=["session", "changed_at"], name="nested_run_changed"),
            models.Index(fields=["id"], name="nested_run_unindexed", condition=UNINDEXED_NESTED),
        ]
