"""Live runs in a real browser, with an agent in its own process."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser import OpenWindow
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.browser, pytest.mark.soak]


@pytest.fixture
def page(open_window: OpenWindow, speaker_address: str, request: pytest.FixtureRequest) -> Page:
    """The page of a session of the test's own, connected, with a count of the pieces of sound that it plays."""
    name = request.node.name[:40]
    response = httpx.post(
        f"{speaker_address}/apps/speaker/users/ann/sessions",
        json={"sessionId": name},
        trust_env=False,
        timeout=PATIENCE_S,
    )
    assert response.status_code == 200
    opened = open_window(speaker_address).new_page()
    opened.add_init_script(
        "window.played = 0; const start = AudioBufferSourceNode.prototype.start;"
        "AudioBufferSourceNode.prototype.start = function (...at) { window.played += 1; start.apply(this, at); };"
    )
    opened.goto(f"/sessions/speaker/ann/{name}/")
    opened.get_by_role("link", name="Speak live").click()
    opened.get_by_role("button", name="Connect").click()
    expect(opened.get_by_role("button", name="Send")).to_be_enabled()
    return opened


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def test_typed_message_is_answered_as_text_and_sound_and_stored(page: Page):
    chat_log = page.get_by_role("log")
    say(page, "hello <b>there</b>")
    expect(chat_log.locator(".is-mine")).to_have_text("hello <b>there</b>")
    expect(chat_log.locator(".is-answer")).to_have_text("You said: hello <b>there</b>")
    page.wait_for_function("() => window.played > 0")
    say(page, "count")
    expect(chat_log.locator(".is-note")).to_have_text([re.compile("calls count"), re.compile('"result":2')])
    expect(chat_log.locator(".is-answer").last).to_have_text("You said: a tool has answered")
    page.get_by_role("button", name="Hang up").click()
    expect(page.locator("#live-state")).to_have_text("not connected")
    page.locator(".page-head a").click()
    expect(page.locator("#events")).to_contain_text("You said: hello <b>there</b>")
    page.goto("/runs/")
    expect(page.locator("tbody tr").first).to_contain_text("done")


def test_broken_connection_shows_reason_and_can_reconnect(page: Page):
    say(page, "break")
    expect(page.locator(".is-error")).to_contain_text("The line is broken.")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
