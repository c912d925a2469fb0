"""Session list in a real browser while a search is in progress."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, Route, expect

from sessions_app.search.execution import scans
from sessions_app.sessions import labels
from sessions_app.store.sessions import writes
from tests.browser import OpenWindow

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


@pytest.fixture
def page(open_window: OpenWindow, server: str, monkeypatch: pytest.MonkeyPatch) -> Page:
    """A tab on a store of which a look comes through 20 sessions; one in 20 is called rare."""
    monkeypatch.setattr(scans, "FIRST_WINDOW", 20)
    monkeypatch.setattr(scans, "SCAN_S", 0.0)
    for number in range(200):
        session = writes.create_session(
            writes.SessionKey("", "weather", "ann", f"s{number}"), now=1e9 + number
        )
        labels.rename(session.pk, "rare" if number % 20 == 10 else "other")
    return open_window(server).new_page()


TELLING = """() => {
  window.told = [];
  const look = () => {
    const text = document.getElementById("scan-status")?.textContent.trim();
    if (text && text !== window.told.at(-1)) window.told.push(text);
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
}"""


def test_rows_appear_as_found_until_the_scan_ends(page: Page):
    page.goto("/sessions/")
    page.evaluate(TELLING)
    page.locator("[data-search]").fill("title:rare")
    expect(page.locator("#sessions-rows .row-link")).to_have_count(10)
    expect(page.locator("#scan-progress")).to_have_text("")
    expect(page).to_have_url(re.compile(r"/sessions/\?q=title%3Arare[^~]*$"))
    assert page.evaluate("window.told") == [
        "Scanning sessions.",
        "Scan complete for this page: 10 sessions found.",
    ]
    row_texts = page.locator("#sessions-rows .id-cell").all_inner_texts()
    assert row_texts == [f"s{number}" for number in range(190, 0, -20)]


def test_rows_found_later_are_live_too(page: Page):
    page.goto("/sessions/?q=title%3Arare")
    expect(page.locator("#sessions-rows .row-link")).to_have_count(10)
    row = page.locator("#sessions-rows tr").last
    pk = row.locator("input[name=session]").get_attribute("value")
    labels.tag([int(pk or 0)], "seen")
    expect(row.locator(".tag")).to_have_text("seen")


def test_search_without_results_says_so_at_the_end(page: Page):
    page.goto("/sessions/?q=title%3Anowhere")
    expect(page.get_by_role("heading", name="No session matches")).to_be_visible()
    expect(page.locator(".session-table")).to_be_hidden()


def test_new_search_ends_the_previous_scan(page: Page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scans, "FIRST_WINDOW", 1)
    page.goto("/sessions/?q=title%3Arare")
    expect(page.locator("#scan-progress progress")).to_be_visible()
    page.locator("[data-search]").fill("session:s7")
    expect(page.locator("#sessions-rows .id-cell")).to_have_text(
        ["s79", "s78", "s77", "s76", "s75", "s74", "s73", "s72", "s71", "s70", "s7"]
    )
    expect(page.locator("#scan-progress progress")).to_have_count(0)
    page.go_back()
    expect(page.locator("#sessions-rows .id-cell").first).to_have_text("s190")
    page.go_forward()
    expect(page.locator("#sessions-rows .row-link")).to_have_count(11)


def test_poll_during_pending_search_adds_no_rows(page: Page):
    held: dict[str, Route] = {}

    def hold(route: Route) -> None:
        held["look" if "scanned=" in route.request.url else "search"] = route

    def released(kind: str) -> None:
        while kind not in held:
            page.wait_for_timeout(10)
        held.pop(kind).continue_()

    page.clock.install(time=0)
    page.clock.pause_at(1_000)
    page.route(re.compile(r"/sessions/\?.*scanned="), hold)
    page.goto("/sessions/?q=title%3Arare")
    page.route(re.compile(r"/sessions/\?q=session"), hold)
    page.clock.run_for(50)
    page.locator("[data-search]").fill("session:s7")
    page.clock.run_for(230)
    released("look")
    expect(page.locator("#sessions-rows .row-link")).to_have_count(2)
    page.clock.run_for(25)  # the search is sent, and soon the next look is due
    page.clock.run_for(25)
    released("search")
    expect(page.locator("#sessions-rows .row-link")).to_have_count(11)
    if "look" in held:
        with suppress(PlaywrightError):  # nobody waits for it by now
            held.pop("look").continue_()
    page.clock.run_for(1_000)
    page.wait_for_timeout(300)
    assert not held
    expect(page.locator("#sessions-rows .row-link")).to_have_count(11)
