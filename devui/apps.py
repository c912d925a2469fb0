"""Django app of the composing room."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings

DEFAULTS = {"DEVUI_AGENTS_DIR": "", "DEVUI_ALLOW_ORIGINS": [], "DEVUI_URL_PREFIX": ""}
"""Settings that a foreign project need not have."""


class DevUIConfig(AppConfig):
    """Commands, checks and the wiring of the rooms."""

    name = "devui"
    verbose_name = "DevUI"

    def ready(self) -> None:
        """Fill in the settings that are missing, and register the system checks."""
        from devui.config import checks  # noqa: F401 - registers itself

        for name, value in DEFAULTS.items():
            if not hasattr(settings, name):
                setattr(settings, name, value)
