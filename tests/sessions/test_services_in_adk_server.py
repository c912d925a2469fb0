"""ADK's own REST of artifacts and memory, served by ADK's server over DevUI's services."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
from google.adk.cli.api_server import ApiServer
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
from google.adk.evaluation.local_eval_sets_manager import LocalEvalSetsManager
from google.genai import types

from sessions_app.adk import DjangoArtifactService, DjangoMemoryService, DjangoSessionService
from tests.sessions.memory.builders import event, recall_texts

FILES = "/apps/office/users/ann/sessions/s1/artifacts"


@pytest.fixture
async def client(store: None, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of ADK's server."""
    folder = str(tmp_path)
    server = ApiServer(
        agent_loader=AgentLoader(folder),
        session_service=DjangoSessionService(),
        artifact_service=DjangoArtifactService(),
        memory_service=DjangoMemoryService(),
        credential_service=InMemoryCredentialService(),
        eval_sets_manager=LocalEvalSetsManager(agents_dir=folder),
        eval_set_results_manager=LocalEvalSetResultsManager(agents_dir=folder),
        agents_dir=folder,
    )
    transport = httpx.ASGITransport(app=server.get_fast_api_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def save(
    client: httpx.AsyncClient, filename: str, artifact: dict[str, Any], **fields: Any
) -> httpx.Response:
    return await client.post(FILES, json={"filename": filename, "artifact": artifact, **fields})


async def test_artifact_round_trip(client: httpx.AsyncClient):
    response = await save(client, "a.txt", {"text": "こんにちは"}, customMetadata={"from": "test"})
    assert response.status_code == 200
    assert (
        response.json().items()
        >= {"version": 0, "customMetadata": {"from": "test"}, "mimeType": "text/plain"}.items()
    )
    assert (await client.get(FILES)).json() == ["a.txt"]
    assert (await client.get(f"{FILES}/a.txt")).json() == {"text": "こんにちは"}


async def test_versions_and_their_metadata_are_listed(client: httpx.AsyncClient):
    for text in ("one", "two"):
        await save(client, "user:notes/a.txt", {"text": text})
    name = f"{FILES}/user:notes/a.txt"
    assert (await client.get(f"{name}/versions")).json() == [0, 1]
    assert (await client.get(f"{name}/versions/0")).json() == {"text": "one"}
    assert (await client.get(f"{name}/versions/latest")).json() == {"text": "two"}
    assert [item["version"] for item in (await client.get(f"{name}/versions/metadata")).json()] == [0, 1]
    assert (await client.get(f"{name}/versions/1/metadata")).json()["version"] == 1


async def test_large_bytes_round_trip(client: httpx.AsyncClient):
    content = bytes(range(256)) * 1000
    data = base64.urlsafe_b64encode(content).decode()
    await save(client, "big", {"inlineData": {"mimeType": "x/y", "data": data}})
    part = types.Part.model_validate((await client.get(f"{FILES}/big")).json())
    assert part.inline_data is not None
    assert part.inline_data.data == content


async def test_missing_artifact_is_404_and_unstorable_one_400(client: httpx.AsyncClient):
    assert (await client.get(f"{FILES}/none")).status_code == 404
    assert (await client.get(f"{FILES}/none/versions/3/metadata")).status_code == 404
    refused = await save(client, "a\x00b", {"text": "x"})
    assert refused.status_code == 400
    assert "filename" in refused.json()["detail"]
    assert (await save(client, "a", {"functionCall": {"name": "f", "args": {}}})).status_code == 400


async def test_deleted_artifact_is_missing(client: httpx.AsyncClient):
    await save(client, "a", {"text": "x"})
    assert (await client.delete(f"{FILES}/a")).status_code == 200
    assert (await client.get(FILES)).json() == []


async def test_a_session_is_added_to_memory(client: httpx.AsyncClient):
    sessions = DjangoSessionService()
    session = await sessions.create_session(app_name="office", user_id="ann", session_id="s1")
    await sessions.append_event(session, event("予算は四万円です"))
    added = await client.patch("/apps/office/users/ann/memory", json={"session_id": "s1"})
    assert added.status_code == 200
    assert await recall_texts(DjangoMemoryService(), "予算") == ["予算は四万円です"]
