"""DevUI's services and plug-in for ADK's `Runner`. Using a name of this package imports `google.adk`.

import devui

devui.setup("sqlite:///sessions.sqlite3")

from sessions_app.adk import DjangoSessionService, Recorder
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sessions_app.store.database.gc_tuning import pause_collector

if TYPE_CHECKING:
    from sessions_app.adk.artifacts import DjangoArtifactService
    from sessions_app.adk.memory import DjangoMemoryService
    from sessions_app.adk.mirror import MirroredSessionService
    from sessions_app.adk.recorder import Recorder
    from sessions_app.adk.service import DjangoSessionService

__all__ = [
    "DjangoArtifactService",
    "DjangoMemoryService",
    "DjangoSessionService",
    "MirroredSessionService",
    "Recorder",
]

_MODULES = {
    "DjangoArtifactService": "artifacts",
    "DjangoMemoryService": "memory",
    "DjangoSessionService": "service",
    "MirroredSessionService": "mirror",
    "Recorder": "recorder",
}
"""Module of each public name, imported with its first use: a program that only stores sessions loads no recorder."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with pause_collector():
        module = import_module(f"{__name__}.{_MODULES[name]}")
    return getattr(module, name)
