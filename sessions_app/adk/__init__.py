"""DevUI's services and plug-in for ADK's `Runner`. Importing this package imports `google.adk`.

import devui

devui.setup("sqlite:///sessions.sqlite3")

from sessions_app.adk import DjangoSessionService, Recorder
"""

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
