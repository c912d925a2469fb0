"""The inspector in a real browser: the tree and copying."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

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


def test_a_picked_value_its_path_and_the_whole_event_are_copied(open_page, session_story):
    page = open_page(session_story, "?seq=1&tab=raw&open=all")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    place = page.locator(".json-place")
    expect(place).to_be_hidden()
    page.locator("#raw li[data-pointer$='/rows/7/city']").click()
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
    page = open_page(session_story, "?seq=1&tab=raw&open=all")
    row = page.locator("#raw li[data-pointer$='/rows/7'] > details > summary")
    row.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".json-place")).to_contain_text('.rows[7]["a/b"]')
    inner = page.locator("#raw li[data-pointer$='/rows/7/a~1b/n']")
    page.keyboard.press("ArrowLeft")
    expect(inner).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(inner).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(row).to_be_focused()


def test_overview_counts_an_event_that_the_state_board_saw_first(open_page, session_story):
    page = open_page(session_story)
    boards: list[Route] = []

    def write_between(route: Route) -> None:
        """Let the overview be read before an event is written, and the board after it."""
        target = route.request.headers.get("hx-target")
        if target == "board" and not boards:
            boards.append(route)
        elif target == "inspection" and boards and session_story.told == 5:
            overview = route.fetch()
            session_story.says("And boots.")
            boards[0].continue_()
            route.fulfill(response=overview)
        else:
            route.continue_()

    page.route("**/sessions/**", write_between)
    session_story.says("Take an umbrella, too.")
    expect(page.locator("#inspection dt:text-is('events') + dd")).to_have_text("6")


def test_overview_counts_events_as_they_come(open_page, story):
    page = open_page(story)
    count = page.locator("#inspection dt:text-is('events') + dd")
    expect(count).to_have_text("0")

    def hold_overviews(route: Route) -> None:
        """Let no overview be loaded."""
        if route.request.headers.get("hx-target") != "inspection":
            route.continue_()

    page.route("**/sessions/**", hold_overviews)
    story.says("Weather?", author="user")
    expect(count).to_have_text("1")
    story.says("It is sunny.")
    expect(count).to_have_text("2")
