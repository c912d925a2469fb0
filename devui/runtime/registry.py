"""DevUI's services under the URI `devui://`, for ADK's own servers: `adk web --session_service_uri devui://`.

ADK reads `services.py` in the agents folder. These two lines register the URI there:

    from devui.runtime.registry import register
    register()

The store is the one that DATABASE_URL names, by default the file in `.devui/`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from google.adk.cli.service_registry import get_service_registry

import devui

SCHEME = "devui"


def register() -> None:
    """Set up the store, and register `devui://` with ADK for session, artifact and memory services."""
    with ThreadPoolExecutor(
        max_workers=1
    ) as thread:  # Django refuses to migrate in an event loop, as ADK may have
        thread.submit(devui.setup).result()
    from sessions_app.adk import DjangoArtifactService, DjangoMemoryService, DjangoSessionService

    registry = get_service_registry()
    registry.register_session_service(SCHEME, lambda uri, **options: DjangoSessionService())
    registry.register_artifact_service(SCHEME, lambda uri, **options: DjangoArtifactService())
    registry.register_memory_service(SCHEME, lambda uri, **options: DjangoMemoryService())
