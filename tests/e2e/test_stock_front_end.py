"""ADK's own front end from the installed wheel, with DevUI as its server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect

from tests.browser import OpenWindow
from tests.e2e.conftest import wait_until
from tests.e2e.own_server import copied_agents, serving
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.browser, pytest.mark.soak]

PARIS = "What is the weather in Paris?"
SUNNY = "It is sunny in Paris, 24 °C."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with agents of its own: the front end writes evalsets beside them."""
    return copied_agents(tmp_path_factory.mktemp("stock"))


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """DevUI on those agents; where it serves."""
    with serving(folder) as where:
        yield where


@pytest.fixture
def window(open_window: OpenWindow, address: str) -> BrowserContext:
    """A browser window. What other hosts are asked for fails the test."""
    opened = open_window(address, viewport={"width": 1440, "height": 900}, accept_downloads=True)
    foreign: list[str] = []

    def look(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            foreign.append(request.url)

    opened.on("request", look)
    opened.foreign = foreign
    return opened


@pytest.fixture
def page(window: BrowserContext) -> Iterator[Page]:
    """A page of the front end."""
    opened = window.new_page()
    opened.set_default_timeout(1000 * PATIENCE_S)
    yield opened
    assert window.foreign == []


def choose(page: Page, app: str) -> None:
    """Pick an agent as people do."""
    page.goto("/dev-ui/")
    page.get_by_role("button", name="Select an app").click()
    page.locator(".app-selector-item", has_text=app).click()
    expect(page.get_by_placeholder("Type a message...")).to_be_visible()


def say(page: Page, text: str, answer: str) -> None:
    """Send a message and wait for what the agent says."""
    page.get_by_placeholder("Type a message...").fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_text(answer).last).to_be_visible()
    expect(page.locator(".stop-message-btn")).to_have_count(0)  # it has a picture and no name


def session_of(page: Page) -> str:
    """Return the id of the session on the page."""
    page.wait_for_url(re.compile("session="))
    match = re.search(r"session=([^&]+)", page.url)
    assert match
    return match.group(1)


def fetch_session(address: str, app: str, session_id: str) -> httpx.Response:
    return httpx.get(
        f"{address}/apps/{app}/users/user/sessions/{session_id}", trust_env=False, timeout=PATIENCE_S
    )


def drawer(page: Page) -> None:
    """Open the list of sessions."""
    page.locator(".selector-button").nth(1).click()
    expect(page.get_by_role("button", name="Close session selector")).to_be_visible()


def test_front_end_runs_an_agent_and_shows_state_and_trace(page, address):
    choose(page, "weather")
    say(page, PARIS, SUNNY)
    session_id = session_of(page)
    page.get_by_role("tab", name="State").click()
    expect(page.locator("app-state-tab, .jse-main").first).to_contain_text("last_city")
    page.get_by_role("radio", name="Traces").click()
    expect(page.get_by_text("generate_content").first).to_be_visible()
    events = fetch_session(address, "weather", session_id).json()["events"]
    assert events[-1]["content"]["parts"][0]["text"] == SUNNY
    page.reload()
    page.get_by_role("radio", name="Events").click()
    expect(page.get_by_text(SUNNY).last).to_be_visible()


def test_an_answer_streams(page, address):
    choose(page, "weather")
    page.get_by_label("More options").click()
    page.get_by_role("menuitem", name="Streaming").click()
    page.keyboard.press("Escape")
    with page.expect_request("**/run_sse") as request_info:
        say(page, PARIS, SUNNY)
    assert json.loads(request_info.value.post_data or "{}")["streaming"] is True
    expect(page.get_by_text(SUNNY)).to_have_count(1)
    assert len(fetch_session(address, "weather", session_of(page)).json()["events"]) >= 4


def test_artifacts_are_listed_with_their_versions(page):
    choose(page, "office")
    say(page, "Take a note: buy milk", "buy milk")
    page.get_by_role("tab", name="Artifacts").click()
    expect(page.get_by_text("minutes").first).to_be_visible()


def test_evalset_is_created_filled_run_and_removed(page, address, folder):
    choose(page, "weather")
    say(page, PARIS, SUNNY)
    page.get_by_role("tab", name="Evals").click()
    page.locator("button", has_text=re.compile(r"^\s*add\s*New\s*$")).click()
    page.get_by_role("dialog").get_by_role("textbox").fill("mine")
    page.get_by_role("button", name="Create").click()
    page.get_by_text("mine", exact=True).first.click()
    page.get_by_role("button", name="From Current Session").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("What_is_the_weather_in_Paris").first).to_be_visible()
    (case,) = json.loads((folder / "agents/weather/mine.evalset.json").read_text())["eval_cases"]
    assert case["conversation"][0]["final_response"]["parts"][0]["text"] == SUNNY
    page.get_by_role("button", name="Run All").click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(page.get_by_text("Eval Result:").first).to_be_visible(timeout=1000 * PATIENCE_S)
    expect(page.get_by_text("Response Match").first).to_be_visible()
    expect(page.get_by_text("1 PASS").first).to_be_visible()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("Expected", exact=True).first).to_be_visible()
    query = f"{address}/dev/apps/weather/eval-sets/mine"
    assert httpx.delete(query, trust_env=False, timeout=PATIENCE_S).status_code == 200
    assert not (folder / "agents/weather/mine.evalset.json").exists()


def test_a_session_is_renamed_exported_deleted_and_imported_again(page, address, tmp_path):
    choose(page, "weather")
    say(page, PARIS, SUNNY)
    session_id = session_of(page)
    before = fetch_session(address, "weather", session_id).json()
    drawer(page)
    page.get_by_role("button", name="Edit", exact=True).click()
    page.locator(".inline-edit-input").fill("A day in Paris")
    page.locator(".inline-edit-input").press("Enter")
    expect(page.locator(".selector-button").nth(1)).to_contain_text("A day in Paris")
    renamed = fetch_session(address, "weather", session_id).json()
    assert renamed["state"]["__session_metadata__"] == {"displayName": "A day in Paris"}
    assert renamed["events"] == before["events"]
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    exported = tmp_path / "session.json"
    saved.value.save_as(exported)
    page.get_by_role("button", name="Delete", exact=False).filter(has_text="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    wait_until(
        lambda: fetch_session(address, "weather", session_id).status_code == 404, 60, "the session to go"
    )
    page.goto("/dev-ui/?app=weather")
    drawer(page)
    with page.expect_file_chooser() as chosen:
        page.get_by_role("button", name="Import").click()
    with page.expect_response(
        lambda answer: answer.request.method == "POST" and "/sessions" in answer.url
    ) as made:
        chosen.value.set_files(exported)
    assert made.value.status == 200
    back = made.value.json()
    assert [event.get("content") for event in back["events"]] == [
        event.get("content") for event in before["events"]
    ]
    assert back["state"]["last_city"] == before["state"]["last_city"]
