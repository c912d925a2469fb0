"""Django app that combines sessions and evals."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings

DEFAULTS = {
    "DEVUI_AGENTS_DIR": "",
    "DEVUI_ALLOW_ORIGINS": [],
    "DEVUI_MCP_WRITE": False,
    "DEVUI_URL_PREFIX": "",
}
"""Settings that a project which mounts DevUI may omit."""


class DevUIConfig(AppConfig):
    """App with the commands, the system checks and the wiring of the other apps."""

    name = "devui"
    verbose_name = "DevUI"

    def ready(self) -> None:
        """Set missing settings, and register the system checks."""
        from devui.config import checks  # noqa: F401 - registers itself

        for name, value in DEFAULTS.items():
            if not hasattr(settings, name):
                setattr(settings, name, value)
