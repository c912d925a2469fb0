"""DevUI's memory service, and ADK's own as the oracle for what both must do."""

from __future__ import annotations

import pytest
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService

from sessions_app.adk import DjangoMemoryService


@pytest.fixture
def memory(store: None) -> DjangoMemoryService:
    """DevUI's memory service on an empty store."""
    return DjangoMemoryService()


@pytest.fixture(params=[DjangoMemoryService, InMemoryMemoryService], ids=["devui", "adk in memory"])
def service(request: pytest.FixtureRequest, store: None) -> BaseMemoryService:
    """Each service that must do as the tests say."""
    new_service: BaseMemoryService = request.param()
    return new_service
