"""Session list in a real browser: filters, searches by words and state, hits, saved views, bulk actions."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from sessions_app.search import indexing
from tests.browser import OpenWindow, await_end
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


LATER = re.compile(r"htmx-[0-9.]+min|devui/js/core/app\.js")
"""Scripts that run when the whole page has been read."""


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab."""
    return open_window(server, color_scheme="light").new_page()


@pytest.fixture
def stories(store: None) -> dict[str, Story]:
    """Three sessions of two apps and two users, one with an error and a state of its own."""
    stories_by_name = {
        "tea": Story("s-tea"),
        "gold": Story("s-gold", initial={"user:tier": "gold", "retries": 1}, user="ben"),
        "draft": Story("s-draft", app="writer"),
    }
    stories_by_name["tea"].asks("Which tea is it?")
    stories_by_name["tea"].calls("look_up", "c1", leaf="oolong")
    stories_by_name["tea"].says("Oolong, from Nantou")
    stories_by_name["gold"].asks("How is the weather?")
    stories_by_name["gold"].says(
        "It failed", delta={"retries": 5}, errorCode="LIMIT", errorMessage="too many"
    )
    stories_by_name["gold"].says("It is sunny", delta={"retries": 0})
    stories_by_name["draft"].asks("東京について書いて")
    indexing.index_all()
    return stories_by_name


def rows(page: Page) -> Locator:
    return page.locator(".session-table tbody tr")


def search(page: Page, text: str) -> None:
    page.get_by_role("combobox", name="Search sessions").fill(text)


def test_filters_are_in_the_url_and_back_removes_each(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/")
    expect(rows(page)).to_have_count(3)
    page.get_by_role("combobox", name="App", exact=True).select_option("weather")
    expect(rows(page)).to_have_count(2)
    page.wait_for_url("**/sessions/?app=weather")
    page.get_by_label("Errors only").check()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("How is the weather?")
    page.wait_for_url("**/sessions/?app=weather&errors_only=1")
    page.go_back()
    expect(rows(page)).to_have_count(2)
    expect(page.get_by_label("Errors only")).not_to_be_checked()
    page.go_back()
    expect(rows(page)).to_have_count(3)
    expect(page.get_by_role("combobox", name="App", exact=True)).to_have_value("")
    page.go_forward()
    expect(rows(page)).to_have_count(2)
    expect(page.get_by_role("combobox", name="App", exact=True)).to_have_value("weather")
    page.reload()
    expect(rows(page)).to_have_count(2)


def test_forward_before_scripts_load_shows_the_url(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/")
    page.get_by_role("combobox", name="App", exact=True).select_option("weather")
    page.wait_for_url("**/sessions/?app=weather")
    expect(rows(page)).to_have_count(2)
    values: list[Route] = []
    page.route(LATER, lambda route: values.append(route))
    page.go_back(wait_until="commit")
    expect(rows(page)).to_have_count(3)
    page.unroute(LATER)
    page.evaluate("history.forward()")
    expect(rows(page)).to_have_count(2)
    assert values
    page.wait_for_url("**/sessions/?app=weather")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("東京", "東京について書いて"),
        ("tool:look_up", "Which tea is it?"),
        ("user:tier = gold", "How is the weather?"),
        ("retries > 3 ever", "How is the weather?"),
        ("retries missing app:weather", "Which tea is it?"),
    ],
)
def test_session_is_searched_by_words_tools_and_state(
    page: Page, stories: dict[str, Story], query: str, expected: str
):
    page.goto("/sessions/")
    search(page, query)
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator(".row-link")).to_have_text(expected)
    search(page, "retries > 3")
    expect(page.locator(".empty h2")).to_have_text("No session matches")


def test_a_hit_is_shown_and_leads_to_its_event(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/?q=nantou")
    hit = rows(page).locator(".session-last a")
    expect(hit.locator("mark")).to_have_text("Nantou")
    hit.click()
    expect(page.locator("#inspector-title")).to_contain_text("event 3")
    expect(page.locator("#events [data-seq='3']")).to_be_in_viewport()
    page.go_back()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("combobox", name="Search sessions")).to_have_value("nantou")


def test_search_is_saved_opened_renamed_and_deleted(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/?q=tier")
    search(page, "is:error")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("link", name="Save this search…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").first.fill("Failures")
    page.keyboard.press("Enter")
    chip = page.get_by_role("navigation", name="Saved views").get_by_role("link", name="Failures")
    expect(chip).to_have_attribute("aria-current", "page")
    page.goto("/sessions/")
    chip.click()
    expect(rows(page)).to_have_count(1)
    page.wait_for_load_state()
    page.get_by_role("link", name="Saved views…").click()
    page.get_by_role("textbox", name="Name of Failures").fill("What failed")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("link", name="What failed")).to_be_visible()
    page.get_by_role("link", name="Saved views…").click()
    page.get_by_role("button", name="Delete the view What failed").click()
    expect(page.get_by_role("link", name="What failed")).to_have_count(0)


