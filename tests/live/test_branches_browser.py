"""Rewind and fork in a real browser: from an open event to the new session."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from sessions_app.store.models import AgentSession
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


def tell(story: Story) -> None:
    story.asks("Weather in Paris?")
    story.says("Sunny.", delta={"city": "Paris"})
    story.invocation = "i2"
    story.asks("And in Rome?")
    story.says("Rainy.", delta={"city": "Rome", "late": 1})


def open_event(page: Page, seq: int) -> None:
    page.locator(f'[data-seq="{seq}"] .event-seq').click()
    expect(page.locator("#inspector-title")).to_contain_text(f"event {seq}")


def test_a_session_is_rewound_from_an_open_event(open_page, story):
    tell(story)
    page = open_page(story)
    watcher = open_page(story)
    open_event(page, 4)
    page.get_by_role("link", name="Rewind to before this invocation").click()
    plan = page.locator("#dialog[open] .branch-plan")
    expect(plan).to_contain_text("2 events, starting at event 3")
    page.get_by_role("button", name="Rewind").click()
    expect(page.locator(".fold:has([data-seq='4']) summary")).to_contain_text("2 events rewound by event 5")
    expect(page.locator('.entry[data-key="city"]')).to_contain_text('"Paris"')
    expect(page.locator('.entry[data-key="late"]')).to_have_count(0)
    expect(watcher.locator(".fold:has([data-seq='4']) summary")).to_contain_text(
        "2 events rewound by event 5"
    )


def test_a_plan_can_be_left_and_nothing_has_happened(open_page, story):
    tell(story)
    page = open_page(story)
    open_event(page, 4)
    page.get_by_role("link", name="Rewind to before this invocation").click()
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator("#dialog[open]")).to_have_count(0)
    assert story.session.last_seq == 4


def test_a_session_is_forked_from_an_open_event_and_compared(open_page, story):
    tell(story)
    page = open_page(story)
    open_event(page, 2)
    page.locator("#inspection").get_by_role("link", name="Fork from here").click()
    expect(page.locator("#dialog[open] h1")).to_have_text("Fork at event 2")
    page.get_by_label("Title").fill("Try Oslo")
    page.get_by_role("button", name="Fork").click()
    expect(page.locator("#session-name")).to_have_text("Try Oslo")
    expect(page.locator(".session-facts")).to_contain_text("forked from Weather in Paris? at event 2")
    expect(page.locator("article.event")).to_have_count(2)
    fork = AgentSession.objects.get(title="Try Oslo")
    page.get_by_role("link", name="Compare", exact=True).first.click()
    page.wait_for_url(re.compile(rf"left={story.pk}&right={fork.pk}"))
    expect(page.locator(".compare-common")).to_contain_text("The first 2 events are the same")
    expect(page.locator(".compare-event")).to_have_count(2)
    page.get_by_role("link", name="Compare the state at event 3").click()
    page.wait_for_url(re.compile("left_at=3"))
    page.get_by_role("link", name="Weather in Paris?").first.click()
    expect(page.locator('[data-seq="2"] .fork-link')).to_contain_text("Try Oslo")


def test_command_before_the_board_loads_applies_to_open_event(open_page, story):
    tell(story)
    page = open_page(story)
    boards: list[Route] = []

    def hold_boards(route: Route) -> None:
        if route.request.headers.get("hx-target") == "board":
            boards.append(route)
        else:
            route.continue_()

    page.route("**/sessions/**", hold_boards)
    open_event(page, 2)
    expect(page.locator("#board-title")).to_have_text("State now")
    fork = page.locator("#inspection").get_by_role("link", name="Fork from here")
    fork.click()
    expect(fork).to_be_focused()
    for board in boards:
        board.continue_()
    expect(page.locator("#dialog[open] h1")).to_have_text("Fork at event 2")


@pytest.mark.parametrize("path", ["/sessions/compare/?left={0}&right={0}", "/sessions/id/{0}/fork/?seq=2"])
def test_the_pages_fit_a_narrow_screen(open_page, story, path):
    tell(story)
    page = open_page(story)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(page.url.split("/sessions/")[0] + path.format(story.pk))
    expect(page.locator("main h1").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
