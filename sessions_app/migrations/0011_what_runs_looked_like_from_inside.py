"""Model calls, spans and stages of runs: four tables more, nothing that is there changes."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """New tables."""

    dependencies = [
        ("sessions_app", "0010_events_are_found_by_their_ids"),
    ]

    operations = [
        migrations.CreateModel(
            name="ModelCall",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("ref", models.CharField(help_text="The recorder's own name of the call.", max_length=32)),
                ("invocation_id", models.TextField()),
                ("number", models.IntegerField(help_text="1, 2, 3 … in its invocation.")),
                ("agent", models.TextField()),
                ("branch", models.TextField(default="")),
                ("model", models.TextField(default="")),
                (
                    "event_id",
                    models.TextField(default="", help_text="ADK id of the last event that it became."),
                ),
                ("event_ids", models.TextField(default="[]", help_text="JSON: of all of them.")),
                ("started_at", models.FloatField()),
                (
                    "first_at",
                    models.FloatField(help_text="When the first chunk or the response came.", null=True),
                ),
                (
                    "finished_at",
                    models.FloatField(help_text="Null: it goes on, or its process was killed.", null=True),
                ),
                ("request", models.TextField(help_text="JSON: what was asked; credentials left out.")),
                ("response", models.TextField(help_text="JSON: what came back; null: nothing.", null=True)),
                (
                    "chunks",
                    models.IntegerField(default=0, help_text="Partial responses before the whole one."),
                ),
                ("prompt_tokens", models.IntegerField(default=0)),
                ("output_tokens", models.IntegerField(default=0)),
                ("thought_tokens", models.IntegerField(default=0)),
                ("cached_tokens", models.IntegerField(default=0)),
                ("total_tokens", models.IntegerField(default=0)),
                (
                    "by_callback",
                    models.BooleanField(
                        default=False, help_text="A callback or a plug-in answered in the model's place."
                    ),
                ),
                ("error_type", models.TextField(default="")),
                ("error", models.TextField(default="")),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="model_calls",
                        to="sessions_app.agentsession",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["session", "invocation_id", "number"], name="call_of_invocation"),
                    models.Index(fields=["session", "event_id"], name="call_of_event"),
                    models.Index(fields=["session", "agent", "id"], name="call_of_agent"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("session", "ref"), name="model_call_identity")
                ],
            },
        ),
        migrations.CreateModel(
            name="ModelPiece",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sha", models.CharField(help_text="Of `body`. See `traces.pieces`.", max_length=32)),
                (
                    "body",
                    models.TextField(
                        help_text="JSON, credentials left out; of a very long text the beginning."
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="model_pieces",
                        to="sessions_app.agentsession",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("session", "sha"), name="model_piece_identity")
                ],
            },
        ),
        migrations.CreateModel(
            name="Span",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("invocation_id", models.TextField()),
                ("trace_id", models.CharField(help_text="Hex.", max_length=32)),
                ("span_id", models.CharField(help_text="Hex.", max_length=16)),
                (
                    "parent_id",
                    models.CharField(default="", help_text="Hex; empty: it has none.", max_length=16),
                ),
                ("name", models.TextField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("invocation", "Invocation"),
                            ("agent", "Agent"),
                            ("model", "Model"),
                            ("tool", "Tool"),
                            ("other", "Other"),
                        ],
                        max_length=12,
                    ),
                ),
                ("started_ns", models.BigIntegerField(help_text="Nanoseconds since the epoch.")),
                ("ended_ns", models.BigIntegerField()),
                ("failed", models.BooleanField(default=False)),
                ("message", models.TextField(default="", help_text="How it failed.")),
                (
                    "event_id",
                    models.TextField(default="", help_text="ADK id of the event it made, if it says so."),
                ),
                (
                    "attributes",
                    models.TextField(default="{}", help_text="JSON, without the request and the response."),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="spans",
                        to="sessions_app.agentsession",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["session", "invocation_id", "started_ns"], name="span_of_invocation"
                    ),
                    models.Index(
                        condition=models.Q(("event_id__gt", "")), fields=["event_id"], name="span_of_event"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Trace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("invocation_id", models.TextField()),
                (
                    "trace_id",
                    models.CharField(default="", help_text="OpenTelemetry's, in hex, if any.", max_length=32),
                ),
                ("root_agent", models.TextField(default="")),
                ("started_at", models.FloatField()),
                (
                    "finished_at",
                    models.FloatField(help_text="Null: it goes on, or its process was killed.", null=True),
                ),
                (
                    "stages",
                    models.TextField(
                        default="[]", help_text="JSON: [name, time, agent or tool] of each stage."
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="traces",
                        to="sessions_app.agentsession",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["-started_at", "-id"], name="trace_newest")],
                "constraints": [
                    models.UniqueConstraint(fields=("session", "invocation_id"), name="trace_of_invocation")
                ],
            },
        ),
    ]
