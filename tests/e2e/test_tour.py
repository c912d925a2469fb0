"""The tour of the guide: from the first page to the callback that made an answer wrong, and to the case it fixed."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.conftest import Server, wait_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak


@pytest.mark.usefixtures("demo")
def test_tour_finds_the_callback_in_four_clicks(window: BrowserContext, server: Server):
    page = window.new_page()
    page.goto("/")
    page.get_by_role("link", name=re.compile("My email is ada@example.com")).first.click()
    answer = page.locator("article.event.kind-agent", has_text="Delivery costs 5 euros")
    expect(answer).to_be_visible()

    answer.locator("a.event-seq").click()
    page.get_by_role("link", name="Why this answer").and_(page.locator(".event-actions a")).click()

    page.wait_for_url("**/why/")
    line = page.locator(".why-lines > li", has_text="tier: standard")
    expect(line.locator(".removed")).to_have_text('"gold"')
    expect(line.locator(".writer")).to_contain_text("callback set_defaults")

    line.locator(".writer a").click()
    page.wait_for_url(re.compile(r"\?seq=\d+"))
    expect(page.locator("#inspector-title")).to_contain_text("state update")


@pytest.mark.usefixtures("demo")
def test_row_under_the_pointer_offers_why_on_answers_only(window: BrowserContext, server: Server):
    page = window.new_page()
    page.goto("/sessions/shop/ada/wrong-answer/")
    why = page.locator("#event-bar [data-action=why]")
    page.locator("article.event.kind-user").first.hover()
    expect(why).to_be_hidden()
    page.locator("article.event.kind-agent").last.hover()
    expect(why).to_be_visible()
    why.click()
    page.wait_for_url("**/why/")
    expect(page.get_by_role("heading", name="Why this answer")).to_be_visible()


@pytest.mark.usefixtures("demo")
def test_tour_compares_the_demo_runs_before_and_after_the_correction(window: BrowserContext, server: Server):
    runs = f"{server.url}/api/v1/evals/runs?app=shop"
    wait_until(lambda: httpx.get(runs, trust_env=False).json()["runs"], PATIENCE_S, "the demo runs")
    page = window.new_page()
    page.goto("/evals/shop/delivery/")
    page.locator("tr", has_text="20/20").get_by_role("link").first.click()
    expect(page.locator(".note-text")).to_contain_text("Corrected: set_defaults")
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_text("Better: 1 case fixed, none worse")).to_be_visible()
    case = page.locator("tr", has_text="gold_fails_on_purpose").first
    expect(case).to_contain_text("fixed")
