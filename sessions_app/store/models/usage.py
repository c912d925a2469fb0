"""Tokens of sessions by model and day."""

from __future__ import annotations

from django.db import models

from sessions_app.store.models.sessions import AgentSession


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
