"""A store whose threads have finished with the test, and the session services the statements are held to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from sessions_app.adk import DjangoSessionService
from tests.store import finish_threads


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store emptied after the test: service calls hop to other threads, so nothing can be rolled back."""
    yield
    finish_threads()


@pytest.fixture
def ours(store: None) -> DjangoSessionService:
    """DevUI's session service."""
    return DjangoSessionService()


@pytest.fixture(params=[DjangoSessionService, InMemorySessionService], ids=["devui", "adk in memory"])
def service(request: pytest.FixtureRequest, store: None) -> BaseSessionService:
    """DevUI's session service, and ADK's own as the oracle for what both must do."""
    new_service: BaseSessionService = request.param()
    return new_service
