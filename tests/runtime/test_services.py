"""The services of a runtime: DevUI's own, or those of ADK's URIs."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.genai import types

from devui.runtime import services
from devui.runtime.config import RuntimeOptions
from sessions_app.adk import DjangoArtifactService, DjangoMemoryService
from sessions_app.store.errors import RuntimeUnavailable


def test_without_uris_the_store_serves_everything(tmp_path):
    options = RuntimeOptions()
    assert services.session_service(options, tmp_path) is None
    assert isinstance(services.artifact_service(options, tmp_path), DjangoArtifactService)
    assert isinstance(services.memory_service(options, tmp_path), DjangoMemoryService)


async def test_file_uri_stores_artifacts_in_its_folder(tmp_path: Path):
    folder = tmp_path / "kept here"
    folder.mkdir()
    service = services.artifact_service(RuntimeOptions(artifact_service_uri=folder.as_uri()), tmp_path)
    assert isinstance(service, FileArtifactService)
    part = types.Part.from_bytes(data=b"text", mime_type="text/plain")
    await service.save_artifact(
        app_name="a", user_id="u", session_id="s", filename="notes.txt", artifact=part
    )
    assert [path for path in folder.rglob("*") if path.is_file()]


def test_memory_may_be_adks_own(tmp_path):
    service = services.memory_service(RuntimeOptions(memory_service_uri="memory://"), tmp_path)
    assert isinstance(service, InMemoryMemoryService)


@pytest.mark.parametrize("kind", ["session", "artifact", "memory"])
def test_unusable_uri_is_refused_naming_its_flag(tmp_path, kind):
    options = RuntimeOptions(**{f"{kind}_service_uri": "nothing://ann:secret@host/x"})
    with pytest.raises(RuntimeUnavailable) as refusal:
        getattr(services, f"{kind}_service")(options, tmp_path)
    assert f"The {kind} service" in refusal.value.message
    assert f"--{kind}_service_uri" in refusal.value.hint
    assert "secret" not in refusal.value.message
