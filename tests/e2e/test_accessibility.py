"""Every kind of page under axe's rules for WCAG 2.1 A and AA, in both themes, on the example agents' own sessions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.browser import OpenWindow
from tests.e2e.conftest import LIVE, Server, open_new_session, say

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("demo")]

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
CONTRAST = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""What a theme can break: the rest of a page is the same in both."""

RUN = "rules => axe.run({runOnly: rules, resultTypes: ['violations']})"
PAPER = "getComputedStyle(document.body).backgroundColor"


def violations(page: Page, rules: dict[str, Any]) -> list[str]:
    """Return what breaks a rule, and where. The policy lets no script tag in; the browser's own console may."""
    page.evaluate(AXE)
    found = page.evaluate(RUN, rules)["violations"]
    return [
        f"{page.url} {rule['id']} {node['target']}: {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]


def address(path: str) -> Callable[[Page], None]:
    """Return what opens an address."""
    return lambda page: page.goto(path) and None


def session_with_an_open_inspector(page: Page) -> None:
    page.goto("/sessions/weather/ben/tour/")
    page.locator("article.event .event-seq").last.click()
    expect(page.locator("#inspector-title")).to_contain_text("event")


def session_that_waits_for_an_answer(page: Page) -> None:
    page.goto("/sessions/office/aya/awaits-confirmation/")
    expect(page.locator(".question").first).to_be_visible()


def session_with_a_running_run(page: Page) -> None:
    open_new_session(page, "office", "axe", "running")
    say(page, "Take 60 seconds")
    expect(page.locator("#runs")).to_contain_text("running", ignore_case=True, timeout=LIVE)


def report_and_attempt(page: Page) -> None:
    page.goto("/evals/weather/one_fails_on_purpose/")
    page.get_by_role("button", name=re.compile("^Run")).first.click()
    page.wait_for_url("**/evals/runs/**")
    expect(page.locator("#summary")).to_contain_text("1 of 2 passed", timeout=60_000)
    page.locator("#cases tr", has_text="fail").first.get_by_role("link").first.click()
    expect(page.locator("#attempt")).to_contain_text("Expected", ignore_case=True, timeout=LIVE)


def dialog(page: Page) -> None:
    page.goto("/sessions/")
    page.get_by_role("link", name="New session").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()


PLACES = {
    "home": address("/"),
    "sessions": address("/sessions/"),
    "new session": dialog,
    "session": session_with_an_open_inspector,
    "raw event": address("/sessions/weather/ben/tour/?seq=2&tab=raw"),
    "failed session": address("/sessions/office/ben/ends-in-an-error/"),
    "question": session_that_waits_for_an_answer,
    "running": session_with_a_running_run,
    "evals": address("/evals/"),
    "evalset": address("/evals/weather/one_fails_on_purpose/"),
    "report": report_and_attempt,
    "runs": address("/runs/"),
    "state": address("/state/?app=weather&user=aya"),
    "agent": address("/agents/weather/"),
    "not found": address("/sessions/weather/aya/nothing/"),
}


@pytest.fixture
def page(open_window: OpenWindow, server: Server) -> Page:
    """A tab in which nothing moves."""
    size = {"width": 1440, "height": 900}
    return open_window(server.url, viewport=size, color_scheme="light", reduced_motion="reduce").new_page()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_page_breaks_no_rule_of_accessibility_in_either_theme(page: Page, place: Callable[[Page], None]):
    place(page)
    found = violations(page, RULES)
    light = page.evaluate(PAPER)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    expect(page.locator("body")).not_to_have_css("background-color", light)
    found += violations(page, CONTRAST)
    assert not found, "\n".join(found)


def test_what_breaks_a_rule_is_found(page: Page):
    page.goto("/sessions/")
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    page.evaluate("document.querySelector('h1').style.color = '#e0e0e0'")
    expect(page.locator("h1")).to_have_css("color", "rgb(224, 224, 224)")
    assert {found.split()[1] for found in violations(page, RULES)} == {"button-name", "color-contrast"}
    assert {found.split()[1] for found in violations(page, CONTRAST)} == {"color-contrast"}
