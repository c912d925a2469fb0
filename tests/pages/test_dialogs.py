"""Dialogs, messages and forms: repeated clicks, slow responses, input methods."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import CDPSession, Page, Request, expect

from sessions_app.store.models import AgentSession
from sessions_app.store.sessions import writes
from tests.browser import OpenWindow
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab."""
    return open_window(server, color_scheme="light").new_page()


def new_session(page: Page, state: str = "") -> None:
    """Open the dialog of a new session and fill it in."""
    page.goto("/sessions/")
    page.get_by_role("link", name="New session").first.click()
    dialog = page.get_by_role("dialog", name="New session")
    dialog.get_by_label("App").fill("weather")
    dialog.get_by_label("State").fill(state)


def compose(session: CDPSession, text: str) -> None:
    """Write letters that an input method has not settled yet."""
    session.send(
        "Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)}
    )


def test_invalid_dialog_form_returns_with_errors_and_input(page: Page):
    new_session(page, '{"city": ')
    dialog = page.get_by_role("dialog", name="New session")
    dialog.get_by_role("button", name="Create session").click()
    expect(dialog.locator(".errorlist")).to_be_visible()
    expect(dialog.get_by_label("State")).to_have_value('{"city": ')
    assert page.url.endswith("/sessions/")
    dialog.get_by_label("State").fill('{"city": "Paris"}')
    dialog.get_by_role("button", name="Create session").click()
    page.wait_for_url("**/sessions/weather/user/**")


def test_a_form_on_a_page_of_its_own_comes_back_on_it(page: Page):
    page.goto("/sessions/new/")
    page.get_by_label("App", exact=True).fill("weather")
    page.get_by_label("State").fill("[]")
    page.get_by_role("button", name="Create session").click()
    expect(page.locator("main .errorlist")).to_be_visible()
    expect(page.locator("#dialog")).to_be_hidden()
    assert page.locator("#dialog-title").count() == 1


def test_an_impatient_second_click_makes_no_second_session(page: Page):
    new_session(page)
    page.get_by_role("dialog").get_by_role("button", name="Create session").dblclick()
    page.wait_for_url("**/sessions/weather/user/**")
    assert AgentSession.objects.count() == 1


def test_an_impatient_second_click_forks_once(page: Page):
    story = Story("s1")
    story.asks("one")
    page.goto(f"/sessions/id/{story.pk}/fork/")
    page.get_by_role("button", name="Fork").dblclick()
    page.wait_for_url(re.compile(r"/sessions/weather/ann/(?!s1)"))
    assert AgentSession.objects.count() == 2


def test_text_is_marked_beyond_the_edge_of_a_dialog_without_closing_it(page: Page):
    new_session(page, "typed with care")
    box = page.get_by_role("dialog").get_by_label("State").bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.up()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.mouse.click(5, 5)
    expect(page.locator("#dialog")).to_be_hidden()


def test_an_error_is_read_and_closed_while_a_dialog_is_open(page: Page):
    story = Story("s1")
    page.goto("/sessions/")
    page.get_by_role("link", name="Rename s1").click()
    dialog = page.get_by_role("dialog", name="Rename the session")
    dialog.get_by_label("Title").fill("Another")
    writes.delete_session(story.key)
    dialog.get_by_role("button", name="Rename").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Session not found")
    alert.get_by_role("button", name="Close message").click()
    expect(alert).to_have_count(0)
    expect(dialog).to_be_visible()


def test_an_error_of_a_dialog_stays_when_the_dialog_is_closed(page: Page):
    story = Story("s1")
    page.goto("/sessions/")
    page.get_by_role("link", name="Rename s1").click()
    dialog = page.get_by_role("dialog", name="Rename the session")
    expect(dialog).to_be_visible()
    writes.delete_session(story.key)
    dialog.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    expect(page.get_by_role("alert")).to_contain_text("Session not found")


def test_nothing_is_searched_before_an_input_method_has_settled(page: Page):
    Story("s1").asks("tea")
    Story("s2").asks("東京の天気は？")
    page.clock.install()
    page.goto("/sessions/")
    requests: list[str] = []

    def note(request: Request) -> None:
        if re.search(r"/sessions/(query-completions/)?\?q=", request.url):
            requests.append(request.url)

    page.on("request", note)
    page.locator("[data-search]").focus()
    cdp = page.context.new_cdp_session(page)
    for text in ("t", "と", "とう", "とうきょう"):
        compose(cdp, text)
        page.clock.run_for(1_000)
    assert requests == []
    cdp.send("Input.insertText", {"text": "東京"})
    expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**/sessions/?q=%E6%9D%B1%E4%BA%AC")


def test_escape_while_an_input_method_composes_closes_no_dialog(page: Page):
    new_session(page)
    page.get_by_role("dialog").get_by_label("Session id").focus()
    compose(page.context.new_cdp_session(page), "とう")
    page.evaluate("document.getElementById('dialog').requestClose()")
    expect(page.get_by_role("dialog")).to_be_visible()
