"""The state board in a real browser: steps through time, scopes side by side, watched keys, hints."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, Request, Route, expect

from sessions_app.problems import session_checks
from sessions_app.search import indexing as search_indexing
from sessions_app.store.models import SessionState
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]

KEEP = "element => { element.isKept = true; }"
IS_KEPT = "element => Boolean(element.isKept)"


def entry(page: Page, name: str):
    return page.locator(f'#board .columns .entry[data-key="{name}"]')


def watched_key(page: Page, name: str):
    return page.locator(f'#watched [data-name="{name}"]')


def title(page: Page):
    return page.locator("#board-title")


def watch(page: Page, name: str) -> None:
    entry(page, name).get_by_role("button", name=f"Watch {name}").click()
    expect(watched_key(page, name)).to_be_visible()


@pytest.fixture
def session_story(story: Story) -> Story:
    story.says("a", delta={"tree": {"deep": [1]}, "n": 1, "user:tier": "free", "app:motd": "hi"})
    for number in range(2, 41):
        story.says(f"event {number}", delta={"n": number})
    return story


def test_step_updates_only_changed_keys(open_page, session_story):
    page = open_page(session_story, "?seq=20")
    entry(page, "tree").locator("summary").first.click()
    expect(entry(page, "tree")).to_contain_text("deep")
    entry(page, "tree").evaluate(KEEP)
    entry(page, "n").evaluate(KEEP)
    entry(page, "n").get_by_role("link", name="History of n").focus()
    page.keyboard.press("[")
    expect(title(page)).to_have_text("State at event 19")
    expect(entry(page, "n").locator("> code")).to_have_text("19")
    assert entry(page, "tree").evaluate(IS_KEPT)
    assert not entry(page, "n").evaluate(IS_KEPT)
    expect(entry(page, "tree").locator("details").first).to_have_attribute("open", "")
    expect(entry(page, "n").get_by_role("link", name="History of n")).to_be_focused()
    expect(page.locator("#inspector-title")).to_contain_text("event 19")
    expect(page.locator("#time-announcer")).to_have_text("State at event 19, which wrote n")


def test_a_key_held_down_asks_for_no_more_than_is_shown(open_page, session_story):
    page = open_page(session_story, "?seq=40")
    requests: list[str] = []

    def hear(request: Request) -> None:
        if request.headers.get("hx-target") == "board":
            query = dict(parse_qsl(urlsplit(request.url).query))
            requests.append(query.get("seq") or query["event"].removeprefix("e"))

    page.on("request", hear)
    page.evaluate(
        """() => { for (let step = 0; step < 30; step += 1) {
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: ",", bubbles: true, cancelable: true }));
        } }"""
    )
    expect(title(page)).to_have_text("State at event 10")
    expect(entry(page, "n").locator("> code")).to_have_text("10")
    page.wait_for_url(re.compile("=e?10$"))
    assert requests[:2] == ["39", "10"]  # the first step, and the last that was wished for meanwhile
    assert set(requests[2:]) <= {"9", "8"}  # the next ones may be prepared
    page.go_back()
    expect(title(page)).to_have_text("State at event 40")


def test_dragged_slider_requests_one_event_at_a_time(open_page, session_story):
    page = open_page(session_story, "?seq=40")
    inspection = page.locator("#inspection")
    pending_routes: list[Route] = []
    page.route(
        re.compile("/sessions/"),
        lambda route: (
            pending_routes.append(route)
            if route.request.headers.get("hx-target") == "inspection"
            else route.continue_()
        ),
    )
    slider = page.get_by_role("slider", name="Event")
    for seq in (30, 20, 10):
        slider.fill(str(seq))
        page.wait_for_url(re.compile(f"=e?{seq}$"))
        expect(title(page)).to_have_text(f"State at event {seq}")
        expect(inspection).to_have_attribute("aria-busy", "true")
        expect(page.locator("#time-announcer")).to_contain_text(f"State at event {seq}")
    assert len(pending_routes) == 1
    with page.expect_request(lambda request: request.headers.get("hx-target") == "inspection"):
        pending_routes[0].continue_()
    expect(page.locator("#inspector-title")).to_contain_text("event 30")
    pending_routes[1].continue_()
    expect(page.locator("#inspector-title")).to_contain_text("event 10")
    expect(inspection).not_to_have_attribute("aria-busy", "true")
    assert len(pending_routes) == 2


def test_pinned_point_in_time_is_compared_by_the_slider(open_page, session_story):
    page = open_page(session_story, "?seq=10")
    page.keyboard.press("d")
    expect(title(page)).to_have_text("Event 10 → event 10")
    slider = page.get_by_role("slider", name="Event")
    slider.fill("30")
    expect(title(page)).to_have_text("Event 10 → event 30")
    expect(page.locator('.entry[data-key="n"]')).to_contain_text("10 → 30")
    expect(slider).to_have_attribute("aria-valuetext", "event 30 of 40")
    expect(page.locator("[data-base]")).to_be_visible()
    page.get_by_role("button", name="Compare other points in time with this one").click()
    expect(title(page)).to_have_text("State at event 30")


def test_watched_keys_are_pinned_in_all_sessions_and_show_changes(open_page, session_story):
    page = open_page(session_story)
    watch(page, "user:tier")
    other = Story("s2")
    other.says("x", delta={"own": 1})
    page.goto(f"/sessions/id/{other.pk}/")
    expect(watched_key(page, "user:tier")).to_contain_text('"free"')
    other.says("y", delta={"user:tier": "gold"})
    expect(watched_key(page, "user:tier")).to_contain_text('"gold"')
    expect(watched_key(page, "user:tier")).to_have_class(re.compile("is-fresh"))
    expect(page.locator("#watch-announcer")).to_have_text('user:tier is now "gold"')
    page.keyboard.press("[")
    page.keyboard.press("[")
    expect(watched_key(page, "user:tier")).to_contain_text('"free"')
    expect(page.locator("#watch-announcer")).to_have_text('user:tier is now "gold"')
    watched_key(page, "user:tier").get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#watched")).to_be_hidden()


def test_watched_key_beyond_the_shown_ones_is_loaded(open_page, story):
    story.says("a", delta={f"k{number:03}": number for number in range(90)})
    story.says("b")
    page = open_page(story)
    expect(entry(page, "k088")).to_have_count(0)
    page.evaluate("""() => localStorage.setItem("devui.watched.weather", '["k088", "gone"]')""")
    page.reload()
    expect(watched_key(page, "k088").locator("code")).to_have_text("88")
    expect(watched_key(page, "gone")).to_contain_text("no value")


def test_scopes_are_side_by_side_on_wide_screens(open_page, session_story):
    page = open_page(session_story, "?seq=5")
    columns = page.locator(".scope-column")
    assert len({box["x"] for box in (columns.nth(at).bounding_box() for at in range(4)) if box}) == 1
    page.keyboard.press("b")
    expect(page.locator("#column-timeline")).to_be_hidden()
    boxes = [columns.nth(at).bounding_box() for at in range(4)]
    assert len({box["x"] for box in boxes if box}) == 4
    assert len({box["y"] for box in boxes if box}) == 1
    bar = page.get_by_role("navigation", name="Time travel")
    expect(bar.locator("strong")).to_have_text(page.locator("#session-name").text_content() or "")
    bar.get_by_role("button", name="Back to timeline").click()
    expect(page.locator("#column-timeline")).to_be_visible()
    expect(bar.get_by_role("button", name="Back to timeline")).to_be_hidden()


def test_wide_board_ends_when_one_leaves_the_session(open_page, session_story):
    page = open_page(session_story)
    page.get_by_role("button", name="Wide board").click()
    expect(page.locator("#column-timeline")).to_be_hidden()
    page.reload()
    expect(page.locator("#column-timeline")).to_be_visible()
    expect(page.get_by_role("button", name="Wide board")).to_have_attribute("aria-pressed", "false")


def test_hints_and_drift_show_at_their_keys_and_hide_by_kind(open_page, story):
    seeded = Story("s2", {"seed": 1})
    seeded.says("a", delta={"tmp_rows": [1], "changed": 1})
    SessionState.objects.filter(key="changed").update(value="2")
    search_indexing.index_all()
    session_checks.check_all()
    page = open_page(seeded)
    hint = entry(page, "tmp_rows").locator(".hint")
    expect(hint).to_contain_text("May be intermediate data")
    expect(entry(page, "changed").locator(".hint")).to_contain_text("drift: changed by something else")
    expect(entry(page, "seed").locator(".hint")).to_have_count(0)
    expect(page.get_by_role("link", name="1 hint at the state")).to_be_visible()
    page.keyboard.press("[")
    expect(hint).to_have_count(0)
    page.keyboard.press("Escape")
    hint.locator("summary").click()
    hint.get_by_role("button", name="Hide hints of this kind").click()
    expect(hint).to_have_count(0)
    page.get_by_role("link", name="No hints at the state").click()
    dialog = page.locator("#dialog[open]")
    dialog.get_by_role("button", name="Show beside keys again").click()
    dialog.get_by_role("link", name="Close").click()
    expect(hint).to_have_count(1)


def test_the_board_follows_now_and_stays_at_a_past_event(open_page, session_story):
    page, reader = open_page(session_story), open_page(session_story, "?seq=3")
    entry(page, "tree").evaluate(KEEP)
    session_story.says("more", delta={"n": 41, "new": 1})
    expect(entry(page, "n")).to_contain_text("41")
    expect(entry(page, "n")).to_have_class(re.compile("is-fresh"))
    expect(entry(page, "new")).to_be_visible()
    assert entry(page, "tree").evaluate(IS_KEPT)
    expect(entry(reader, "n").locator(".since")).to_contain_text("41")
    expect(title(reader)).to_have_text("State at event 3")
    expect(entry(reader, "n").locator("> code")).to_have_text("3")


def test_a_key_leads_to_its_field_in_every_layout(open_page, session_story):
    page = open_page(session_story)
    page.keyboard.press("b")
    expect(page.locator("#column-timeline")).to_be_hidden()
    page.keyboard.press("f")
    expect(page.locator("#session-search input[name=q]")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("#session-search input[name=q]").blur()
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator(".session-views").get_by_text("State").click()
    expect(page.locator("#column-timeline")).to_be_hidden()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("f")
    expect(page.locator("#session-search input[name=q]")).to_be_focused()


def test_key_beyond_the_shown_ones_is_found_by_name(open_page, story):
    story.says("a", delta={f"k{number:03}": number for number in range(90)})
    story.says("b", delta={"k000": 1})
    story.says("c")
    page = open_page(story, "?seq=2")
    box = page.get_by_role("searchbox", name="Keys whose names have in them")
    box.fill("K08")
    expect(page.locator("#board .columns .entry:visible")).to_have_count(10)
    expect(box).to_be_focused()
    page.wait_for_url(re.compile("key=K08"))
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("]")
    expect(title(page)).to_have_text("State at event 3")
    expect(page.locator("#board .columns .entry:visible")).to_have_count(10)
    page.reload()
    expect(page.locator("#board .columns .entry:visible")).to_have_count(10)
    box.fill("")
    expect(entry(page, "k001")).to_be_visible()
    expect(page.locator("#board .columns .entry:visible")).to_have_count(30)


def test_many_keys_are_paged_and_back_shows_the_previous_page(open_page, story):
    story.says("a", delta={f"k{number:03}": number for number in range(100)})
    story.says("b", delta={"other": 1})
    page = open_page(story, "?seq=2")
    page.get_by_role("link", name="Next session keys").click()
    expect(page.locator("#board .entry[data-key=k030]")).to_be_in_viewport()
    expect(page.locator("#board .entry[data-key=k000]")).to_have_count(0)
    page.keyboard.press("[")
    expect(page.locator("#board-title")).to_have_text("State at event 1")
    expect(page.locator("#board .entry[data-key=k030]")).to_be_visible()
    page.go_back()
    page.go_back()
    expect(page.locator("#board .entry[data-key=k000]")).to_be_visible()
    expect(page.locator("#board .entry[data-key=k040]")).to_have_count(0)


def test_difference_starts_at_its_first_key(open_page, story):
    story.says("a", delta={f"k{number:03}": number for number in range(100)})
    story.says("b", delta={"k001": "other"})
    page = open_page(story, "?seq=1&begin=k060")
    page.keyboard.press("d")
    page.keyboard.press("]")
    expect(page.locator("#board .entry[data-key=k001]")).to_be_visible()


def test_a_long_value_without_spaces_begins_beside_the_mark_that_opens_it(open_page, story):
    story.says("one", delta={"long": "y" * 5_000})
    page = open_page(story)
    summary = entry(page, "long").locator(".entry-value summary").first
    below = summary.evaluate(
        "e => { const text = document.createRange(); text.selectNodeContents(e);"
        " return text.getClientRects()[0].top - e.getBoundingClientRect().top }"
    )
    assert below < 6
