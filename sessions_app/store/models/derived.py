"""Tables derived from events and runs: words, traits and values for searches, tokens, problems, roll-ups."""

from __future__ import annotations

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


class SessionUsage(models.Model):
    """Tokens of the model calls of a session's indexed events, by model and day (see `prices.session_usage`)."""

    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="usage", db_index=False)
    model = models.TextField(
        help_text="The model that was asked, else the version that answered; empty: unknown."
    )
    day = models.IntegerField(help_text="UTC; days since the epoch.")
    calls = models.BigIntegerField()
    unclear = models.BigIntegerField(help_text="Calls of which only the total is known.")
    prompt = models.BigIntegerField(help_text="Cached tokens included.")
    output = models.BigIntegerField(help_text="Thoughts included.")
    thoughts = models.BigIntegerField()
    cached = models.BigIntegerField()
    total = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "model", "day"], name="usage_identity")]


class PersonUsage(models.Model):
    """Runs, tokens and cost of a person on a day in one app or, with an empty `app_name`, in all apps together."""

    person = models.TextField()
    day = models.IntegerField(help_text="UTC; days since the epoch.")
    app_name = models.TextField()
    runs = models.IntegerField(help_text="Runs and eval runs that began.")
    tokens = models.BigIntegerField()
    cost = models.FloatField(help_text="Without calls that have no price.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "day", "app_name"], name="usage_of_person_and_day")
        ]


class SessionProblem(models.Model):
    """A problem of an invocation or of the state; without either, of the session. The detector has title and remedy."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="problems", db_index=False
    )
    code = models.CharField(max_length=64)
    scope = models.CharField(
        max_length=10,
        default="invocation",
        db_default="invocation",
        help_text="A value of `problems.DetectorScope`.",
    )
    severity = models.CharField(max_length=8, help_text="A value of `problems.Severity`.")
    invocation_id = models.TextField(default="")
    seq = models.BigIntegerField(default=0, help_text="seq of the event; 0: the invocation as a whole.")
    agent = models.TextField(default="")
    key = models.TextField(
        default="",
        db_default="",
        help_text="State key that it is about, with its prefix. The text completes a sentence that begins with it.",
    )
    text = models.TextField(help_text="One sentence.")
    links = models.TextField(
        default="[]", help_text="JSON: kind, target and label of each piece of evidence."
    )
    more = models.IntegerField(default=0, help_text="Number of further problems like it that are not stored.")

    class Meta:
        indexes = [
            models.Index(fields=["session", "seq", "id"], name="problem_of_event"),
            models.Index(fields=["session", "invocation_id"], name="problem_of_invocation"),
        ]


class TrendBucket(models.Model):
    """Totals of an hour or a day (UTC) for one app, one value of a dimension and one model, tool or problem.

    Each observation is added to a bucket of every dimension. Buckets do not refer to sessions, so they outlive them.
    """

    class Measure(models.TextChoices):
        """Kind of the counted observations."""

        INVOCATION = "invocation"
        MODEL = "model"
        TOOL = "tool"
        PROBLEM = "problem"

    class Dimension(models.TextChoices):
        """Meaning of `value`. A sample is a random part of the invocations of a code version, for intervals."""

        ALL = "all"
        AGENT = "agent"
        USER = "user"
        CODE = "code"
        SAMPLE = "sample"

    key = models.CharField(max_length=32, primary_key=True, help_text="Hash of what it is about.")
    measure = models.CharField(max_length=10, choices=Measure)
    dimension = models.CharField(max_length=6, choices=Dimension)
    hourly = models.BooleanField(help_text="An hour; false: a day.")
    start = models.BigIntegerField(help_text="Start in seconds since the epoch.")
    app_name = models.TextField()
    value = models.TextField(help_text="The agent, user or code version; empty: unknown, or all.")
    sample = models.SmallIntegerField(help_text="Number of the sample; 0 for other dimensions.")
    name = models.TextField(help_text="Model, tool or code of the problem; empty for invocations.")
    label = models.TextField(help_text="Git revision of a code version, if known.")
    first_at = models.FloatField(help_text="Time of the first observation.")
    count = models.BigIntegerField()
    errors = models.BigIntegerField()
    latency = models.TextField(help_text="JSON: histogram of seconds. See `trends.histogram`.")
    first_token = models.TextField(help_text="JSON: histogram of the seconds until the first token.")
    prompt_tokens = models.BigIntegerField()
    cached_tokens = models.BigIntegerField(help_text="Among the prompt's.")
    output_tokens = models.BigIntegerField()
    thought_tokens = models.BigIntegerField(help_text="Among the output's.")

    class Meta:
        indexes = [
            models.Index(
                fields=["measure", "dimension", "hourly", "app_name", "start", "value", "count"],
                name="trend_groups",
            )
        ]
