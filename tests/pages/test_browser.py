"""Pages in a real browser: keys, dialogs, themes, times, live lists."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from sessions_app.runs import lifecycle as runs
from sessions_app.search import indexing
from sessions_app.search.execution import scans
from sessions_app.sessions import deletion
from sessions_app.store.database.pagination import PAGE_SIZE
from sessions_app.store.models import MemoryEntry, Run
from sessions_app.store.sessions import writes
from tests.browser import OpenWindow, await_end
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab, in Tokyo."""
    return open_window(server, timezone_id="Asia/Tokyo", locale="en-GB", color_scheme="light").new_page()


def compose(page: Page, key: str) -> None:
    """Press a key as an input method does that is composing."""
    page.evaluate(
        "key => document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', {key, isComposing: true, bubbles: true}))",
        key,
    )


def press_in_turn(page: Page, *keys: str) -> bool:
    """Press keys without a pause, however slow the machine is; tell whether the last is left to the browser."""
    return page.evaluate(
        "keys => keys.map(name => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {"
        "key: name.replace('Control+', ''), ctrlKey: name.startsWith('Control+'), bubbles: true, cancelable: true"
        "}))).at(-1)",
        keys,
    )


@pytest.mark.parametrize(
    ("key", "address"), [("s", "/sessions/"), ("t", "/state/"), ("r", "/runs/"), ("a", "/")]
)
def test_g_and_a_letter_lead_to_a_place(page: Page, key: str, address: str):
    page.goto("/state/" if address == "/" else "/")
    assert not press_in_turn(page, "g", key)
    page.wait_for_url(address)


def test_selected_app_is_kept_across_pages(page: Page):
    page.goto("/sessions/?app=weather")
    press_in_turn(page, "g", "r")
    page.wait_for_url("**/runs/?app=weather")


def test_slash_focuses_search_without_typing(page: Page):
    page.goto("/sessions/")
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    expect(page.locator("[data-search]")).to_have_value("")
    page.keyboard.type("g/s?")
    expect(page.locator("[data-search]")).to_have_value("g/s?")
    expect(page.locator("#help")).to_be_hidden()


def test_no_key_fires_while_an_input_method_composes(page: Page):
    page.goto("/sessions/")
    for key in ("g", "r", "?", "/"):
        compose(page, key)
    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator("[data-search]")).not_to_be_focused()
    assert page.url.endswith("/sessions/")


def test_keys_with_ctrl_belong_to_the_browser(page: Page):
    page.goto("/sessions/")
    assert press_in_turn(page, "g", "Control+r")


