"""Actions on a row of the timeline: copy, edit, correct and fork where the message is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.live.windows import event

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


@pytest.fixture
def told_story(story):
    story.asks("Weather in Paris?")
    story.says("It is **sunny**.")
    story.asks("And in Rome?")
    return story


def test_message_is_edited_where_it_stands(open_page, told_story):
    page = open_page(told_story)
    event(page, 3).hover()
    event(page, 3).get_by_role("link", name="Edit this message and run again").click()
    expect(page.locator("#dialog[open] textarea").first).to_have_value("And in Rome?")
    page.keyboard.press("Escape")
    event(page, 1).hover()
    event(page, 1).get_by_role("link", name="Edit this message and run again").click()
    expect(page.locator("#dialog[open] textarea").first).to_have_value("Weather in Paris?")


def test_answer_is_copied_and_forked_but_not_edited(open_page, told_story):
    page = open_page(told_story)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    event(page, 2).hover()
    expect(event(page, 2).get_by_role("link", name="Edit this message and run again")).to_be_hidden()
    event(page, 2).get_by_role("button", name="Copy the text").click()
    expect(event(page, 2).get_by_role("button", name="Copy the text").locator("use")).to_have_attribute(
        "href", re.compile("#ok$")
    )
    assert page.evaluate("navigator.clipboard.readText()") == "It is **sunny**."
    expect(page.locator("#announcer")).to_have_text("Copied")
    event(page, 2).get_by_role("link", name="Fork from here").click()
    expect(page.locator("#dialog[open] h1")).to_have_text("Fork at event 2")


def test_wrong_answer_becomes_a_case_from_its_row(open_page, told_story):
    page = open_page(told_story)
    event(page, 1).hover()
    expect(event(page, 1).get_by_role("link", name="This answer was wrong")).to_be_hidden()
    event(page, 2).hover()
    event(page, 2).get_by_role("link", name="This answer was wrong").click()
    page.wait_for_url(f"**/evals/record/?session={told_story.pk}&wrong=2")
