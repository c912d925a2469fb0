"""All tables of sessions_app as migrations 0001 to 0020 leave them, for new stores: one step takes a fraction of their time.

A store that has some of those migrations goes on with the others of them, so they stay where they are.
"""

import django.db.models.deletion
from django.db import migrations, models

import sessions_app.store.full_text
import sessions_app.store.json_sql
from sessions_app.store.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("sessions_app", "0001_initial"),
        ("sessions_app", "0002_lineage_and_app_settings"),
        ("sessions_app", "0003_untracked_keys"),
        ("sessions_app", "0004_titles_tags_and_views"),
        ("sessions_app", "0005_mirrored_sessions"),
        ("sessions_app", "0006_search_indexes"),
        ("sessions_app", "0007_branches_are_traits"),
        ("sessions_app", "0008_rows_of_a_session_by_one_index"),
        ("sessions_app", "0009_events_that_touch_others"),
        ("sessions_app", "0010_events_are_found_by_their_ids"),
        ("sessions_app", "0011_what_runs_looked_like_from_inside"),
        ("sessions_app", "0012_runs_that_wait"),
        ("sessions_app", "0013_files_and_memory_by_time"),
        ("sessions_app", "0014_spans_by_event"),
        ("sessions_app", "0015_which_code_ran"),
        ("sessions_app", "0016_sets_of_sessions"),
        ("sessions_app", "0017_queued_runs_wait_for_the_next_server"),
        ("sessions_app", "0018_failed_model_calls_are_found_at_once"),
        ("sessions_app", "0019_failed_tool_results_count_as_errors"),
        ("sessions_app", "0020_processes_have_an_identity"),
    ]

    initial = True

    dependencies = []

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="AgentCard",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("app_name", models.TextField(unique=True)),
                    (
                        "status",
                        models.CharField(
                            choices=[
                                ("unknown", "not loaded yet"),
                                ("ready", "ready"),
                                ("failed", "failed to load"),
                            ],
                            default="unknown",
                            max_length=8,
                        ),
                    ),
                    (
                        "code_version",
                        models.CharField(
                            default="", help_text="Hash of the agent's files when loaded.", max_length=64
                        ),
                    ),
                    ("description", models.TextField(default="{}", help_text="JSON: the tree of agents.")),
                    (
                        "error",
                        models.TextField(
                            default="{}", help_text="JSON: type, message, file, line, traceback."
                        ),
                    ),
                    ("checked_at", models.FloatField(default=0.0)),
                ],
            ),
            migrations.CreateModel(
                name="ImportSource",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("location", models.TextField(help_text="Path or URL, without a password.", unique=True)),
                    (
                        "format",
                        models.TextField(
                            help_text="What it was found to be. See `importers.records.Format`."
                        ),
                    ),
                    (
                        "fingerprint",
                        models.TextField(
                            default="", help_text="What it was when it was last read to its end."
                        ),
                    ),
                    (
                        "read_at",
                        models.FloatField(
                            help_text="When it was last read to its end; null: never yet.", null=True
                        ),
                    ),
                ],
            ),
            migrations.CreateModel(
                name="RuntimeProcess",
                fields=[
                    ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                    ("app_name", models.TextField()),
                    ("host", models.TextField()),
                    ("pid", models.IntegerField()),
                    (
                        "pid_started_at",
                        models.FloatField(
                            default=0.0,
                            help_text="By the clock then; tells a reused pid from this process if nothing else does.",
                        ),
                    ),
                    ("code_version", models.CharField(default="", max_length=64)),
                    ("started_at", models.FloatField()),
                    ("heartbeat_at", models.FloatField()),
                    ("stopped_at", models.FloatField(null=True)),
                    (
                        "pid_identity",
                        models.TextField(
                            db_default="",
                            default="",
                            help_text="Tells a reused pid from this process: see `processes.identity`.",
                        ),
                    ),
                    (
                        "server",
                        models.ForeignKey(
                            help_text="What started it, if not itself.",
                            null=True,
                            on_delete=django.db.models.deletion.SET_NULL,
                            related_name="+",
                            to="sessions_app.runtimeprocess",
                        ),
                    ),
                ],
            ),
            migrations.CreateModel(
                name="AgentSession",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("realm", models.TextField(default="")),
                    ("app_name", models.TextField()),
                    ("user_id", models.TextField()),
                    ("session_id", models.TextField()),
                    ("created_at", models.FloatField()),
                    (
                        "updated_at",
                        models.FloatField(
                            help_text="ADK's last_update_time: the timestamp of the last event appended."
                        ),
                    ),
                    ("revision", models.BigIntegerField(default=0)),
                    (
                        "last_seq",
                        models.BigIntegerField(
                            default=0, help_text="Number of events; the seq of the newest one."
                        ),
                    ),
                    ("origin", models.CharField(default="live", max_length=16)),
                    (
                        "title",
                        models.TextField(
                            default="", help_text="Given by a person; pages fall back to first_text."
                        ),
                    ),
                    (
                        "first_text",
                        models.TextField(default="", help_text="Start of the first thing the user said."),
                    ),
                    ("last_text", models.TextField(default="")),
                    (
                        "error_count",
                        models.IntegerField(
                            default=0,
                            help_text="Events that are errors or bring the result of a tool that failed.",
                        ),
                    ),
                    ("total_tokens", models.BigIntegerField(default=0)),
                    (
                        "forked_seq",
                        models.BigIntegerField(
                            help_text="seq of the last event taken over from the session it was forked from; null: no fork.",
                            null=True,
                        ),
                    ),
                    (
                        "lineage",
                        models.TextField(
                            default="",
                            help_text="JSON: app, user, session and event it was forked at; outlives that session.",
                        ),
                    ),
                    (
                        "pinned_at",
                        models.FloatField(
                            help_text="When a person pinned it; null: it is not pinned.", null=True
                        ),
                    ),
                    (
                        "indexed_seq",
                        models.BigIntegerField(
                            db_default=-1,
                            default=-1,
                            help_text="What was written up to this seq is found by indexes, what came later by looking at it.",
                        ),
                    ),
                    (
                        "forked_from",
                        models.ForeignKey(
                            help_text="Null also once it is deleted.",
                            null=True,
                            on_delete=django.db.models.deletion.SET_NULL,
                            related_name="forks",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["realm", "-updated_at", "-id"], name="session_newest"),
                        models.Index(
                            fields=["realm", "app_name", "-updated_at", "-id"], name="session_newest_of_app"
                        ),
                        models.Index(
                            condition=models.Q(("pinned_at__isnull", False)),
                            fields=["realm", "-pinned_at", "-id"],
                            name="session_pinned",
                        ),
                        models.Index(
                            condition=models.Q(("last_seq__gt", models.F("indexed_seq"))),
                            fields=["id"],
                            name="session_unindexed",
                        ),
                        models.Index(
                            condition=models.Q(("error_count__gt", 0)),
                            fields=["realm", "-updated_at", "-id"],
                            name="session_with_errors",
                        ),
                        models.Index(fields=["session_id"], name="session_by_id"),
                    ],
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("realm", "app_name", "user_id", "session_id"), name="session_identity"
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="AppScope",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("realm", models.TextField(default="")),
                    ("app_name", models.TextField()),
                    ("version", models.BigIntegerField(default=0)),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("realm", "app_name"), name="app_scope_identity")
                    ],
                },
            ),
            migrations.CreateModel(
                name="Artifact",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("realm", models.TextField(default="")),
                    ("app_name", models.TextField()),
                    ("user_id", models.TextField()),
                    (
                        "session_id",
                        models.TextField(default="", help_text="ADK id of the session; empty: the user's."),
                    ),
                    ("filename", models.TextField(help_text="Without its `user:` prefix.")),
                    (
                        "filename_id",
                        models.CharField(
                            help_text="The filename, or its hash when too long to index.", max_length=255
                        ),
                    ),
                    ("version", models.BigIntegerField(help_text="0, 1, 2 … in the order of saving.")),
                    (
                        "holding",
                        models.CharField(
                            choices=[("text", "Text"), ("data", "inline data"), ("link", "a URI elsewhere")],
                            max_length=8,
                        ),
                    ),
                    ("mime_type", models.TextField(null=True)),
                    (
                        "size",
                        models.BigIntegerField(
                            default=0, help_text="Bytes of the payload; a text's in UTF-8."
                        ),
                    ),
                    (
                        "sha256",
                        models.CharField(
                            default="", help_text="Of the payload; empty: there is none.", max_length=64
                        ),
                    ),
                    (
                        "content",
                        models.BinaryField(
                            help_text="The payload, when it is small enough for a row.", null=True
                        ),
                    ),
                    ("part", models.TextField(help_text="JSON: ADK's Part without its payload.")),
                    (
                        "custom_metadata",
                        models.TextField(
                            default="{}", help_text="JSON as the agent gave it: redact what is shown."
                        ),
                    ),
                    ("created_at", models.FloatField()),
                    (
                        "from_session",
                        models.TextField(
                            default="", help_text="ADK id of the session it was saved in, if any."
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["sha256"], name="artifact_content"),
                        models.Index(fields=["realm", "-created_at", "-id"], name="artifact_newest"),
                        models.Index(
                            fields=["realm", "app_name", "-created_at", "-id"], name="artifact_newest_of_app"
                        ),
                    ],
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("realm", "app_name", "user_id", "session_id", "filename_id", "version"),
                            name="artifact_version",
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="ImportedSession",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "last_seq",
                        models.BigIntegerField(
                            default=0, help_text="seq of the last event that came from the source."
                        ),
                    ),
                    (
                        "is_settled",
                        models.BooleanField(
                            default=False,
                            help_text="All of it has come: events, state and times are as in the source.",
                        ),
                    ),
                    (
                        "session",
                        models.OneToOneField(
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="imported",
                            to="sessions_app.agentsession",
                        ),
                    ),
                    (
                        "source",
                        models.ForeignKey(
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="sessions",
                            to="sessions_app.importsource",
                        ),
                    ),
                ],
            ),
            migrations.CreateModel(
                name="MemoryEntry",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("realm", models.TextField(default="")),
                    ("app_name", models.TextField()),
                    ("user_id", models.TextField()),
                    (
                        "session_id",
                        models.TextField(
                            default="", help_text="ADK id of the session it comes from, if any."
                        ),
                    ),
                    (
                        "entry_id",
                        models.TextField(help_text="ADK's memory id: the event's id, or one of its own."),
                    ),
                    ("removed", models.BooleanField(default=False)),
                    ("author", models.TextField(default="")),
                    (
                        "timestamp",
                        models.FloatField(help_text="When it was said or, unknown, when it was added."),
                    ),
                    (
                        "told_time",
                        models.TextField(
                            default="", help_text="The time in the words it was added with, if any."
                        ),
                    ),
                    ("content", models.TextField(help_text="JSON: ADK's Content, credentials left out.")),
                    (
                        "private",
                        models.TextField(
                            help_text="JSON: the whole content, when `content` leaves something out.",
                            null=True,
                        ),
                    ),
                    (
                        "custom_metadata",
                        models.TextField(
                            default="{}", help_text="JSON as the agent gave it: redact what is shown."
                        ),
                    ),
                    (
                        "words",
                        sessions_app.store.full_text.WordsField(
                            help_text="What it is found by. Written by `fulltext` alone.", null=True
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        sessions_app.store.full_text.WordIndex(fields=["words"], name="memory_words"),
                        models.Index(
                            condition=models.Q(("removed", True)),
                            fields=["realm", "app_name", "user_id"],
                            name="memory_removed",
                        ),
                        models.Index(
                            condition=models.Q(("removed", False)),
                            fields=["realm", "-timestamp", "-id"],
                            name="memory_newest",
                        ),
                        models.Index(
                            condition=models.Q(("removed", False)),
                            fields=["realm", "app_name", "user_id", "-timestamp", "-id"],
                            name="memory_newest_of_user",
                        ),
                    ],
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("realm", "app_name", "user_id", "session_id", "entry_id"),
                            name="memory_identity",
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="UserScope",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("realm", models.TextField(default="")),
                    ("app_name", models.TextField()),
                    ("user_id", models.TextField()),
                    ("version", models.BigIntegerField(default=0)),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("realm", "app_name", "user_id"), name="user_scope_identity"
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="AppState",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("key", models.TextField()),
                    ("key_id", models.CharField(max_length=255)),
                    ("value", models.TextField(help_text="JSON, credentials left out.")),
                    (
                        "private",
                        models.TextField(
                            help_text="JSON: the whole value, when `value` leaves something out.", null=True
                        ),
                    ),
                    (
                        "note",
                        models.CharField(
                            default="", help_text="What had to be done to make the value JSON.", max_length=32
                        ),
                    ),
                    (
                        "position",
                        models.BigIntegerField(
                            help_text="seq (session) or version (user, app) of the last write."
                        ),
                    ),
                    (
                        "owner",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="state_rows",
                            to="sessions_app.appscope",
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("owner", "key_id"), name="app_state_key")
                    ],
                },
            ),
            migrations.CreateModel(
                name="Event",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("seq", models.BigIntegerField()),
                    ("event_id", models.TextField()),
                    ("invocation_id", models.TextField()),
                    ("author", models.TextField()),
                    (
                        "kind",
                        models.CharField(
                            choices=[
                                ("user", "user input"),
                                ("agent", "agent response"),
                                ("tool_call", "tool call"),
                                ("tool_result", "tool result"),
                                ("state", "state update"),
                                ("control", "control signal"),
                                ("error", "error"),
                            ],
                            max_length=16,
                        ),
                    ),
                    ("timestamp", models.FloatField()),
                    ("branch", models.TextField(default="")),
                    (
                        "app_version",
                        models.BigIntegerField(
                            default=0, help_text="Version of the app's state this event's commit saw."
                        ),
                    ),
                    (
                        "user_version",
                        models.BigIntegerField(
                            default=0, help_text="Version of the user's state this event's commit saw."
                        ),
                    ),
                    ("is_final", models.BooleanField(default=False)),
                    ("total_tokens", models.IntegerField(default=0)),
                    (
                        "summary",
                        models.TextField(
                            help_text="JSON: what a timeline row shows, bounded in size. See `wire.summarise`."
                        ),
                    ),
                    (
                        "data",
                        models.TextField(
                            help_text="JSON: the event as ADK's REST sends it; credentials and internals left out."
                        ),
                    ),
                    (
                        "private",
                        models.TextField(
                            help_text="JSON: the whole event, when `data` leaves something out.", null=True
                        ),
                    ),
                    (
                        "session",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="events",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["session", "invocation_id", "seq"], name="event_invocation"),
                        models.Index(fields=["session", "kind", "seq"], name="event_of_kind"),
                        models.Index(
                            condition=models.Q(
                                sessions_app.store.json_sql.IsRewindOrCompaction("kind", "summary")
                            ),
                            fields=["session", "seq"],
                            name="event_touching",
                        ),
                        models.Index(
                            condition=models.Q(sessions_app.store.json_sql.CountsAsError("kind", "summary")),
                            fields=["session", "seq"],
                            name="event_error",
                        ),
                    ],
                    "constraints": [
                        models.UniqueConstraint(fields=("session", "seq"), name="event_seq"),
                        models.UniqueConstraint(fields=("session", "event_id"), name="event_identity"),
                    ],
                },
            ),
            migrations.CreateModel(
                name="ImportedScope",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "scope",
                        models.CharField(
                            choices=[("session", "Session"), ("user", "User"), ("app", "App")], max_length=8
                        ),
                    ),
                    (
                        "owner_id",
                        models.BigIntegerField(help_text="Primary key of the UserScope or AppScope."),
                    ),
                    ("version", models.BigIntegerField()),
                    (
                        "source",
                        models.ForeignKey(
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="scopes",
                            to="sessions_app.importsource",
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("scope", "owner_id"), name="imported_scope")
                    ],
                },
            ),
            migrations.CreateModel(
                name="Run",
                fields=[
                    ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                    (
                        "status",
                        models.CharField(
                            choices=[
                                ("queued", "Queued"),
                                ("running", "Running"),
                                ("waiting", "waiting for input"),
                                ("done", "Done"),
                                ("failed", "Failed"),
                                ("cancelled", "Cancelled"),
                                ("crashed", "Crashed"),
                            ],
                            default="queued",
                            max_length=16,
                        ),
                    ),
                    (
                        "request",
                        models.TextField(
                            default="{}", help_text="JSON: new_message, streaming, state_delta, run_config, …"
                        ),
                    ),
                    (
                        "source",
                        models.CharField(
                            default="console", help_text="console, api or script.", max_length=16
                        ),
                    ),
                    ("invocation_id", models.TextField(default="")),
                    (
                        "code_version",
                        models.CharField(default="", help_text="Hash of the agent's files.", max_length=64),
                    ),
                    ("created_at", models.FloatField()),
                    ("started_at", models.FloatField(null=True)),
                    ("finished_at", models.FloatField(null=True)),
                    ("cancel_requested_at", models.FloatField(null=True)),
                    (
                        "first_seq",
                        models.BigIntegerField(
                            help_text="seq of the session when the run started.", null=True
                        ),
                    ),
                    (
                        "last_seq",
                        models.BigIntegerField(help_text="seq of the session when the run ended.", null=True),
                    ),
                    ("error_type", models.TextField(default="")),
                    ("error", models.TextField(default="")),
                    ("traceback", models.TextField(default="")),
                    (
                        "session",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="runs",
                            to="sessions_app.agentsession",
                        ),
                    ),
                    (
                        "runtime",
                        models.ForeignKey(
                            null=True,
                            on_delete=django.db.models.deletion.SET_NULL,
                            related_name="runs",
                            to="sessions_app.runtimeprocess",
                        ),
                    ),
                    (
                        "git_revision",
                        models.TextField(
                            db_default="",
                            default="",
                            help_text="Commit of the agent's folder; + when changed.",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["session", "created_at"], name="run_of_session"),
                        models.Index(fields=["status", "created_at"], name="run_by_status"),
                        models.Index(
                            condition=models.Q(("status", "waiting")), fields=["session"], name="run_waiting"
                        ),
                        models.Index(fields=["-created_at", "-id"], name="run_newest"),
                        models.Index(
                            condition=models.Q(("error_type", ""), _negated=True),
                            fields=["error_type", "-created_at", "-id"],
                            name="run_by_error",
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="SessionState",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("key", models.TextField()),
                    ("key_id", models.CharField(max_length=255)),
                    ("value", models.TextField(help_text="JSON, credentials left out.")),
                    (
                        "private",
                        models.TextField(
                            help_text="JSON: the whole value, when `value` leaves something out.", null=True
                        ),
                    ),
                    (
                        "note",
                        models.CharField(
                            default="", help_text="What had to be done to make the value JSON.", max_length=32
                        ),
                    ),
                    (
                        "position",
                        models.BigIntegerField(
                            help_text="seq (session) or version (user, app) of the last write."
                        ),
                    ),
                    (
                        "owner",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="state_rows",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("owner", "key_id"), name="session_state_key")
                    ],
                    "indexes": [models.Index(fields=["key_id", "owner"], name="sessions_with_key")],
                },
            ),
            migrations.CreateModel(
                name="StateChange",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "scope",
                        models.CharField(
                            choices=[("session", "Session"), ("user", "User"), ("app", "App")], max_length=8
                        ),
                    ),
                    (
                        "owner_id",
                        models.BigIntegerField(
                            help_text="Primary key of the AgentSession, UserScope or AppScope."
                        ),
                    ),
                    ("key", models.TextField()),
                    ("key_id", models.CharField(max_length=255)),
                    ("position", models.BigIntegerField()),
                    ("value", models.TextField(help_text="JSON; null in a tombstone.", null=True)),
                    ("private", models.TextField(null=True)),
                    ("note", models.CharField(default="", max_length=32)),
                    (
                        "removed",
                        models.BooleanField(default=False, help_text="A tombstone: the key was removed."),
                    ),
                    (
                        "cause",
                        models.CharField(
                            choices=[
                                ("seed", "initial state"),
                                ("append", "event"),
                                ("edit", "edited by hand"),
                                ("rewind", "rewind"),
                                ("import", "import"),
                                ("fork", "fork"),
                            ],
                            max_length=8,
                        ),
                    ),
                    ("timestamp", models.FloatField()),
                    ("from_user", models.TextField(help_text="User of the writing session.")),
                    ("from_session", models.TextField(help_text="ADK id of the writing session.")),
                    ("seq", models.BigIntegerField(help_text="seq of the writing event; 0 for a seed.")),
                    ("event_id", models.TextField(default="")),
                    ("invocation_id", models.TextField(default="")),
                    ("author", models.TextField(default="")),
                    (
                        "writer",
                        models.CharField(
                            default="",
                            help_text="tool, callback, output_key, delta, …; empty: unknown.",
                            max_length=16,
                        ),
                    ),
                    ("writer_name", models.TextField(default="")),
                    ("call_id", models.TextField(default="")),
                    (
                        "inferred",
                        models.BooleanField(
                            default=True, help_text="The writer was inferred, no recorder saw it."
                        ),
                    ),
                    (
                        "session",
                        models.ForeignKey(
                            db_index=False,
                            null=True,
                            on_delete=django.db.models.deletion.SET_NULL,
                            related_name="changes",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(
                            fields=["scope", "owner_id", "key_id", "position"], name="change_of_key"
                        ),
                        models.Index(fields=["session", "seq"], name="change_of_event"),
                    ],
                },
            ),
            migrations.CreateModel(
                name="TempWrite",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("seq", models.BigIntegerField()),
                    ("invocation_id", models.TextField()),
                    ("key", models.TextField()),
                    ("value", models.TextField(help_text="JSON, credentials left out.")),
                    ("note", models.CharField(default="", max_length=32)),
                    ("author", models.TextField(default="")),
                    ("writer", models.CharField(default="", max_length=16)),
                    ("writer_name", models.TextField(default="")),
                    ("call_id", models.TextField(default="")),
                    (
                        "session",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="temp_writes",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["session", "invocation_id", "seq"], name="temp_of_invocation")
                    ],
                },
            ),
            migrations.CreateModel(
                name="UserState",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("key", models.TextField()),
                    ("key_id", models.CharField(max_length=255)),
                    ("value", models.TextField(help_text="JSON, credentials left out.")),
                    (
                        "private",
                        models.TextField(
                            help_text="JSON: the whole value, when `value` leaves something out.", null=True
                        ),
                    ),
                    (
                        "note",
                        models.CharField(
                            default="", help_text="What had to be done to make the value JSON.", max_length=32
                        ),
                    ),
                    (
                        "position",
                        models.BigIntegerField(
                            help_text="seq (session) or version (user, app) of the last write."
                        ),
                    ),
                    (
                        "owner",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="state_rows",
                            to="sessions_app.userscope",
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("owner", "key_id"), name="user_state_key")
                    ],
                },
            ),
            migrations.CreateModel(
                name="AppSettings",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("app_name", models.TextField(unique=True)),
                    (
                        "session_ttl_s",
                        models.FloatField(
                            help_text="Seconds without an event after which a session has expired; null: it never does.",
                            null=True,
                        ),
                    ),
                ],
            ),
            migrations.CreateModel(
                name="UntrackedKey",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "seq",
                        models.BigIntegerField(
                            help_text="seq of the session's last event when the invocation ended."
                        ),
                    ),
                    ("invocation_id", models.TextField()),
                    (
                        "scope",
                        models.CharField(
                            choices=[("session", "Session"), ("user", "User"), ("app", "App")], max_length=8
                        ),
                    ),
                    ("key", models.TextField()),
                    (
                        "value",
                        models.TextField(
                            help_text="JSON, credentials left out; null: the key was taken out.", null=True
                        ),
                    ),
                    (
                        "stored",
                        models.TextField(
                            help_text="JSON of what events had stored; null: no such key.", null=True
                        ),
                    ),
                    ("note", models.CharField(default="", max_length=32)),
                    ("noticed_at", models.FloatField()),
                    (
                        "session",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="untracked_keys",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["session", "invocation_id"], name="untracked_of_invocation")
                    ],
                },
            ),
            migrations.CreateModel(
                name="DeletedSession",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "batch",
                        models.CharField(
                            help_text="What was deleted together comes back together.", max_length=32
                        ),
                    ),
                    ("realm", models.TextField(default="", help_text="Where it was and comes back to.")),
                    ("deleted_at", models.FloatField()),
                    (
                        "session",
                        models.OneToOneField(
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="deletion",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["batch"], name="deleted_together"),
                        models.Index(fields=["deleted_at"], name="deleted_when"),
                    ],
                },
            ),
            migrations.CreateModel(
                name="SavedView",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("name", models.CharField(max_length=64, unique=True)),
                    (
                        "query",
                        models.TextField(help_text="The query string of its page, without the place on it."),
                    ),
                    ("created_at", models.FloatField()),
                    ("updated_at", models.FloatField()),
                ],
            ),
            migrations.CreateModel(
                name="SessionTag",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("name", models.CharField(max_length=64)),
                    (
                        "session",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="tags",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [models.Index(fields=["name", "session"], name="session_by_tag")],
                    "constraints": [
                        models.UniqueConstraint(fields=("session", "name"), name="session_tag_identity")
                    ],
                },
            ),
            migrations.CreateModel(
                name="MirroredSession",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    ("place", models.TextField(help_text="ADK's URI of the service, without a password.")),
                    (
                        "behind",
                        models.TextField(
                            default="", help_text="How the copy differs from the truth; empty: it does not."
                        ),
                    ),
                    (
                        "session",
                        models.OneToOneField(
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="mirrored",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
            ),
            migrations.CreateModel(
                name="EventWords",
                fields=[
                    (
                        "id",
                        models.BigIntegerField(
                            help_text="Of session and seq. See `event_index.place`.",
                            primary_key=True,
                            serialize=False,
                        ),
                    ),
                    ("words", sessions_app.store.full_text.WordsField(null=True)),
                ],
                options={
                    "indexes": [sessions_app.store.full_text.WordIndex(fields=["words"], name="event_words")],
                },
            ),
            migrations.CreateModel(
                name="SessionTrait",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "name",
                        models.CharField(
                            choices=[
                                ("kind", "Kind"),
                                ("author", "Author"),
                                ("tool", "Tool"),
                                ("error", "Error"),
                                ("branch", "Branch"),
                            ],
                            max_length=8,
                        ),
                    ),
                    (
                        "value",
                        models.CharField(help_text="The start of it, when it is longer.", max_length=200),
                    ),
                    ("seq", models.BigIntegerField(help_text="seq of the newest event that has it.")),
                    (
                        "session",
                        models.ForeignKey(
                            db_index=False,
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="traits",
                            to="sessions_app.agentsession",
                        ),
                    ),
                ],
                options={
                    "indexes": [models.Index(fields=["name", "value", "session"], name="sessions_by_trait")],
                    "constraints": [
                        models.UniqueConstraint(fields=("session", "name", "value"), name="trait_of_session")
                    ],
                },
            ),
            migrations.CreateModel(
                name="StateValue",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "scope",
                        models.CharField(
                            choices=[("session", "Session"), ("user", "User"), ("app", "App")], max_length=8
                        ),
                    ),
                    ("key_id", models.CharField(max_length=255)),
                    (
                        "mark",
                        sessions_app.store.json_sql.MarkField(
                            help_text="The value's type and start, in the order of values. See `jsonsql.mark`."
                        ),
                    ),
                    (
                        "owner_id",
                        models.BigIntegerField(
                            help_text="Primary key of the AgentSession, UserScope or AppScope."
                        ),
                    ),
                ],
                options={
                    "indexes": [models.Index(fields=["scope", "owner_id"], name="values_of_owner")],
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("scope", "key_id", "mark", "owner_id"), name="value_of_owner"
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="ModelCall",
                fields=[
                    (
                        "id",
                        models.BigAutoField(
                            auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                        ),
                    ),
                    (
                        "ref",
                        models.CharField(help_text="The recorder's own name of the call.", max_length=32),
                    ),
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
                        models.FloatField(
                            help_text="Null: it goes on, or its process was killed.", null=True
                        ),
                    ),
                    ("request", models.TextField(help_text="JSON: what was asked; credentials left out.")),
                    (
                        "response",
                        models.TextField(help_text="JSON: what came back; null: nothing.", null=True),
                    ),
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
                        models.Index(
                            fields=["session", "invocation_id", "number"], name="call_of_invocation"
                        ),
                        models.Index(fields=["session", "event_id"], name="call_of_event"),
                        models.Index(fields=["session", "agent", "id"], name="call_of_agent"),
                        models.Index(
                            condition=models.Q(("error_type__gt", "")),
                            fields=["session", "invocation_id"],
                            name="call_failed",
                        ),
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
                        models.TextField(
                            default="{}", help_text="JSON, without the request and the response."
                        ),
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
                        models.Index(fields=["event_id"], name="span_by_event"),
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
                        models.CharField(
                            default="", help_text="OpenTelemetry's, in hex, if any.", max_length=32
                        ),
                    ),
                    ("root_agent", models.TextField(default="")),
                    ("started_at", models.FloatField()),
                    (
                        "finished_at",
                        models.FloatField(
                            help_text="Null: it goes on, or its process was killed.", null=True
                        ),
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
                        models.UniqueConstraint(
                            fields=("session", "invocation_id"), name="trace_of_invocation"
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="SessionWords",
                fields=[
                    (
                        "id",
                        models.BigIntegerField(
                            help_text="Of session and seq of the first of the events.",
                            primary_key=True,
                            serialize=False,
                        ),
                    ),
                    (
                        "words",
                        sessions_app.store.full_text.WordsField(
                            help_text="The words without their places.", null=True
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        sessions_app.store.full_text.WordSetIndex(fields=["words"], name="session_words")
                    ],
                },
            ),
        ),
    ]
