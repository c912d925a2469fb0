"""State: scopes, keys and the ledger of their changes; stores from which sessions and state were imported."""

from __future__ import annotations

from django.db import models

from sessions_app.store.models.sessions import AgentSession


class Scope(models.TextChoices):
    """The three stored scopes of state. `temp:` keys are not state; see `TempWrite`."""

    SESSION = "session"
    USER = "user"
    APP = "app"


class ChangeCause(models.TextChoices):
    """The reason for a change of a key."""

    SEED = "seed", "initial state"
    APPEND = "append", "event"
    EDIT = "edit", "edited by hand"
    REWIND = "rewind", "rewind"
    IMPORT = "import", "import"
    FORK = "fork", "fork"


class AppScope(models.Model):
    """Owner of an app's state. `version` counts the commits that wrote it, assigned under this row's lock."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["realm", "app_name"], name="app_scope_identity")]


class UserScope(models.Model):
    """Owner of a user's state in an app. `version` is as in `AppScope`."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["realm", "app_name", "user_id"], name="user_scope_identity")
        ]


class StateRow(models.Model):
    """The current value of one key of one owner. `key_id` is the key, or its hash if it is too long to index."""

    key = models.TextField()
    key_id = models.CharField(max_length=255)
    value = models.TextField(help_text="JSON, credentials left out.")
    private = models.TextField(null=True, help_text="JSON: the whole value if `value` omits parts.")
    note = models.CharField(max_length=32, default="", help_text="How the value was converted to JSON.")
    position = models.BigIntegerField(help_text="seq (session) or version (user, app) of the write.")

    class Meta:
        abstract = True


class SessionState(StateRow):
    """A key of a session."""

    owner = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="state_rows", db_index=False
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key_id"], name="session_state_key")]
        indexes = [models.Index(fields=["key_id", "owner"], name="sessions_with_key")]


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


STATE_ROWS: dict[Scope, type[SessionState] | type[UserState] | type[AppState]] = {
    Scope.SESSION: SessionState,
    Scope.USER: UserState,
    Scope.APP: AppState,
}
"""The state table of each scope."""


class StateChange(models.Model):
    """The ledger: one row per key written, never updated. State at an event takes one index seek per key.

    `position` orders an owner's rows: the event's seq for a session, the scope's version for a user or an app.
    Autoincrement ids cannot be used, because they commit out of order on PostgreSQL. Rows of users and apps outlive
    the session that wrote them, so the writing session and event are plain columns.
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
    cause = models.CharField(max_length=8, choices=ChangeCause)
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
    inferred = models.BooleanField(default=True, help_text="The writer is inferred from the event.")

    class Meta:
        indexes = [
            models.Index(fields=["scope", "owner_id", "key_id", "position"], name="change_of_key"),
            models.Index(fields=["session", "seq"], name="change_of_event"),
        ]


class TempWrite(models.Model):
    """A ghost key: a `temp:` value that the recorder observed. Shown during its invocation, never part of the state."""

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
    """A key that an agent changed in its copy of the state without an event. It is lost after the invocation."""

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="untracked_keys", db_index=False
    )
    seq = models.BigIntegerField(help_text="seq of the last event of the invocation.")
    invocation_id = models.TextField()
    scope = models.CharField(max_length=8, choices=Scope)
    key = models.TextField()
    value = models.TextField(null=True, help_text="JSON, redacted; null: the key was removed.")
    stored = models.TextField(null=True, help_text="JSON stored by events; null: no such key.")
    note = models.CharField(max_length=32, default="")
    noticed_at = models.FloatField()

    class Meta:
        indexes = [models.Index(fields=["session", "invocation_id"], name="untracked_of_invocation")]


class ImportSource(models.Model):
    """Another program's store from which sessions were imported."""

    location = models.TextField(unique=True, help_text="Path or URL, without a password.")
    format = models.TextField(help_text="Name of the detected format.")
    fingerprint = models.TextField(default="", help_text="Fingerprint when it was last read completely.")
    read_at = models.FloatField(null=True, help_text="When it was last read completely; null: never.")


class ImportedSession(models.Model):
    """The source of an imported session. Events after `last_seq` were added here."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="imported")
    source = models.ForeignKey(ImportSource, on_delete=models.CASCADE, related_name="sessions")
    last_seq = models.BigIntegerField(default=0, help_text="seq of the last imported event.")
    is_settled = models.BooleanField(default=False, help_text="All its events and state are imported.")


class MirroredSession(models.Model):
    """A session that another ADK service owns. The rows here are a copy for display."""

    session = models.OneToOneField(AgentSession, on_delete=models.CASCADE, related_name="mirrored")
    place = models.TextField(help_text="ADK's URI of the service, without a password.")
    behind = models.TextField(default="", help_text="How the copy differs from the original; empty: not.")


class ImportedScope(models.Model):
    """A user's or an app's state that only one import source has written, up to `version`."""

    source = models.ForeignKey(ImportSource, on_delete=models.CASCADE, related_name="scopes")
    scope = models.CharField(max_length=8, choices=Scope)
    owner_id = models.BigIntegerField(help_text="Primary key of the UserScope or AppScope.")
    version = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["scope", "owner_id"], name="imported_scope")]
