"""DevUI's artifact service with a folder of its own, and ADK's own services as oracles."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService

from sessions_app.adk import DjangoArtifactService


@pytest.fixture
def artifacts(store: None) -> DjangoArtifactService:
    """DevUI's artifact service on an empty store."""
    return DjangoArtifactService()


@pytest.fixture(params=["devui", "adk in memory", "adk files"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> BaseArtifactService:
    """Each service that must do as the tests say."""
    if request.param == "devui":
        ours: DjangoArtifactService = request.getfixturevalue("artifacts")
        return ours
    if request.param == "adk files":
        return FileArtifactService(tmp_path / "files")
    return InMemoryArtifactService()
