"""What sessions and events are found by. Written behind the appends: see `indexing`."""

from __future__ import annotations

from django.db import models

from sessions_app.models.sessions import AgentSession
from sessions_app.models.state import Scope
from sessions_app.store.full_text import WordIndex, WordSetIndex, WordsField
from sessions_app.store.json_sql import MarkField


class EventWords(models.Model):
    """What an event is found by: its words. See `indexing`. On SQLite only the index has rows (see `fulltext`)."""

    id = models.BigIntegerField(primary_key=True, help_text="Of session and seq. See `event_index.place`.")
    words = WordsField(null=True)

    class Meta:
        indexes = [WordIndex(fields=["words"], name="event_words")]


class SessionWords(models.Model):
    """Words of a session, of some tens of its events in a row: what finds sessions by one word on PostgreSQL.

    SQLite's index of events has such a column of its own.
    """

    id = models.BigIntegerField(primary_key=True, help_text="Of session and seq of the first of the events.")
    words = WordsField(null=True, help_text="The words without their places.")

    class Meta:
        indexes = [WordSetIndex(fields=["words"], name="session_words")]


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


class StateValue(models.Model):
    """A value that a key of an owner has had, once each: what finds a state that ever was. See `indexing`.

    Beside them stands `jsonsql.ANY`, so that all owners who ever had the key are found in the order of their keys.
    """

    scope = models.CharField(max_length=8, choices=Scope)
    key_id = models.CharField(max_length=255)
    mark = MarkField(help_text="The value's type and start, in the order of values. See `jsonsql.mark`.")
    owner_id = models.BigIntegerField(help_text="Primary key of the AgentSession, UserScope or AppScope.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "key_id", "mark", "owner_id"], name="value_of_owner")
        ]
        indexes = [models.Index(fields=["scope", "owner_id"], name="values_of_owner")]
