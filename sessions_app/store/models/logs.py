"""Log records and printed lines of invocations."""

import logging

from django.db import models

from sessions_app.store.models.sessions import AgentSession

LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
"""Lowest number of each level."""


class LogRecord(models.Model):
    """A log record or printed line of an invocation. The order is that of the primary keys."""

    class Source(models.TextChoices):
        """Source of a record: Python's `logging`, or a standard stream."""

        LOG = "log"
        STDOUT = "stdout"
        STDERR = "stderr"

    session = models.ForeignKey(
        AgentSession, on_delete=models.CASCADE, related_name="log_records", db_index=False
    )
    invocation_id = models.TextField()
    ref = models.CharField(max_length=32, help_text="The recorder's id of its part of the invocation.")
    number = models.IntegerField(help_text="1, 2, 3 … within `ref`.")
    at = models.FloatField()
    level = models.IntegerField(help_text="Python's number: 20 is INFO, 30 WARNING, 40 ERROR.")
    source = models.CharField(max_length=8, choices=Source)
    logger = models.TextField(default="", help_text="Name of the logger; empty: printed.")
    agent = models.TextField(default="", help_text="Agent that was running, if known.")
    tool = models.TextField(default="", help_text="Tool that was running, if known.")
    call_id = models.TextField(default="", help_text="Id of the tool's function call, if known.")
    after_event_id = models.TextField(
        default="", help_text="ADK id of the invocation's last event before it; empty: none."
    )
    message = models.TextField(help_text="Without credentials; a long one is truncated.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "ref", "number"], name="log_record_identity")
        ]
        indexes = [
            models.Index(fields=["session", "invocation_id", "id"], name="log_of_invocation"),
            models.Index(fields=["session", "id"], name="log_of_session"),
        ]
