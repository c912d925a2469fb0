"""The home page offers to import data that `adk web` stored beside agents."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from google.adk.cli.utils.local_storage import PerAgentFileArtifactService
from google.genai import types

from sessions_app.agents import folder
from sessions_app.store.models import AgentSession
from sessions_app.transfer.writers import jobs
from sessions_app.transfer.writers.discovery import find_all_agent_data
from tests.importers import stores
from tests.importers.import_jobs import wait_for_jobs


@pytest.fixture
def left_by_adk(agents_dir: Path) -> Path:
    """A store as `adk web` leaves it beside the agent `weather`."""
    folder = agents_dir / "weather" / ".adk"
    folder.mkdir()
    yield stores.copy_of(stores.SQLITE, folder).rename(folder / "session.db")
    jobs._own_jobs._jobs.clear()


def test_stores_beside_agents_are_recognized_by_first_bytes(agents_dir, left_by_adk):
    (agents_dir / "writer" / ".adk").mkdir()
    (agents_dir / "writer" / ".adk" / "session.db").write_text("no database")

    [data] = find_all_agent_data(folder.open_folder(agents_dir))

    assert (data.app_name, list(data.stores)) == ("weather", [str(left_by_adk.resolve())])


def test_the_home_page_asks_for_offers(get, db, agents_dir):
    assert get("/").one("div", id="import-offers").attrs["hx-get"] == "/imports/"


def test_nothing_is_offered_where_nothing_was_left(get, store, agents_dir):
    assert not get("/imports/").all("form")


def test_one_click_imports_and_report_stays_until_dismissed(client, get, store, left_by_adk):
    offer = get("/imports/").one("form")
    assert "adk web stored sessions in the folder of weather" in offer.text

    client.post("/imports/start/", {"app": "weather"})
    wait_for_jobs()

    assert AgentSession.objects.count() == 3
    assert "3 new sessions, 9 events imported." in get("/imports/").one("form").text
    client.post("/imports/dismiss/", {"app": "weather"})
    assert not get("/imports/").all("form")


def test_a_store_that_changed_since_is_offered_again(client, get, store, left_by_adk):
    client.post("/imports/start/", {"app": "weather"})
    wait_for_jobs()
    client.post("/imports/dismiss/", {"app": "weather"})
    stores.execute(left_by_adk, "INSERT INTO sessions VALUES ('weather', 'ann', 'new', '{}', 1.0, 1.0)")

    assert get("/imports/").all("form")


def test_damaged_store_is_reported_and_can_be_retried(client, get, store, left_by_adk):
    left_by_adk.write_bytes(left_by_adk.read_bytes()[:5000])

    client.post("/imports/start/", {"app": "weather"})
    wait_for_jobs()

    form = get("/imports/").one("form")
    assert form.all("span", role="alert")
    assert form.one("button").text == "Import sessions"


def test_page_names_the_session_with_a_hostile_pickle_and_why(client, get, store, left_by_adk):
    stores.copy_of(stores.V0, left_by_adk.parent).replace(left_by_adk)
    stores.execute(left_by_adk, "UPDATE events SET actions = ? WHERE id = 'e1-3'", (stores.DEEP_TUPLE,))

    client.post("/imports/start/", {"app": "weather"})
    wait_for_jobs()

    assert AgentSession.objects.count() == 3
    text = get("/imports/").one("form").text
    assert "event e1-3 of weather/ann/s1: actions: it ended the process that read it" in text


def test_only_discovered_stores_can_be_imported(client, store, left_by_adk):
    assert client.post("/imports/start/", {"app": "/etc"}).status_code == 404
    assert client.get("/imports/start/").status_code == 405


async def test_artifacts_without_sessions_are_offered_and_come(async_client, store, agents_dir):
    files = PerAgentFileArtifactService(agents_root=agents_dir)
    await files.save_artifact(
        app_name="weather", user_id="ann", session_id="s1", filename="a.txt", artifact=types.Part(text="hi")
    )

    offer = await async_client.get("/imports/")
    assert "stored artifacts in the folder of" in offer.content.decode()
    await async_client.post("/imports/start/", {"app": "weather"})
    await asyncio.to_thread(wait_for_jobs)

    assert "1 artifact version imported." in " ".join(
        (await async_client.get("/imports/")).content.decode().split()
    )
    await async_client.post("/imports/dismiss/", {"app": "weather"})
    assert b"<form" not in (await async_client.get("/imports/")).content


def test_offer_warns_that_agents_with_other_stores_do_not_see_imports(
    client, get, store, left_by_adk, settings
):
    settings.DEVUI_SESSION_SERVICE = "sqlite:///adk.db"
    client.post("/imports/start/", {"app": "weather"})
    wait_for_jobs()
    assert "agents keep their sessions in sqlite:///adk.db" in get("/imports/").one("form").text
