"""Content wider than the window: agent drawings, breadcrumbs, rows of forks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from sessions_app.agents import cards, folder
from sessions_app.branches.fork import NewFork, fork
from tests.browser import OpenWindow
from tests.pages.workflows import describe_workflow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]

SIZES = {1280: {"width": 1280, "height": 844}, 390: {"width": 390, "height": 844}}
STEPS = ["__START__", *"abcdefg"]


@pytest.fixture
def drawn(agents_dir: Path, store: None) -> None:
    """An agent whose workflow is eight boxes wide and more."""
    version = folder.open_folder(agents_dir).code_version("weather")
    cards.save_loaded("weather", version, describe_workflow(*pairwise(STEPS)))


def window(open_window: OpenWindow, server: str, width: int) -> Page:
    return open_window(server, viewport=SIZES[width]).new_page()


def last_box(page: Page) -> Locator:
    return page.locator(".agent-drawing .box", has_text="g").last


@pytest.mark.usefixtures("drawn")
def test_wide_workflow_is_drawn_whole_at_1280(open_window: OpenWindow, server: str):
    page = window(open_window, server, 1280)
    page.goto("/agents/weather/")
    for box in page.locator(".agent-drawing .box").all():
        expect(box).to_be_in_viewport(ratio=1)


@pytest.mark.usefixtures("drawn")
def test_wide_workflow_is_fitted_enlarged_and_dragged_at_390(open_window: OpenWindow, server: str):
    page = window(open_window, server, 390)
    page.goto("/agents/weather/")
    pane = page.locator(".drawing-pane")
    expect(page.locator(".agent-drawing .box").nth(3)).to_be_in_viewport(ratio=1)
    expect(last_box(page)).not_to_be_in_viewport()

    page.get_by_role("button", name="Show the whole drawing").click()
    expect(last_box(page)).to_be_in_viewport(ratio=1)

    for _ in range(6):
        page.get_by_role("button", name="Larger").click()
    pane.evaluate("pane => { pane.scrollLeft = 0; }")
    expect(last_box(page)).not_to_be_in_viewport()
    box = pane.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    for _ in range(8):
        page.mouse.move(box["x"] + box["width"] - 20, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 20, middle, steps=4)
        page.mouse.up()
    expect(last_box(page)).to_be_in_viewport(ratio=0.9)
    assert "#" not in page.url, "what is dragged is not followed"

    last_box(page).click()
    assert "#" in page.url


def test_small_drawing_has_no_buttons(open_window: OpenWindow, server: str, agents_dir: Path):
    version = folder.open_folder(agents_dir).code_version("weather")
    cards.save_loaded("weather", version, {"name": "alone", "type": "LlmAgent"})
    page = window(open_window, server, 1280)
    page.goto("/agents/weather/")
    expect(page.locator(".agent-drawing .box")).to_be_visible()
    expect(page.get_by_role("button", name="Show the whole drawing")).to_be_hidden()


@pytest.mark.parametrize("width", [320, 390, 600, 820, 1050, 1070])
def test_all_places_are_seen_on_a_narrow_screen(open_window: OpenWindow, server: str, width: int):
    page = open_window(server, viewport={"width": width, "height": 844}).new_page()
    page.goto("/sessions/")
    places = page.locator(".places a").all()
    assert len(places) == 6
    for place in places:
        expect(place).to_be_in_viewport(ratio=1)
        box = place.bounding_box()
        assert box
        assert min(box["width"], box["height"]) >= 24, "as large as a finger needs at least"
    page.get_by_role("link", name="Evals", exact=True).click()
    expect(page).to_have_url(f"{server}/evals/")


@pytest.mark.parametrize("width", [1280, 390])
def test_fork_is_one_line_in_its_original_session(open_window: OpenWindow, server: str, width: int):
    story = Story("s1")
    for number in range(23):
        story.says(f"event {number}")
    fork(story.pk, NewFork(seq=23, title="What if " + "it had been another way " * 5))
    page = window(open_window, server, width)
    page.goto("/sessions/weather/ann/s1/")
    if width == 390:
        page.get_by_text("State", exact=True).last.click()
    row = page.locator(".relatives li")
    for part in (row, row.locator(".icon").first, row.get_by_text("at event 23")):
        expect(part).to_be_visible()
    # measured in one call: a live update may replace the row between two
    place, icon, link = row.evaluate(
        """row => {
            const link = [...row.querySelectorAll("*")].findLast(part => part.textContent.includes("at event 23"));
            return [row, row.querySelector(".icon"), link].map(part => part.getBoundingClientRect().toJSON());
        }"""
    )
    assert place["height"] < 40
    assert link["height"] < 24
    assert abs((icon["y"] + icon["height"] / 2) - (link["y"] + link["height"] / 2)) < 4
    expect(row.get_by_role("link", name="Compare")).to_be_in_viewport(ratio=1)
