"""DevUI's services under the URI `devui:`, for ADK's own servers: `adk web --session_service_uri devui://`.

ADK reads `services.py` in the agents folder. These two lines register the URI there:

    from devui.runtime.registry import register
    register()

A value of DATABASE_URL follows `devui:`, such as `devui:sqlite:////path/to/sessions.sqlite3` or
`devui:postgresql://user:password@host/name`. `devui://` uses DATABASE_URL itself, or the store in `.devui/`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.cli.service_registry import get_service_registry
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.base_session_service import BaseSessionService

import devui

SCHEME = "devui"


def register() -> None:
    """Register `devui:` with ADK for session, artifact and memory services."""
    registry = get_service_registry()
    registry.register_session_service(SCHEME, session_service)
    registry.register_artifact_service(SCHEME, artifact_service)
    registry.register_memory_service(SCHEME, memory_service)


def session_service(uri: str, **_: Any) -> BaseSessionService:
    """Return the session service over the store of a URI."""
    _set_up(uri)
    from sessions_app.adk import DjangoSessionService

    return DjangoSessionService()


def artifact_service(uri: str, **_: Any) -> BaseArtifactService:
    """Return the artifact service over the store of a URI."""
    _set_up(uri)
    from sessions_app.adk import DjangoArtifactService

    return DjangoArtifactService()


def memory_service(uri: str, **_: Any) -> BaseMemoryService:
    """Return the memory service over the store of a URI."""
    _set_up(uri)
    from sessions_app.adk import DjangoMemoryService

    return DjangoMemoryService()


def store_url(uri: str) -> str | None:
    """Return the DATABASE_URL of a URI; None for the one of the environment.

    Raises:
        ValueError: the URI names no store.
    """
    scheme, _, rest = uri.partition(":")
    if scheme != SCHEME or (rest.startswith("//") and rest != "//"):
        raise ValueError(
            f"{scheme}:… names no store of DevUI: write devui:// for the one that DATABASE_URL names, or"
            " devui: and then what DATABASE_URL would say, such as devui:sqlite:////path/to/sessions.sqlite3."
        )
    return None if rest in {"", "//"} else rest


def _set_up(uri: str) -> None:
    """Set up the store in a thread: ADK may call from its event loop, in which Django refuses to migrate."""
    prepare: Callable[[str | None], None] = devui.setup
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(prepare, store_url(uri)).result()
