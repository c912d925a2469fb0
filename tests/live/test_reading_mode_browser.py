"""Conversation or everything: what the timeline shows of each event."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.live.windows import event

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


@pytest.fixture
def told_story(story):
    story.asks("Weather in Paris?")
    story.calls("get_weather", "c1", city="Paris")
    story.answers("get_weather", "c1", delta={"city": "Paris", "late": 1})
    story.says("It is sunny. " * 40, delta={"draft": "It is sunny."})
    return story


def test_conversation_names_the_state_and_everything_shows_its_values(open_page, told_story):
    page = open_page(told_story)
    value = event(page, 4).locator(".added")
    expect(event(page, 4).locator(".change-key")).to_have_text("draft")
    expect(value).to_be_hidden()
    page.get_by_role("button", name="Everything").click()
    expect(value).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Everything")).to_have_attribute("aria-pressed", "true")
    expect(value).to_be_visible()
    page.keyboard.press("e")
    expect(value).to_be_hidden()


def test_prose_has_most_of_the_width(open_page, told_story):
    page = open_page(told_story)
    width = event(page, 4).locator(".event-body").bounding_box()["width"]
    assert width >= 600
    assert width >= 0.8 * page.locator("#timeline-scroll").bounding_box()["width"]


def test_number_and_figures_of_an_event_appear_when_it_is_used(open_page, told_story):
    page = open_page(told_story)
    number, figures = event(page, 4).locator(".event-seq"), event(page, 4).locator(".event-meta")
    expect(figures).to_have_css("opacity", "0")
    event(page, 4).hover()
    expect(figures).to_have_css("opacity", "1")
    expect(number).to_have_css("opacity", "1")


def test_row_that_is_read_stays_where_it_is(open_page, told_story):
    for number in range(40):
        told_story.says(f"answer {number}", delta={f"key{number}": "a value"})
    page = open_page(told_story, "?seq=20")
    before = event(page, 20).bounding_box()["y"]
    page.keyboard.press("e")
    expect(event(page, 20).locator(".added")).to_be_visible()
    assert abs(event(page, 20).bounding_box()["y"] - before) <= 200
    expect(event(page, 20)).to_be_in_viewport()
