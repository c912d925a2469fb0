"""The page of our API works offline and under the policy, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect


@pytest.mark.browser
@pytest.mark.soak
def test_the_docs_of_the_api_load_nothing_from_outside_and_break_no_rule(store, open_window, server):
    page = open_window(server).new_page()
    complaints: list[str] = []
    hosts: set[str] = set()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))

    page.goto("/api/v1/docs")

    expect(page.get_by_text("/api/v1/runs", exact=True).first).to_be_visible()
    assert "/api/v1/sessions/{session}/state/history" in page.inner_text("body")
    assert hosts == {server.removeprefix("http://")}
    assert complaints == []


@pytest.mark.browser
@pytest.mark.soak
def test_docs_of_the_api_follow_the_theme(store, open_window, server):
    page = open_window(server, color_scheme="dark").new_page()
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    page.goto("/api/v1/docs")
    expect(page.get_by_text("/api/v1/runs", exact=True).first).to_be_visible()
    assert page.evaluate(ground) == "rgb(28, 32, 34)"
    page.emulate_media(color_scheme="light")
    expect(page.locator("html.dark-mode")).to_have_count(0)
    page.evaluate("localStorage.setItem('devui-theme', 'dark')")
    page.reload()
    assert page.evaluate(ground) == "rgb(28, 32, 34)"
