"""Agent cards and settings of apps."""

from django.db import models


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
