"""Imports that a page offers: a worker carries them out, and every web process shows their progress and report."""

from __future__ import annotations

import httpx
import pytest

from tests.importers import stores
from tests.patience import PATIENCE_S
from tests.workers.team import wait_for

pytestmark = pytest.mark.soak


def click(web, path):
    answer = httpx.post(
        f"{web.url}{path}",
        data={"app": "talker"},
        headers={"Origin": web.url},
        timeout=PATIENCE_S,
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    return answer.text


def offers_of(web):
    answer = httpx.get(f"{web.url}/imports/", timeout=PATIENCE_S, trust_env=False)
    assert answer.status_code == 200, answer.text
    return " ".join(answer.text.split())


@pytest.fixture
def store_of_adk(team):
    """A store as `adk web` leaves it beside the agent `talker`."""
    folder = team.agents / "talker" / ".adk"
    folder.mkdir()
    return stores.copy_of(stores.SQLITE, folder).rename(folder / "session.db")


def test_worker_imports_what_a_page_offers(team, store_of_adk):
    one, other = team.start_web(), team.start_web()
    assert "Importing the sessions of" in " ".join(click(one, "/imports/start/").split())
    assert "Importing the sessions of" in " ".join(click(other, "/imports/start/").split())
    assert team.rows("SELECT count(*) FROM procrastinate_jobs") == [(1,)]
    assert team.rows("SELECT count(*) FROM sessions_app_agentsession") == [(0,)]
    team.start_worker()
    wait_for(lambda: offers_of(other), lambda page: "3 new sessions, 9 events imported." in page)
    assert "3 new sessions, 9 events imported." in offers_of(one)
    click(other, "/imports/dismiss/")
    assert "<form" not in offers_of(one)


def test_failed_import_of_a_worker_is_reported_and_can_be_started_again(team, store_of_adk):
    whole = store_of_adk.read_bytes()
    store_of_adk.write_bytes(whole[:5000])
    web = team.start_web()
    team.start_worker()
    team.await_workers(1)
    click(web, "/imports/start/")
    wait_for(lambda: offers_of(web), lambda page: 'role="alert"' in page)
    store_of_adk.write_bytes(whole)
    click(web, "/imports/start/")
    wait_for(lambda: offers_of(web), lambda page: "3 new sessions, 9 events imported." in page)
