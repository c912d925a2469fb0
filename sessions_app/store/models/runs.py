"""Runs and the processes that execute them."""

from django.db import models

from sessions_app.store.models.sessions import AgentSession


class RuntimeProcess(models.Model):
    """A runtime of one app, or a server that starts runtimes (with an empty `app_name`).

    A started run crashes with its process. A queued run waits for the next server.
    """

    id = models.CharField(max_length=32, primary_key=True)
    app_name = models.TextField()
    host = models.TextField()
    pid = models.IntegerField()
    pid_started_at = models.FloatField(
        default=0.0, help_text="Not used any more: `pid_identity` tells processes apart."
    )
    pid_identity = models.TextField(default="", db_default="", help_text="See `processes.identity`.")
    code_version = models.CharField(max_length=64, default="")
    server = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The server that started it, if any.",
    )
    started_at = models.FloatField()
    heartbeat_at = models.FloatField()
    stopped_at = models.FloatField(null=True)


class Run(models.Model):
    """One message sent to an agent, and its outcome. A run belongs to a runtime, not to a request."""

    class Status(models.TextChoices):
        """Status of a run. Queued and running runs are active. A waiting run is continued by another run."""

        QUEUED = "queued"
        RUNNING = "running"
        WAITING = "waiting", "waiting for input"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"
        CRASHED = "crashed"

    ACTIVE = (Status.QUEUED, Status.RUNNING)

    id = models.CharField(max_length=32, primary_key=True)
    session = models.ForeignKey(AgentSession, on_delete=models.CASCADE, related_name="runs", db_index=False)
    runtime = models.ForeignKey(RuntimeProcess, null=True, on_delete=models.SET_NULL, related_name="runs")
    status = models.CharField(max_length=16, choices=Status, default=Status.QUEUED)
    request = models.TextField(
        default="{}", help_text="JSON: new_message, streaming, state_delta, run_config, …"
    )
    source = models.CharField(max_length=16, default="console", help_text="console, api or script.")
    person = models.TextField(
        default="", db_default="", help_text="Name of the person who started it; empty: unknown."
    )
    invocation_id = models.TextField(default="")
    code_version = models.CharField(max_length=64, default="", help_text="Hash of the agent's files.")
    git_revision = models.TextField(
        default="", db_default="", help_text="Commit of the agent's folder; + when changed."
    )
    created_at = models.FloatField()
    started_at = models.FloatField(null=True)
    finished_at = models.FloatField(null=True)
    cancel_requested_at = models.FloatField(null=True)
    first_seq = models.BigIntegerField(null=True, help_text="seq of the session when the run started.")
    last_seq = models.BigIntegerField(null=True, help_text="seq of the session when the run ended.")
    error_type = models.TextField(default="")
    error = models.TextField(default="")
    traceback = models.TextField(default="")

    class Meta:
        indexes = [
            models.Index(fields=["session", "created_at"], name="run_of_session"),
            models.Index(fields=["-created_at", "-id"], name="run_newest"),
            models.Index(fields=["status", "created_at"], name="run_by_status"),
            models.Index(
                fields=["error_type", "-created_at", "-id"],
                name="run_by_error",
                condition=~models.Q(error_type=""),
            ),
            models.Index(fields=["session"], condition=models.Q(status="waiting"), name="run_waiting"),
        ]
