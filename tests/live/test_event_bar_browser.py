"""Actions on a row of the timeline: copy, judge, edit, correct and fork where the message is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from sessions_app.sessions import judgements
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
    expect(event(page, 1).get_by_role("button", name="This answer was wrong")).to_be_hidden()
    event(page, 2).hover()
    event(page, 2).get_by_role("button", name="This answer was wrong").click()
    page.wait_for_url(f"**/evals/record/?session={told_story.pk}&wrong=2")
    assert judgements.find_judgement(told_story.pk, 2).verdict == "bad"


def test_answer_is_judged_where_it_stands(open_page, told_story):
    page, other = open_page(told_story), open_page(told_story, "?seq=2")
    event(page, 2).hover()
    event(page, 2).get_by_role("button", name="Judge as bad").click()
    for judged in (event(page, 2).locator(".judgement"), event(other, 2).locator(".judgement")):
        expect(judged.locator(".badge")).to_have_text("bad")
    expect(other.locator(".inspector > .judgement .badge")).to_have_text("bad")
    expect(event(page, 2).get_by_role("button", name="Judge as bad")).to_be_hidden()
    event(page, 2).get_by_role("link", name="Change the judgement").click()
    page.locator("#dialog[open] textarea").fill("It rains.")
    page.locator("#dialog[open]").get_by_role("button", name="Save").click()
    expect(page.locator("#dialog")).to_be_hidden()
    for place in (event(page, 2), event(other, 2), other.locator(".inspector")):
        expect(place.locator(".judgement-note")).to_have_text("It rains.")
    other.locator(".inspector").get_by_role("link", name="Change the judgement").click()
    other.get_by_role("button", name="Withdraw the judgement").click()
    for place in (event(page, 2), event(other, 2), other.locator(".inspector")):
        expect(place.locator(".judgement")).to_have_count(0)
    event(page, 2).hover()
    expect(event(page, 2).get_by_role("button", name="Judge as bad")).to_be_visible()


def test_open_event_is_judged_by_keys_and_by_the_palette(open_page, told_story):
    page = open_page(told_story, "?seq=2")
    expect(page.locator("[data-judge=good]")).to_be_visible()
    page.locator("#inspector-title").click()
    page.keyboard.press("+")
    expect(event(page, 2).locator(".judgement .badge")).to_have_text("good")
    expect(page.locator(".inspector > .judgement")).to_be_visible()
    page.keyboard.press("-")
    expect(page.locator("#dialog[open] h1")).to_have_text("Judge event 2")
    page.keyboard.press("Escape")
    page.goto(f"/sessions/id/{told_story.pk}/?seq=3")
    page.keyboard.press("Control+k")
    page.locator("#palette input").fill("judge this event as bad")
    page.keyboard.press("Enter")
    expect(event(page, 3).locator(".judgement .badge")).to_have_text("bad")


def test_paused_page_shows_its_own_judgement(open_page, told_story):
    page = open_page(told_story)
    page.get_by_role("button", name="Pause").click()
    event(page, 2).hover()
    event(page, 2).get_by_role("button", name="Judge as good").click()
    expect(event(page, 2).locator(".judgement .badge")).to_have_text("good")