def test_a_question_mark_lists_the_keys(page: Page):
    page.goto("/")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    expect(page.locator("#help dd", has_text="Sessions")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_stored_theme_applies_before_first_paint(page: Page):
    page.goto("/")
    page.get_by_role("button", name=re.compile("Theme: as the system")).click()
    page.get_by_role("button", name=re.compile("Theme: light")).click()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
    page.route("**/app.js", lambda route: route.abort())
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_times_are_in_the_zone_of_the_reader_and_exact_on_hover(page: Page):
    writes.create_session(writes.SessionKey("", "weather", "ann", "s1"), now=1_577_804_400.25)
    page.goto("/sessions/")
    time = page.locator("tbody time")
    expect(time).to_have_text("1 Jan 2020")
    expect(time).to_have_attribute("title", re.compile(r"01/01/2020, 00:00:00[.,]250.*GMT\+9"))


def test_new_session_is_created_in_a_dialog(page: Page):
    page.goto("/sessions/")
    page.get_by_role("link", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    dialog.get_by_label("App").fill("weather")
    dialog.get_by_label("Session id").fill("a/b %")
    dialog.get_by_role("button", name="Create session").click()
    page.wait_for_url("**/sessions/weather/user/a%2Fb%20%25/")


def test_a_dialog_closes_by_escape_and_gives_the_focus_back(page: Page):
    page.goto("/sessions/")
    opener = page.get_by_role("link", name="New session").first
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    expect(opener).to_be_focused()


def test_a_closed_dialog_focuses_the_link_that_replaced_its_opener(page: Page):
    page.goto("/sessions/")
    opener = page.get_by_role("link", name="New session").first
    opener.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.locator("main a[href^='/sessions/new/']").first.evaluate(
        "link => link.replaceWith(link.cloneNode(true))"
    )
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    expect(opener).to_be_focused()


def test_a_session_is_deleted_at_once_and_comes_back_by_undo(page: Page):
    Story("s1").asks("one")
    Story("s2").asks("two")
    page.goto("/sessions/?app=weather")
    page.get_by_role("button", name="Delete one").click()
    toast = page.locator(".toast")
    expect(toast).to_contain_text("Deleted 1 session")
    expect(page.locator(".session-table tbody tr")).to_have_count(1)
    toast.get_by_role("button", name="Undo").click()
    expect(page.locator(".session-table tbody tr")).to_have_count(2)
    expect(toast).to_have_count(0)
    assert page.url.endswith("/sessions/?app=weather")


def test_search_results_are_exported_without_leaving_the_page(page: Page):
    for name, text in (("s1", "tea"), ("s2", "tea too"), ("s3", "coffee")):
        Story(name).asks(text)
    page.goto("/sessions/?q=tea")
    page.get_by_role("checkbox", name="Tick all").check()
    for _ in range(2):
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        records = map(json.loads, download.value.path().read_text().splitlines())
        assert {record["session"] for record in records if record["kind"] == "session"} == {"s1", "s2"}
    assert page.url.endswith("/sessions/?q=tea")


def test_refused_export_is_reported_on_the_list(page: Page):
    story = Story("s1")
    story.asks("tea")
    page.route("**/sessions/changes/**", lambda route: route.fulfill(status=204))
    page.goto("/sessions/?q=tea")
    page.get_by_role("checkbox", name="Tick all").check()
    deletion.delete([story.pk])
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_role("alert")).to_contain_text("None of these sessions can be exported")
    expect(page.locator(".session-table tbody tr")).to_have_count(1)
    assert page.url.endswith("/sessions/?q=tea")


def test_notice_of_search_backlog_is_gone_after_indexing(page: Page):
    number_of_sessions = scans.MAX_SESSIONS + 1
    for number in range(number_of_sessions):
        Story(f"s{number}").asks("tea")
    page.goto("/sessions/")
    notice = page.locator("#sessions .notice")
    expect(notice).to_contain_text(f"{number_of_sessions} sessions")
    indexing.index_all()
    page.reload()
    expect(notice).to_have_count(0)
    expect(page.locator(".session-table tbody tr")).to_have_count(PAGE_SIZE)


def test_deletion_can_be_undone_after_reload(page: Page):
    Story("s1").asks("one")
    page.goto("/sessions/")
    page.get_by_role("button", name="Delete one").click()
    expect(page.locator(".session-table tbody tr")).to_have_count(0)
    page.reload()
    page.get_by_text("Recently deleted").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".session-table tbody tr")).to_have_count(1)
    expect(page.get_by_text("Recently deleted")).to_have_count(0)


def test_deletion_can_be_undone_in_another_window(open_window: OpenWindow, server: str):
    Story("s1").asks("one")
    Story("s2").asks("two")
    window = open_window(server, color_scheme="light")
    here, there = window.new_page(), window.new_page()
    for page in (here, there):
        page.goto("/sessions/")
    here.get_by_role("button", name="Delete one").click()
    expect(there.locator(".session-table tbody tr")).to_have_count(1)
    there.get_by_text("Recently deleted").click()
    there.locator("#deleted").get_by_role("button", name="Undo").click()
    expect(there.locator(".session-table tbody tr")).to_have_count(2)
    here.locator(".toast").get_by_role("button", name="Undo").click()
    expect(here.get_by_role("alert")).to_contain_text("was undone already")


