"""Tokens of sessions by model and day."""

from __future__ import annotations

from django.db import models

from sessions_app.models.sessions import AgentSession


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
