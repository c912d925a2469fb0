"""The tour of the guide: four clicks from the first page to the callback that made an answer wrong."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.conftest import LIVE, Server

pytestmark = pytest.mark.soak


@pytest.mark.usefixtures("demo")
def test_tour_finds_the_callback_in_four_clicks(window: BrowserContext, server: Server):
    page = window.new_page()
    page.goto("/")
    page.get_by_role("link", name=re.compile("My email is ada@example.com")).first.click()
    answer = page.locator("article.event.kind-agent", has_text="Delivery costs 5 euros")
    expect(answer).to_be_visible(timeout=LIVE)

    answer.locator("a.event-seq").click()
    page.get_by_role("link", name="Why this answer").and_(page.locator(".event-actions a")).click()

    page.wait_for_url("**/why/")
    line = page.locator(".why-lines > li", has_text="tier: standard")
    expect(line.locator(".removed")).to_have_text('"gold"')
    expect(line.locator(".writer")).to_contain_text("callback set_defaults")

    line.locator(".writer a").click()
    page.wait_for_url(re.compile(r"\?seq=\d+"))
    expect(page.locator("#inspector-title")).to_contain_text("state update", timeout=LIVE)


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