def test_rows_are_ticked_tagged_pinned_and_renamed_by_keys_alone(page: Page):
    for n in range(4):
        writes.create_session(
            writes.SessionKey("", "weather", "ann", f"s{n}"), title=f"question {n}", now=100.0 - n
        )
    page.goto("/sessions/")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("X")
    expect(page.locator("[data-selected-count]")).to_have_text("3 selected")
    page.keyboard.press("t")
    page.keyboard.type("Looked at")
    page.keyboard.press("Enter")
    expect(page.locator("tbody .tag")).to_have_text(["looked at"] * 3)
    expect(page.locator("[data-selected-count]")).to_have_text("3 selected")
    expect(page.locator(".row-link:focus")).to_have_text("question 2")
    page.keyboard.press("t")
    page.keyboard.type("never sent")
    page.keyboard.press("Escape")
    expect(page.locator("#session-actions")).to_be_hidden()
    expect(page.locator(".row-link:focus")).to_have_text("question 2")
    page.keyboard.press("k")
    page.keyboard.press("p")
    expect(page.locator("tbody tr").nth(1).locator(".pin")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("e")
    page.get_by_role("dialog").get_by_label("Title").fill("Another name")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr").nth(1).locator(".row-link")).to_have_text("Another name")
    expect(page.locator("#dialog")).to_be_hidden()
    expect(page.locator(".row-link:focus")).to_have_text("Another name")
    page.keyboard.press("#")
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator(".row-link:focus")).to_have_text("question 2")


def test_filters_are_in_the_address_and_back_works(page: Page):
    Story("s1").asks("tea")
    Story("s2").asks("東京の天気は？")
    page.goto("/sessions/")
    page.locator("[data-search]").fill("東京")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**/sessions/?q=%E6%9D%B1%E4%BA%AC")
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("[data-search]")).to_have_value("")


def test_open_list_stays_current_without_moving(page: Page):
    first = Story("s1")
    first.asks("Hello")
    page.goto("/sessions/")
    top = page.locator("tbody tr").first.bounding_box()
    first.says("Good day")
    expect(page.locator("tbody .session-last")).to_have_text("Good day")
    writes.create_session(writes.SessionKey("", "weather", "ben", "s2"), title="New here")
    expect(page.get_by_role("link", name="1 new or changed")).to_be_visible()
    assert page.locator("tbody tr").count() == 1
    assert page.locator("tbody tr").first.bounding_box() == top
    page.get_by_role("link", name="1 new or changed").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_an_error_stays_until_it_is_closed(page: Page):
    story = Story("s1")
    page.route("**/sessions/changes/**", lambda route: route.fulfill(status=204))
    page.goto("/sessions/")
    writes.delete_session(story.key)
    page.get_by_role("link", name="Rename s1").click()
    toast = page.get_by_role("alert")
    expect(toast).to_contain_text("Session not found")
    expect(toast).to_contain_text("may have been deleted")
    toast.get_by_role("button", name="Close message").click()
    expect(toast).to_have_count(0)


def test_lost_server_is_reported_once_on_the_list(page: Page):
    Story("s1")
    page.goto("/sessions/")
    page.route("**/sessions/changes/***", lambda route: route.abort())
    expect(page.locator("#watch")).to_have_class(re.compile("is-cut-off"))
    assert page.get_by_role("alert").count() == 0
    page.unroute("**/sessions/changes/***")
    expect(page.locator("#watch")).not_to_have_class(re.compile("is-cut-off"))


def test_a_branch_of_a_value_is_fetched_when_it_is_opened(page: Page):
    Story(initial={"app:list": [{"n": n} for n in range(150)]})
    page.goto("/state/?app=weather")
    tree = page.locator(".value-cell .json")
    tree.locator("summary").click()
    expect(tree.locator("details > ul > li")).to_have_count(101)
    tree.get_by_role("button", name="50 more").click()
    expect(tree.locator("details").first.locator("> ul > li")).to_have_count(150)
    tree.locator("details details summary").first.click()
    expect(tree.locator("details details li").first).to_have_text("n0")


def test_the_app_menu_opens_and_closes_by_escape(page: Page):
    page.goto("/state/")
    summary = page.locator(".app-switcher summary")
    summary.click()
    expect(page.get_by_role("link", name="writer")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="writer")).to_be_hidden()
    expect(summary).to_be_focused()
    summary.click()
    page.get_by_role("link", name="writer").click()
    page.wait_for_url("**/state/?app=writer")


