"""The first steps of a new user, up to the scores of an evalset, in a real browser."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.conftest import ROOT, Server, open_new_session, say

pytestmark = pytest.mark.browser


def test_the_first_page_lists_the_agents_and_their_evalsets(window: BrowserContext):
    page = window.new_page()
    page.goto("/")
    for app in ("office", "shop", "team", "weather", "writer"):
        expect(page.get_by_role("link", name=app, exact=True).first).to_be_visible()
    expect(page.get_by_role("link", name="lookups").first).to_be_visible()


def test_a_demo_session_shows_deltas_scopes_and_the_raw_event(window: BrowserContext, demo: None):
    page = window.new_page()
    page.goto("/sessions/?app=weather")
    page.locator("tr", has_text="first-visit").locator(".row-link").click()
    page.wait_for_url("**/sessions/weather/aya/first-visit/**")
    expect(page.locator("article.event .delta .change-key").first).to_be_visible()

    page.locator("article.event", has=page.locator(".delta")).last.locator(".event-seq").click()
    page.wait_for_url("**?event=*")
    board = page.locator("#board")
    expect(board).to_contain_text("State at event")
    board.get_by_text("user", exact=False).first.click()
    expect(board.locator('.entry[data-scope="user"]').first).to_be_visible()

    page.locator("#detail").get_by_text("Raw", exact=True).first.click()
    event_id = parse_qs(urlsplit(page.url).query)["event"][0]
    expect(page.locator("#raw .json")).to_contain_text(event_id)


def test_a_message_streams_in_every_window_and_changes_the_state(window: BrowserContext, server: Server):
    first, second = window.new_page(), window.new_page()
    open_new_session(first, "writer", "eve", "two-windows")
    second.goto("/sessions/writer/eve/two-windows/")
    expect(second.locator("[data-connection]")).to_have_text("live")

    say(first, "Write a note about tea")
    for page in (first, second):
        expect(page.locator("article.event.kind-user")).to_have_count(1)
        expect(page.locator("#pending .pending").first).to_be_visible()
    for page in (first, second):
        expect(page.locator("article.event.kind-agent").last).to_be_visible()
        expect(page.locator("#pending .pending")).to_have_count(0)
        expect(page.locator("#board .entry").first).to_be_visible()
    seqs = first.locator("article.event").evaluate_all("rows => rows.map(row => Number(row.dataset.seq))")
    assert seqs == list(range(1, len(seqs) + 1)), "each event once, in order"


def test_a_session_written_by_another_program_is_watched_live(window: BrowserContext, server: Server):
    page = window.new_page()
    open_new_session(page, "weather", "script", "own-runner")

    ran = server.command(
        str(ROOT / "examples" / "own_runner.py"),
        "--user", "script", "--session", "own-runner", "--turns", "2", "--pause", "0",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    expect(page.locator("article.event.kind-user")).to_have_count(2)
    expect(page.locator("article.event.kind-tool_call").first).to_be_visible()


def test_run_survives_closed_page_and_can_be_cancelled(window: BrowserContext, server: Server):
    page = window.new_page()
    open_new_session(page, "office", "eve", "long")
    say(page, "Take 60 seconds")
    expect(page.locator("#runs")).to_contain_text("running", ignore_case=True)
    page.close()

    again = window.new_page()
    again.goto("/sessions/office/eve/long/")
    expect(again.locator("#runs")).to_contain_text("running", ignore_case=True)
    again.locator("#runs").get_by_role("button", name="Cancel").click()
    expect(again.locator("#runs")).to_contain_text("cancelled", ignore_case=True)


def test_a_failed_run_shows_its_error_and_traceback_where_it_happened(window: BrowserContext, server: Server):
    page = window.new_page()
    open_new_session(page, "office", "eve", "broken")
    say(page, "Break it")
    expect(page.locator("article.event.kind-error").first).to_be_visible()
    expect(page.locator("#runs")).to_contain_text("failed", ignore_case=True)
    expect(page.locator("#runs")).to_contain_text("RuntimeError")


def test_evalset_runs_with_scores_and_links_to_sessions(window: BrowserContext, server: Server):
    page = window.new_page()
    page.goto("/evals/weather/one_fails_on_purpose/")
    page.get_by_role("button", name=re.compile("^Run")).first.click()
    page.wait_for_url("**/evals/runs/**")
    expect(page.locator("#summary")).to_contain_text("1 of 2 passed", timeout=60_000)

    failed = page.locator("#cases tr.case", has_text="fail").first
    failed.get_by_role("link").first.click()
    attempt = page.locator("#attempt")
    expect(attempt).to_contain_text("Expected", ignore_case=True)
    attempt.get_by_role("link", name=re.compile("session", re.IGNORECASE)).first.click()
    page.wait_for_url("**/sessions/id/**")
    expect(page.locator("article.event").first).to_be_visible()


@pytest.mark.soak
def test_an_evalset_gives_the_same_scores_from_the_command_line(server: Server, tmp_path):
    report = tmp_path / "report.json"
    ran = server.command(
        str(ROOT / "manage.py"), "run_evals", str(ROOT / "examples" / "agents" / "weather"),
        "one_fails_on_purpose", "--json", str(report),
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert report.exists()
