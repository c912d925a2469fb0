"""The workers: what each one runs and where it can be reached."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from sessions_app.store.models import RuntimeProcess


class Worker(models.Model):
    """A worker process. Its `RuntimeProcess` has host, pid and heartbeat.

    No outside program writes rows, so `apps` is JSON in a text column as elsewhere in the store.
    """

    process = models.OneToOneField(
        RuntimeProcess, on_delete=models.CASCADE, primary_key=True, related_name="worker"
    )
    address = models.TextField(help_text="host:port of its listener.")
    apps = models.TextField(default="{}", help_text="JSON: app → hash of its code.")
    adk_version = models.TextField(default="")
    kinds = models.TextField(default="", help_text="Kinds of queues, comma-separated.")
    concurrency = models.IntegerField(default=1)
    engine_id = models.BigIntegerField(null=True, help_text="Its id in Procrastinate's table of workers.")
    is_draining = models.BooleanField(default=False, help_text="It finishes its runs and takes no more.")
    removed_at = models.FloatField(
        null=True, help_text="When a person removed it, or it ended in order: no page lists it any more."
    )

    objects: ClassVar[models.Manager[Worker]] = models.Manager()

    class Meta:
        app_label = "devui_workers"

    def __str__(self) -> str:
        """Return where it can be reached."""
        return self.address


class AgentImport(models.Model):
    """The latest import of what `adk web` stored in an agent's folder. A job lets a worker carry it out."""

    location = models.TextField(primary_key=True, help_text="Path of the agent's folder.")
    app_name = models.TextField()
    is_running = models.BooleanField(default=True)
    done = models.BigIntegerField(default=0, help_text="Events read so far.")
    report = models.TextField(default="", help_text="JSON: ImportReport; empty: it has not succeeded.")
    problem = models.TextField(default="", help_text="Why it failed.")

    objects: ClassVar[models.Manager[AgentImport]] = models.Manager()

    class Meta:
        app_label = "devui_workers"

    def __str__(self) -> str:
        """Return what is imported."""
        return self.location