def test_the_skip_link_leads_past_the_header(page: Page):
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip-link")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


@pytest.mark.parametrize(
    "address", ["/", "/sessions/", "/state/?app=weather&user=ann", "/runs/", "/agents/weather/"]
)
def test_no_page_is_wider_than_its_window(page: Page, address: str):
    long = "x" * 300
    story = Story(long, {f"app:{long}": long, f"user:{long}": [long]})
    story.asks(long)
    runs.create_run(story.pk, {})
    page.goto(address)
    for width in (320, 420, 799, 801, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cut = "[...document.querySelectorAll('.table-wrap')].filter(e => e.scrollWidth > e.clientWidth)"
        assert width > 800 or page.evaluate(f"{cut}.length") == 0


def test_everything_works_without_scripts(open_window: OpenWindow, server: str):
    Story("s1").asks("tea")
    tab = open_window(server, java_script_enabled=False).new_page()
    tab.goto("/sessions/")
    tab.get_by_role("link", name="New session").first.click()
    tab.get_by_label("App", exact=True).fill("weather")
    tab.get_by_label("User", exact=True).fill("ann")
    tab.get_by_label("Session id").fill("s1")
    tab.get_by_role("button", name="Create session").click()
    expect(tab.get_by_text("Session already exists: s1")).to_be_visible()
    tab.goto("/sessions/")
    tab.get_by_role("link", name="Rename tea").click()
    tab.get_by_label("Title").fill("Green tea")
    tab.get_by_role("button", name="Rename").click()
    tab.get_by_role("button", name="Pin Green tea").click()
    tab.get_by_label("Select Green tea").check()
    tab.get_by_role("combobox", name="Tag", exact=True).fill("drink")
    tab.get_by_role("button", name="Tag", exact=True).click()
    expect(tab.locator("tbody.pinned .tag")).to_have_text("drink")
    tab.get_by_role("button", name="Delete Green tea").click()
    expect(tab.get_by_text("No sessions yet")).to_be_visible()
    tab.get_by_text("Recently deleted").click()
    tab.locator("#deleted").get_by_role("button", name="Undo").click()
    expect(tab.get_by_role("link", name="Green tea", exact=True)).to_be_visible()


def test_j_and_k_walk_through_a_list(page: Page):
    for n in range(3):
        Story(f"s{n}").asks(f"question {n}")
    page.goto("/sessions/")
    focused = page.locator(".row-link:focus")
    for key, text in (("j", "question 2"), ("j", "question 1"), ("k", "question 2"), ("k", "question 2")):
        page.keyboard.press(key)
        expect(focused).to_have_text(text)
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions/weather/ann/s2/")


def test_texts_set_by_scripts_show_invisible_characters(page: Page):
    page.goto("/")
    page.evaluate(
        "async () => (await import('/static/devui/js/core/toasts.js'))"
        ".showError('No session \\u202eevil.\\nAt all', '\\ufeff')"
    )
    toast = page.locator(".toast")
    expect(toast.locator("[data-message]")).to_have_text("No session \\u202eevil. At all")
    expect(toast.locator("[data-hint]")).to_have_text("\\ufeff")


def test_updates_wait_for_the_release_of_a_control_and_keep_their_order(page: Page):
    page.goto("/")
    order = page.evaluate(
        """async () => {
            const { waitForRelease } = await import("/static/devui/js/core/press.js");
            const link = document.querySelector("a");
            const order = [];
            const send = (type) => link.dispatchEvent(new PointerEvent(type, { bubbles: true, button: 0 }));
            send("pointerdown");
            const first = waitForRelease().then(() => order.push("first"));
            await new Promise((resolve) => setTimeout(resolve, 50));
            order.push("still pressed");
            send("pointerup");
            const second = waitForRelease().then(() => order.push("second"));
            order.push("click");
            await Promise.all([first, second]);
            return order;
        }"""
    )
    assert order == ["still pressed", "click", "first", "second"]


def test_run_is_cancelled_whose_row_changes_between_press_and_release(page: Page):
    run = runs.create_run(Story("s1").pk, {})
    page.goto("/runs/")
    button = page.get_by_role("button", name="Cancel")
    button.hover()
    page.mouse.down()
    with page.expect_response(
        lambda answer: "/runs/changes/" in answer.url and answer.status == 200
    ) as change:
        Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING)
    await_end(change.value)
    with page.expect_request(f"**/runs/{run.pk}/cancel/"):
        page.mouse.up()


