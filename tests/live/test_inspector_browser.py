"""The inspector in a real browser: the tree, the search in it, copying, and marking events to compare."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser import clipboard_text
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


@pytest.fixture
def session_story(story: Story) -> Story:
    """A call with many arguments, its result, and two answers."""
    story.calls("look", "c1", rows=[{"city": f"city {n}", "a/b": {"n": n}} for n in range(60)])
    story.answers("look", "c1", delta={"found": 60})
    story.says("It is sunny in Paris today, so take a hat.", delta={"found": 61})
    story.says("It is rainy in Paris today, so take a coat.")
    return story


def test_search_opens_hits_and_keeps_focus(open_page, session_story):
    page = open_page(session_story, "?seq=1")
    page.get_by_text("Raw", exact=True).click()
    field = page.get_by_role("searchbox", name="Search the JSON of event 1")
    field.fill("city 5")
    expect(page.locator(".raw-hits")).to_have_text("1 of 11")
    expect(page.locator("#json-hit")).to_be_in_viewport()
    expect(page.locator("#json-hit mark")).to_have_text("city 5")
    field.press("Enter")
    expect(page.locator(".raw-hits")).to_have_text("2 of 11")
    expect(page.locator("#json-hit")).to_contain_text("city 50")
    field.press("Shift+Enter")
    field.press("Shift+Enter")
    expect(page.locator(".raw-hits")).to_have_text("11 of 11")
    expect(field).to_be_focused()
    page.reload()
    expect(page.locator("#json-hit")).to_contain_text("city 59")


def test_enter_does_not_go_on_while_an_input_method_composes(open_page, session_story):
    page = open_page(session_story, "?seq=1&tab=raw&raw=city")
    expect(page.locator(".raw-hits")).to_have_text("1 of 60")
    field = page.get_by_role("searchbox", name="Search the JSON of event 1")
    field.focus()
    field.evaluate(
        "field => field.dispatchEvent(new KeyboardEvent('keydown', "
        "{key: 'Enter', isComposing: true, bubbles: true, cancelable: true}))"
    )
    field.press("Enter")
    expect(page.locator(".raw-hits")).to_have_text("2 of 60")


def test_a_picked_value_its_path_and_the_whole_event_are_copied(open_page, session_story):
    page = open_page(session_story, "?seq=1&tab=raw&raw=city 7")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    place = page.locator(".json-place")
    expect(place).to_be_hidden()
    page.locator("#json-hit").click()
    expect(place).to_contain_text(".content.parts[0].functionCall.args.rows[7].city")
    place.get_by_role("button", name="Path").click()
    expect(place.locator("use[href$='#ok']")).to_be_visible()
    assert clipboard_text(page, ".content") == ".content.parts[0].functionCall.args.rows[7].city"
    with page.expect_response("**form=text*"):
        page.keyboard.press("v")
    assert clipboard_text(page, "city") == "city 7"
    page.get_by_role("button", name="Copy", exact=True).click()
    assert '"id": "e1"' in clipboard_text(page, "{")


def test_a_tree_is_walked_by_arrow_keys(open_page, session_story):
    page = open_page(session_story, "?seq=1&tab=raw&raw=city 7")
    row = page.locator("#json-hit").locator("xpath=ancestor::li[1]").locator("> details > summary")
    row.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".json-place")).to_contain_text('.rows[7]["a/b"]')
    page.keyboard.press("ArrowRight")
    expect(page.locator("#raw li[data-pointer$='/rows/7/a~1b/n']")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#raw li[data-pointer$='/rows/7/a~1b/n']")).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    expect(row).to_be_focused()
