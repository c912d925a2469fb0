"""Search indexes of sessions, events and state. Written after the appends: see `search.indexing`."""

from django.db import models

from sessions_app.store.database.full_text import WordIndex, WordSetIndex, WordsField
from sessions_app.store.database.json_sql import MarkField
from sessions_app.store.models.sessions import AgentSession
from sessions_app.store.models.state import Scope


class EventWords(models.Model):
    """Words of an event. On SQLite only the FTS5 table has rows (see `full_text`)."""

    id = models.BigIntegerField(
        primary_key=True, help_text="Made of session and seq. See `event_index.place`."
    )
    words = WordsField(null=True)

    class Meta:
        indexes = [WordIndex(fields=["words"], name="event_words")]


class SessionWords(models.Model):
    """Words of some tens of consecutive events of a session, to find sessions by one word on PostgreSQL.

    SQLite's FTS5 table of events has such a column of its own.
    """

    id = models.BigIntegerField(primary_key=True, help_text="Made of session and seq of the first event.")
    words = WordsField(null=True, help_text="The words without positions.")

    class Meta:
        indexes = [WordSetIndex(fields=["words"], name="session_words")]


class SessionTrait(models.Model):
    """A distinct property of a session's events: a kind, an author, a tool, an error, a branch, a problem."""

    class Name(models.TextChoices):
        """The indexed properties."""

        KIND = "kind"
        AUTHOR = "author"
        TOOL = "tool"
        ERROR = "error"
        BRANCH = "branch"
        PROBLEM = "problem"

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="traits", db_index=False)
    name = models.CharField(max_length=8, choices=Name)
    value = models.CharField(max_length=200, help_text="The first 200 characters.")
    seq = models.BigIntegerField(help_text="seq of the newest event that has it.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "name", "value"], name="trait_of_session")]
        indexes = [models.Index(fields=["name", "value", "session"], name="sessions_by_trait")]


class StateValue(models.Model):
    """A distinct value that a key of an owner has ever had, to search for past states. See `search.indexing`.

    Each key also has the value `json_sql.ANY` once, to find all owners that ever had the key.
    """

    scope = models.CharField(max_length=8, choices=Scope)
    key_id = models.CharField(max_length=255)
    mark = MarkField(help_text="Type and start of the value, sortable. See `json_sql.mark`.")
    owner_id = models.BigIntegerField(help_text="Primary key of the AgentSession, UserScope or AppScope.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "key_id", "mark", "owner_id"], name="value_of_owner")
        ]
        indexes = [models.Index(fields=["scope", "owner_id"], name="values_of_owner")]
