"""State edited and compared in a real browser: dialogs, other open pages, the address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from sessions_app.runs import lifecycle
from sessions_app.store import scopes
from sessions_app.store.models import Run
from sessions_app.store.sessions import writes
from tests.live.windows import event
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


def entry(page: Page, name: str):
    return page.locator(f'.entry[data-key="{name}"]')


def open_form(page: Page, name: str) -> None:
    entry(page, name).get_by_role("link", name=f"Edit {name}").click()
    expect(page.locator("#dialog[open] #key-edit")).to_be_visible()
    expect(page.locator("#dialog .htmx-settling")).to_have_count(0)  # before that nobody hears what is typed


@pytest.mark.parametrize("name", ["city", "user:city", "app:city"])
def test_edited_key_appears_in_other_window(open_page, story, name):
    story.says("hi", delta={name: "Rome"})
    watched = story if name == "city" else Story("watching", user="ann" if name == "user:city" else "bob")
    watcher = open_page(watched)
    expect(entry(watcher, name)).to_contain_text('"Rome"')
    page = open_page(story)
    open_form(page, name)
    page.locator("#edit-value").fill("Paris")
    expect(page.locator("#preview .value-change")).to_have_text('"Rome" → "Paris"')
    if name != "city":
        expect(page.locator("#preview .notice-warn")).to_contain_text("1 other besides this one")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#dialog")).to_be_hidden()
    expect(page.locator("#board-title")).to_have_text("State now")
    expect(entry(page, name)).to_contain_text('"Paris"')
    expect(event(page, 2)).to_be_visible()
    expect(entry(watcher, name)).to_contain_text('"Paris"')


def test_a_key_is_added_and_removed(open_page, story):
    story.says("hi")
    page = open_page(story)
    page.get_by_role("link", name="Add a key").click()
    page.locator("#edit-key").fill("user:tags")
    page.get_by_label("JSON", exact=True).check()
    page.locator("#edit-value").fill('["a", ')
    expect(page.locator("#edit-value")).to_have_accessible_description(re.compile("^Line 1"))
    page.locator("#edit-value").fill('["a", 1]')
    expect(page.locator("#preview .value-change")).to_have_text('no value → ["a",1]')
    page.get_by_role("button", name="Save").click()
    expect(entry(page, "user:tags")).to_contain_text('["a",1]')
    open_form(page, "user:tags")
    page.get_by_role("link", name="Remove the key").click()
    expect(page.locator("#dialog-title")).to_have_text("Remove user:tags?")
    page.get_by_role("button", name="Remove the key").click()
    expect(page.locator("#dialog")).to_be_hidden()
    expect(entry(page, "user:tags")).to_have_count(0)
    expect(event(page, 3)).to_be_visible()


def test_a_key_is_saved_in_place_from_the_middle_of_a_session(open_page, story):
    for number in range(60):
        story.says(f"line {number}", delta={"n": number})
    page = open_page(story, "?seq=20")
    top = event(page, 20).evaluate("row => row.getBoundingClientRect().top")
    page.evaluate("window.isSamePage = true")
    open_form(page, "n")
    page.get_by_label("JSON", exact=True).check()
    page.locator("#edit-value").fill("{")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#edit-value")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#edit-value")).to_have_accessible_description(re.compile("^Line 1, column 2"))
    page.locator("#edit-value").fill("99")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#dialog")).to_be_hidden()
    expect(entry(page, "n").locator(".since")).to_contain_text("99")
    expect(page.locator("#board-title")).to_have_text("State at event 20")
    assert page.evaluate("window.isSamePage")
    assert page.url.endswith("?seq=20")
    assert abs(event(page, 20).evaluate("row => row.getBoundingClientRect().top") - top) < 2


def test_form_overtaken_by_another_window_shows_stored_value(open_page, story):
    story.says("hi", delta={"app:n": "old"})
    page = open_page(story)
    open_form(page, "app:n")
    page.locator("#edit-value").fill("mine")
    expect(page.locator("#preview .value-change")).to_contain_text("mine")
    Story("s2").says("x", delta={"app:n": "theirs"})
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notice-danger")).to_contain_text("was written since")
    expect(page.locator(".value-change")).to_have_text('"theirs" → "mine"')


def test_form_during_active_run_says_so_and_offers_cancel(open_page, story):
    story.says("hi", delta={"n": "old"})
    run = lifecycle.create_run(story.pk, {})
    page = open_page(story)
    open_form(page, "n")
    page.locator("#edit-value").fill("new")
    expect(page.locator("#edit-busy")).to_contain_text(run.pk)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#dialog .notice-danger")).to_be_visible()
    lifecycle.finish(run.pk, Run.Status.DONE)
    page.locator("#edit-value").fill("newer")
    expect(page.locator("#edit-busy")).to_have_count(0)
    page.get_by_role("button", name="Save").click()
    expect(entry(page, "n")).to_contain_text('"newer"')


def test_two_points_in_time_are_compared_and_in_the_address(open_page, story):
    for number in range(1, 5):
        story.says(f"event {number}", delta={"n": number})
    page = open_page(story, "?seq=4")
    page.get_by_label("Difference from another point in time").click()
    page.get_by_role("link", name="the start").click()
    expect(page.locator("#board-title")).to_have_text("The start → event 4")
    expect(entry(page, "n")).to_contain_text("no value → 4")
    assert page.url.endswith("?seq=4&diff=0")
    page.get_by_label("Difference from another point in time").click()
    page.locator("#compare-seq").fill("2")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#board-title")).to_have_text("Event 2 → event 4")
    page.keyboard.press("[")
    expect(page.locator("#board-title")).to_have_text("Event 2 → event 3")
    expect(entry(page, "n")).to_contain_text("2 → 3")
    page.go_back()
    expect(page.locator("#board-title")).to_have_text("Event 2 → event 4")
    page.reload()
    expect(page.locator("#board-title")).to_have_text("Event 2 → event 4")
    page.get_by_label("Back to the state").click()
    expect(page.locator("#board-title")).to_have_text("State at event 4")


def test_a_key_changed_without_an_event_appears_by_itself(open_page, story):
    story.says("hi", delta={"n": 1})
    page = open_page(story)
    writes.note_untracked(story.key, "i1", [writes.UntrackedWrite("n", scopes.canonicalize(2), "1")])
    marked = page.locator(".entry[data-untracked]")
    expect(marked).to_contain_text("untracked: lost after this invocation")
    expect(marked).to_contain_text("1 → 2")


def test_the_drift_opens_in_a_dialog(open_page, story):
    story.says("hi", delta={"user:n": 1})
    Story("s2").says("x", delta={"user:n": 2})
    page = open_page(story)
    page.get_by_label("Difference from another point in time").click()
    page.get_by_role("link", name="what its events add up to").click()
    dialog = page.locator("#dialog[open]")
    expect(dialog.locator("[data-key='user:n']")).to_contain_text("written by another session")
