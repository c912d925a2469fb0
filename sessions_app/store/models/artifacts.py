"""Artifacts and memory entries."""

from django.db import models

from sessions_app.store.database.full_text import WordIndex, WordsField


class Artifact(models.Model):
    """One version of a file. It belongs to a session, or with an empty `session_id` to a user in all sessions.

    There is no foreign key to the session, because ADK saves artifacts of sessions that another service owns.
    """

    class Holding(models.TextChoices):
        """Field of ADK's Part that holds the payload."""

        TEXT = "text"
        DATA = "data", "inline data"
        LINK = "link", "a URI elsewhere"

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField(default="", help_text="ADK id of the session; empty: the user's.")
    filename = models.TextField(help_text="Without its `user:` prefix.")
    filename_id = models.CharField(max_length=255, help_text="The filename, or its hash.")
    version = models.BigIntegerField(help_text="0, 1, 2 … in the order of saving.")
    holding = models.CharField(max_length=8, choices=Holding)
    mime_type = models.TextField(null=True)
    size = models.BigIntegerField(default=0, help_text="Bytes of the payload, of a text in UTF-8.")
    sha256 = models.CharField(max_length=64, default="", help_text="Hash of the payload; empty: no payload.")
    content = models.BinaryField(null=True, help_text="The payload if it is small.")
    part = models.TextField(help_text="JSON: ADK's Part without its payload.")
    custom_metadata = models.TextField(default="{}", help_text="JSON of the agent; not redacted.")
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
            models.Index(fields=["realm", "size", "id"], name="artifact_by_size"),
        ]


class MemoryEntry(models.Model):
    """One memory of a user. A removed entry stays as an empty row, so that adding its session does not restore it."""

    realm = models.TextField(default="")
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField(default="", help_text="ADK id of the session it comes from, if any.")
    entry_id = models.TextField(help_text="Memory id of ADK: the event's id, or another.")
    removed = models.BooleanField(default=False)
    author = models.TextField(default="")
    timestamp = models.FloatField(help_text="Time of the event; unknown: of the addition.")
    told_time = models.TextField(default="", help_text="The time as text that ADK was given, if any.")
    content = models.TextField(help_text="JSON: ADK's Content, credentials left out.")
    private = models.TextField(null=True, help_text="JSON: the whole content if `content` omits parts.")
    custom_metadata = models.TextField(default="{}", help_text="JSON of the agent; not redacted.")
    words = WordsField(null=True, help_text="Words for search. Written by `full_text` only.")

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
