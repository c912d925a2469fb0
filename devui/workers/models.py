"""The workers: what each one runs and where it can be reached."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from sessions_app.models import RuntimeProcess


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
