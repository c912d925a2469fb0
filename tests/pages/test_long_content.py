"""Long content: nothing is clipped, squeezed to one word per line, or wider than a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from sessions_app.agents import cards
from sessions_app.store.models import Trace
from tests.browser import OpenWindow
from tests.pages.run_rows import create_run
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]

WIDE = "document.documentElement.scrollWidth - innerWidth"
LONG = "a_name_that_nobody_should_have_chosen_but_somebody_did_" * 2
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    return open_window(server).new_page()


def tops(locator: Locator) -> set[float]:
    """Return where elements begin, from above."""
    return {round(each.bounding_box()["y"]) for each in locator.all()}


def test_on_a_desk_no_column_of_the_runs_is_out_of_sight(page: Page):
    story = Story("s1", user="u" * 60)
    story.asks("A question that goes on and on. " * 10)
    failed = create_run(story, status="failed", error_type="ValueError", error="It went wrong. " * 30)
    page.set_viewport_size(DESK)
    page.goto("/runs/")
    expect(page.locator(f"#run-{failed.pk}").get_by_role("button", name="Run again")).to_be_in_viewport(
        ratio=1
    )
    inside = page.locator(".table-wrap").evaluate("box => box.scrollWidth - box.clientWidth")
    assert inside <= 0


def test_on_a_desk_no_column_of_a_run_without_row_of_its_own_is_out_of_sight(page: Page):
    story = Story("s1", user="u" * 60)
    story.asks("A question that goes on and on. " * 10)
    Trace.objects.create(session=story.session, invocation_id="i1", own_status="failed", started_at=1.0)
    page.set_viewport_size(DESK)
    page.goto("/runs/")
    expect(page.locator("#runs tbody tr td").last).to_be_in_viewport(ratio=1)
    inside = page.locator(".table-wrap").evaluate("box => box.scrollWidth - box.clientWidth")
    assert inside <= 0


SHIFTS = """() => {
    globalThis.shifted = 0;
    const add = (list) => list.getEntries().forEach((each) => { globalThis.shifted += each.value; });
    new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
}"""


@pytest.mark.parametrize("path", ["/runs/", "/sessions/"])
def test_list_does_not_move_when_times_become_local(page: Page, path: str):
    for number in range(20):
        story = Story(f"s{number}")
        story.asks(f"A question that goes on and on, the {number}th of them")
        create_run(story, status="done", started_at=10.0, finished_at=11.5)
        Trace.objects.create(session=story.session, invocation_id="i1", root_agent="weather", started_at=1.0)
    page.add_init_script(f"({SHIFTS})()")
    page.set_viewport_size(DESK)
    page.goto(path)
    expect(page.locator("main time[title]").first).to_be_visible()
    assert page.evaluate("shifted") < 0.05


@pytest.mark.usefixtures("weather_can_run")
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_run_error_has_full_width(page: Page, size: dict[str, int]):
    story = Story("s1")
    create_run(
        story,
        status="failed",
        error_type="ValueError",
        error="The key is not a number. " * 20,
        traceback="File x, line 1\n" * 80,
        finished_at=101.0,
    )
    page.set_viewport_size(size)
    page.goto(f"/sessions/id/{story.pk}/")
    expect(page.locator("[data-live=live]")).to_be_visible()
    row = page.locator("#runs .run-ended")
    expect(row).to_contain_text("ValueError")
    expect(row).not_to_contain_text("The key is not a number"), "the timeline says it"
    assert row.evaluate("row => row.offsetHeight") < 60
    expect(page.locator("#message")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_event_tabs_fit_two_lines_and_scopes_one(page: Page, size: dict[str, int]):
    story = Story("s1")
    story.says("Hello.", delta={"a": 1, "b": 2})
    page.set_viewport_size(size)
    page.goto(f"/sessions/id/{story.pk}/?seq=1")
    for tabs, lines in ((".inspector > .radio-tabs label", 2), (".board > .radio-tabs label", 1)):
        expect(page.locator(tabs).first).to_be_visible()
        assert len(tops(page.locator(tabs))) <= lines


def test_long_key_stays_beside_its_marker(page: Page):
    story = Story("s1")
    story.says("Hello.", delta={LONG: 1})
    page.set_viewport_size(DESK)
    page.goto(f"/sessions/id/{story.pk}/")
    entry = page.locator(f'.entry[data-key="{LONG}"]')
    key, mark = entry.locator(".change-key").bounding_box(), entry.locator(".scope").bounding_box()
    assert mark["y"] < key["y"] + key["height"]
    assert key["y"] < mark["y"] + mark["height"]


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_an_agent_of_a_long_name_widens_no_page(page: Page, size: dict[str, int]):
    cards.save_loaded(LONG, "v1", {"name": LONG, "type": "LlmAgent"})
    Story("s1", app=LONG).asks("one")
    page.set_viewport_size(size)
    for path in ("/", f"/agents/{LONG}/", "/sessions/", "/runs/"):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(LONG[:20])
        assert page.evaluate(WIDE) <= 0, path


def test_everything_shows_figures_beside_short_answers_and_above_long_ones(page: Page):
    story = Story("s1")
    story.says("Short.", usageMetadata={"totalTokenCount": 1234})
    story.says("An answer that goes on and on. " * 5, usageMetadata={"totalTokenCount": 1234})
    page.set_viewport_size(DESK)
    page.goto("/sessions/weather/ann/s1/")
    short, long = (page.locator(f"[data-seq='{seq}']") for seq in (1, 2))
    page.get_by_role("button", name="Everything").click()
    expect(long.locator(".event-meta")).to_have_css("opacity", "1")
    room = page.locator("#column-timeline").bounding_box()["width"]
    assert long.locator(".event-body").bounding_box()["width"] > room / 2
    body, times = (long.locator(f".event-{part}").bounding_box() for part in ("body", "meta"))
    assert body["y"] >= times["y"] + times["height"] - 4
    assert short.locator(".event-body").bounding_box()["width"] < room / 2
