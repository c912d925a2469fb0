"""Django app of workers, installed only with `DEVUI_ENGINE`."""

from __future__ import annotations

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    """App with the table of workers."""

    name = "devui.workers"
    label = "devui_workers"
