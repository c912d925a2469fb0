"""Roll-ups of calls, invocations and problems by time. They are written after the calls: see `trends.rollup`."""

from __future__ import annotations

from django.db import models


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