def test_selected_runs_are_cancelled_together(page: Page):
    for name in ("s1", "s2"):
        runs.create_run(Story(name).pk, {})
    ended = runs.create_run(Story("s3").pk, {})
    Run.objects.filter(pk=ended.pk).update(status=Run.Status.DONE)
    page.goto("/runs/")
    expect(page.locator("td.pick > input")).to_have_count(2)
    bar = page.locator("#run-actions")
    expect(bar).to_be_hidden()
    page.get_by_role("checkbox", name="Tick all").check()
    expect(bar.locator("[data-selected-count]")).to_have_text("2 selected")
    bar.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator("td.pick > input")).to_have_count(0)
    expect(page.locator("#runs").get_by_role("checkbox")).to_have_count(0)


def test_memory_rows_are_ticked_and_forgotten_by_keys(page: Page):
    for number in range(4):
        MemoryEntry.objects.create(
            app_name="weather",
            user_id="ann",
            entry_id=f"e{number}",
            content=json.dumps({"parts": [{"text": f"note {number}"}]}),
            timestamp=100.0 - number,
        )
    page.goto("/memory/")
    for key in ("j", "x", "j", "j", "X"):
        page.keyboard.press(key)
    bar = page.locator("#memory-actions")
    expect(bar.locator("[data-selected-count]")).to_have_text("3 selected")
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    page.keyboard.press("x")
    bar.get_by_role("button", name="Forget").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("note 2")
    dialog.get_by_role("button", name="Forget").click()
    expect(page.locator(".memory-text")).to_have_text(["note 0", "note 1", "note 3"])


@pytest.mark.parametrize("address", ["/sessions/", "/sessions/?q=hello"])
def test_an_empty_list_shows_the_first_session_as_it_comes(page: Page, address: str):
    page.goto(address)
    expect(page.locator(".empty")).to_be_visible()
    Story("s1").asks("Hello")
    expect(page.locator(".session-table tbody tr")).to_have_count(1)
    expect(page.locator(".empty")).to_have_count(0)
    later = Story("s2")
    later.asks("Hello")
    later.says("Hello")
    expect(page.get_by_role("link", name="1 new or changed")).to_be_visible()


def test_search_box_completes_and_works_by_keyboard(page: Page):
    Story("s1").calls("get_weather", "c1")
    Story("s2").asks("tea")
    indexing.index_all()
    page.goto("/sessions/")
    page.keyboard.press("/")
    page.keyboard.type("to")
    box = page.get_by_role("combobox", name="Search sessions")
    options = page.locator("#query-completions [role=option]")
    expect(options.first).to_contain_text("tool:")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "query-option-1")
    page.keyboard.press("Enter")
    expect(box).to_have_value("tool:")
    expect(options.first).to_contain_text("get_weather")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(box).to_have_value("tool:get_weather ")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**/sessions/?q=tool%3Aget_weather*")


def test_completion_pauses_during_ime_composition(page: Page):
    page.goto("/sessions/")
    page.keyboard.press("/")
    page.keyboard.type("to")
    expect(page.locator("#query-completions [role=option]").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    compose(page, "Enter")
    expect(page.get_by_role("combobox", name="Search sessions")).to_have_value("to")
    page.keyboard.press("Escape")
    expect(page.locator("#query-completions")).to_be_hidden()
    expect(page.get_by_role("combobox", name="Search sessions")).to_have_value("to")


def test_query_error_keeps_list(page: Page):
    Story("s1").asks("tea")
    page.goto("/sessions/")
    page.locator("[data-search]").fill("user:ann is:eror")
    expect(page.locator("#query-notes .wrong")).to_contain_text("eror")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.url.endswith("/sessions/")
