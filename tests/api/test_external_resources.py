"""Artifacts and memory in services that a URI names, listed and searched through ADK's interface."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from devui.runtime.config import RuntimeOptions
from devui.supervisor import Supervisor
from sessions_app.runs import runtime_client as runs
from tests import forked_processes
from tests.api.conftest import EXAMPLES
from tests.store import store_url

SESSIONS = "/apps/office/users/ann/sessions"


@pytest_asyncio.fixture
async def files(store: None, tmp_path: Path, settings: Any) -> AsyncIterator[Path]:
    """Folder in which ADK's own service stores the artifacts of this server's agents; memory is in their process."""
    uri = tmp_path.joinpath("files").as_uri()
    settings.DEVUI_ARTIFACT_SERVICE, settings.DEVUI_MEMORY_SERVICE = uri, "memory://"
    options = RuntimeOptions(artifact_service_uri=uri, memory_service_uri="memory://")
    with forked_processes.starts():
        async with Supervisor(EXAMPLES, options, environment={"DATABASE_URL": store_url()}) as running:
            runs.register(running)
            yield tmp_path / "files"
            runs.register(None)


async def test_external_resources_are_listed_and_searched_at_their_source(http_client, files):
    await (await runs.provider().client("office")).call("GET", "/devui/health")
    await http_client.post(SESSIONS, json={"sessionId": "s1"})
    for text in ("Take a note: tea at four", "Take a note: cake"):
        message = {"role": "user", "parts": [{"text": text}]}
        parameters = {"appName": "office", "userId": "ann", "sessionId": "s1", "newMessage": message}
        assert (await http_client.post("/run", json=parameters)).status_code == 200
    assert any(file.is_file() for file in files.rglob("*"))

    whole = (await http_client.get("/artifacts/?app=office&user=ann")).text
    assert files.as_uri() in whole
    assert "choose an app, a user and a session id" in whole
    part = {"HX-Request": "true", "HX-Target": "there"}
    page = (await http_client.get("/artifacts/there/?app=office&user=ann&session=s1", headers=part)).text
    assert "minutes.md" in page
    assert "<html" not in page
    alone = (await http_client.get("/artifacts/there/?app=office&user=ann&session=s1")).text
    assert "<html" in alone
    addresses = re.findall(r'href="(/artifacts/there/content/[^"]+version=\d)"', page)
    assert [address[-1] for address in addresses] == ["1", "0"]
    newest = await http_client.get(addresses[0].replace("&amp;", "&"))
    assert newest.text.endswith("- tea at four\n- cake\n")
    assert (await http_client.get(addresses[0].replace("&amp;", "&") + "9")).status_code == 404
    none = (await http_client.get("/artifacts/there/?app=office&user=ann&session=other")).text
    assert "This session and its user have no artifacts there." in none
    refused = await http_client.get("/artifacts/there/?app=office&user=a%2Fb&session=s1")
    assert (refused.status_code, "its paths cannot hold this id" in refused.text) == (200, True)
    assert (await http_client.get("/artifacts/there/?app=office")).status_code == 400

    asked_for = (await http_client.get("/memory/?app=office&user=ann&q=cake")).text
    assert 'hx-get="/memory/there/?app=office&amp;user=ann&amp;q=cake"' in asked_for
    recalled = (await http_client.get("/memory/there/?app=office&user=ann&q=cake")).text
    assert "An agent would recall" in recalled
    assert "Take a note: cake" in recalled
    nothing = (await http_client.get("/memory/there/?app=office&user=ben&q=cake")).text
    assert "The service finds nothing for this query." in nothing