def test_many_are_deleted_at_once_and_come_back_together(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/")
    page.get_by_role("checkbox", name="Select Which tea is it?").check()
    page.get_by_role("checkbox", name="Select How is the weather?").check()
    expect(page.locator("[data-selected-count]")).to_have_text("2 selected")
    page.locator("#session-actions").get_by_role("button", name="Delete").click()
    expect(rows(page)).to_have_count(1)
    toast = page.locator(".toast")
    expect(toast).to_contain_text("Deleted 2 sessions")
    toast.get_by_role("button", name="Undo").click()
    expect(rows(page)).to_have_count(3)


def test_older_sessions_are_a_page_further_and_back_leads_to_the_newest(page: Page, store: None):
    for number in range(60):
        Story(f"s{number:02}").asks(f"question {number}")
    page.goto("/sessions/?app=weather")
    newest = rows(page).locator(".row-link").first.inner_text()
    row_texts = set(rows(page).locator(".row-link").all_inner_texts())
    page.get_by_role("link", name="Older").click()
    page.wait_for_url(re.compile("before="))
    further = set(rows(page).locator(".row-link").all_inner_texts())
    assert not row_texts & further
    assert len(row_texts | further) == 60
    page.get_by_role("link", name="Newest").click()
    expect(rows(page).locator(".row-link").first).to_have_text(newest)


def test_history_of_user_key_links_to_event_of_other_session(page: Page, store: None):
    first, second = Story("s1"), Story("s2")
    first.says("one", delta={"user:city": "Paris"})
    second.says("zero")
    second.says("two", delta={"user:city": "Rome"})
    page.goto("/state/")
    page.get_by_role("main").get_by_role("link", name="weather").click()
    page.locator(".chips a", has_text="ann").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("User ann in weather")
    page.wait_for_load_state()
    page.get_by_role("link", name="History of city").click()
    writes = page.get_by_role("dialog").locator(".history > li")
    expect(writes).to_have_count(2)
    expect(writes.first).to_contain_text("Rome")
    writes.first.get_by_role("link", name=re.compile("event 2")).click()
    expect(page.locator("#inspector-title")).to_contain_text("event 2")
    expect(page.locator("#session-name")).to_have_text("s2")


def test_opened_hit_has_the_other_hits_beside_it(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/?q=it")
    page.get_by_role("link", name="How is the weather?", exact=True).click()
    hits = page.locator("#hits")
    expect(hits.get_by_role("listitem")).to_have_count(2)
    expect(hits.locator("[aria-current]")).to_contain_text("How is the weather?")
    hits.get_by_role("link", name="Next hit").or_(hits.get_by_role("link", name="Previous hit")).first.click()
    expect(page).to_have_url(re.compile(r"/s-tea/\?seq=1$"))
    expect(hits.locator("[aria-current]")).to_contain_text("Which tea is it?")
    hits.get_by_role("link", name="it", exact=True).click()
    expect(page).to_have_url(re.compile(r"/sessions/\?q=it$"))
    page.goto("/sessions/")
    page.get_by_role("link", name="東京について書いて", exact=True).click()
    expect(page.locator("#siblings")).to_be_visible()
    expect(hits).to_be_hidden()


@pytest.mark.parametrize(
    "hits",
    [
        ["http://["],
        ["/sessions/?q=it", "http://[ x"],
        ["javascript:x", "javascript:x x"],
        ["//other.test/", "//[ x"],
    ],
)
def test_stored_hits_that_are_no_addresses_of_sessions_are_left_out(
    page: Page, stories: dict[str, Story], hits: list[str]
):
    address = f"/sessions/id/{stories['tea'].pk}/"
    page.goto(address)
    here = page.evaluate("location.pathname")
    page.evaluate(
        "hits => localStorage.setItem('devui.session.hits', JSON.stringify(hits))", [*hits, f"{here} x"]
    )
    page.reload()
    expect(page.locator("#window")).to_be_visible()
    assert page.locator("#hits a[rel]:visible").count() == 0


def test_last_word_is_the_start_of_one_until_enter(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/")
    search(page, "oolo")
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=oolo\*$"))
    page.reload()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("combobox", name="Search sessions").press("End")
    page.keyboard.type("n")
    expect(page).to_have_url(re.compile(r"q=oolon\*$"))
    page.get_by_role("combobox", name="Search sessions").press("Backspace")
    expect(page).to_have_url(re.compile(r"q=oolo\*$"))
    page.get_by_role("combobox", name="Search sessions").press("Enter")
    expect(rows(page)).to_have_count(0)
    page.get_by_role("link", name="Search oolo*").click()
    expect(rows(page)).to_have_count(1)
    search(page, '"no such')
    expect(page.locator("#query-notes")).to_contain_text("not closed")


@pytest.mark.parametrize("address", ["?seq=99", "?event=gone"])
def test_link_to_missing_event_leads_to_the_nearest(page: Page, stories: dict[str, Story], address: str):
    answer = page.goto(f"/sessions/id/{stories['tea'].pk}/{address}")
    assert answer
    assert answer.status == 404
    page.get_by_role("link", name="Go back").click()
    expect(page.locator("#inspector-title")).to_contain_text("event 3")


def test_a_search_that_is_sent_at_once_is_covered_by_no_completions(page: Page, stories: dict[str, Story]):
    page.goto("/sessions/")
    box = page.get_by_role("combobox", name="Search sessions")
    late: list[Route] = []
    page.route("**/completions/**", lambda route: late.append(route))
    with page.expect_request("**/completions/**"):
        box.press_sequentially("user:BEN")
    box.press("Enter")
    expect(page.locator("#query-notes")).to_contain_text("did you mean 'ben'?")
    with page.expect_response("**/completions/**") as answer:
        late[-1].continue_()
    await_end(answer.value)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    page.unroute("**/completions/**")
    expect(page.locator("#query-completions")).to_be_hidden()
    box.press("ArrowDown")
    expect(page.locator("#query-completions")).to_be_visible()
