"""What is known of apps and decided for them."""

from __future__ import annotations

from django.db import models


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
