"""The console in a browser: options, files, earlier messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sessions_app.agents import cards
from sessions_app.console.questions import INPUT
from sessions_app.runs import runtime_client
from sessions_app.store.models import Run
from tests.browser import OpenWindow, clipboard_text
from tests.console.fake_runtimes import RuntimeWithConfigCheck
from tests.console.schemas import RUN_CONFIG_SCHEMA, TRIP_SCHEMA
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "store")]


@pytest.fixture
def runtime() -> Iterator[RuntimeWithConfigCheck]:
    fake_runtime = RuntimeWithConfigCheck()
    runtime_client.register(fake_runtime)
    yield fake_runtime
    runtime_client.register(None)


@pytest.fixture
def page(open_window: OpenWindow, server: str, store: None, runtime: RuntimeWithConfigCheck) -> Page:
    """A session's page, live."""
    cards.save_loaded("weather", "v1", {"name": "weather", "run_config": RUN_CONFIG_SCHEMA})
    story = Story("s1")
    opened = open_window(server, permissions=["clipboard-read", "clipboard-write"]).new_page()
    opened.goto(f"/sessions/id/{story.pk}/")
    expect(opened.locator("[data-live=live]")).to_be_visible()
    return opened


def send(page: Page, text: str) -> None:
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")


def newest_request() -> dict:
    """Return what the newest run is asked."""
    return json.loads(Run.objects.latest("created_at").request)


def test_options_are_validated_sent_and_remembered_visibly(page: Page, runtime: RuntimeWithConfigCheck):
    page.get_by_role("button", name="Options").click()
    page.locator("#console-options summary", has_text="RunConfig").click()
    limit = page.get_by_label("max_llm_calls")
    limit.fill("many")
    page.locator("#state-delta").fill('{"city": "Rome"}')
    expect(page.locator("[data-console-more]")).to_contain_text("2 set")
    send(page, "Weather?")
    expect(page.locator("#console-problems")).to_contain_text("max_llm_calls: This is no whole number.")
    expect(limit).to_have_attribute("aria-invalid", "true")
    expect(limit).to_be_focused()
    expect(page.locator("#message")).to_have_value("Weather?")

    limit.fill("3")
    page.locator("#message").press("Enter")
    expect(page.locator("#message")).to_have_value("")
    expect(page.locator("#console-options")).to_be_hidden()
    assert (newest_request()["run_config"], newest_request()["state_delta"]) == (
        {"max_llm_calls": 3},
        {"city": "Rome"},
    )

    page.reload()
    expect(page.locator("[data-console-more]")).to_contain_text("1 set")
    expect(page.locator("[name='config.max_llm_calls']")).to_have_value("3")


def test_files_are_previewed_and_removable_before_sending(page: Page, tmp_path: Path):
    (tmp_path / "a.txt").write_text("Hello there")
    (tmp_path / "b.bin").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    page.locator("input[type=file]").set_input_files([tmp_path / "a.txt", tmp_path / "b.bin"])
    files = page.locator("#console-files")
    expect(files).to_contain_text("Hello there")
    expect(files).to_contain_text("2 of 16 files")
    page.get_by_role("button", name="Remove a.txt").click()
    expect(files).not_to_contain_text("a.txt")
    page.locator("#message").press("Enter")
    expect(files).to_be_hidden()
    [part] = newest_request()["new_message"]["parts"]
    assert (part["inlineData"]["displayName"], part["inlineData"]["mimeType"]) == ("b.bin", "image/png")


def test_empty_file_is_left_out_and_the_others_are_attached(page: Page, tmp_path: Path):
    (tmp_path / "a.txt").write_text("Hello there")
    (tmp_path / "empty.txt").write_text("")
    page.locator("input[type=file]").set_input_files([tmp_path / "a.txt", tmp_path / "empty.txt"])
    expect(page.locator(".toast")).to_contain_text("empty.txt is empty and was left out")
    expect(page.locator("#console-files")).to_contain_text("1 of 16 files")
    page.locator("#message").press("Enter")
    expect(page.locator("#console-files")).to_be_hidden()
    [part] = newest_request()["new_message"]["parts"]
    assert part["inlineData"]["displayName"] == "a.txt"


def test_too_large_upload_is_refused_before_sending(page: Page, tmp_path: Path):
    names = [tmp_path / f"{number}.txt" for number in range(17)]
    for name in names:
        name.write_text("x")
    page.locator("input[type=file]").set_input_files(names)
    expect(page.locator(".toast")).to_contain_text("17 files are too many")
    expect(page.locator("#console-files")).to_be_hidden()


def test_message_history_keeps_the_draft(page: Page):
    for text in ("first", "second"):
        send(page, text)
        expect(page.locator("#message")).to_have_value("")
    message = page.locator("#message")
    message.fill("third")
    for key, text in (
        ("ArrowUp", "second"),
        ("ArrowUp", "first"),
        ("ArrowUp", "first"),
        ("ArrowDown", "second"),
        ("ArrowDown", "third"),
    ):
        message.press(key)
        expect(message).to_have_value(text)


def test_a_message_that_does_not_reach_the_server_stays_in_its_field(page: Page):
    page.route("**/runs/**", lambda route: route.abort())
    send(page, "hello")
    send(page, "hello")
    expect(page.locator(".toast")).to_contain_text("The server cannot be reached.")
    expect(page.locator("#message")).to_have_value("hello")
    page.unroute_all()
    send(page, "hello")
    expect(page.locator("#message")).to_have_value("")
    assert newest_request()["new_message"]["parts"] == [{"text": "hello"}]


def test_the_call_is_copied(page: Page):
    page.locator("#message").fill("It's $5 `now`")
    page.get_by_role("button", name="Options").click()
    page.get_by_role("button", name="Copy as curl").click()
    command = clipboard_text(page, "curl")
    assert "/run_sse" in command
    assert "It'\\''s $5 `now`" in command
    page.get_by_role("button", name="Copy as Python").click()
    assert "/run_sse" in clipboard_text(page, "import httpx")


def test_new_session_form_follows_typed_user(page: Page):
    page.goto("/sessions/new/?app=weather&user=ben")
    expect(page.locator("#session-facts a")).to_have_count(0)
    page.get_by_label("User").fill("ann")
    page.get_by_label("User").press("Tab")
    expect(page.locator("#session-facts a")).to_have_attribute("href", "/sessions/weather/ann/s1/")
    page.get_by_role("button", name="Continue newest or create").click()
    expect(page.locator("#session-name")).to_be_visible()
    assert page.url.endswith("/sessions/weather/ann/s1/")


def test_invalid_answer_shows_error_at_field_until_corrected(page: Page, runtime: RuntimeWithConfigCheck):
    story = Story("asks")
    story.calls("request_leave", "c1", waiting=True)
    page.goto(f"/sessions/id/{story.pk}/")
    question = page.locator("form.question")
    field = question.locator("[name=response]")
    field.fill("{broken")
    question.locator("button").click()
    expect(field).to_have_accessible_description(re.compile("^Line 1, column 2"))
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(field).to_have_value("{broken")
    expect(page.locator("#toasts .toast")).to_have_count(0)
    field.fill("{}")
    with page.expect_response("**/runs/start/**"):
        question.locator("button").click()
    expect(field).not_to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description("")
    assert Run.objects.filter(session=story.pk).exists()


def test_every_field_of_an_answer_has_its_own_problem(page: Page, runtime: RuntimeWithConfigCheck):
    story = Story("trip")
    story.calls(INPUT, "c1", waiting=True, response_schema=TRIP_SCHEMA)
    page.goto(f"/sessions/id/{story.pk}/")
    question = page.locator("form.question")
    question.get_by_label("days").fill("two")
    question.get_by_role("button", name="Answer", exact=True).click()
    expect(question.get_by_label("city")).to_have_accessible_description(
        re.compile("^A value is needed here")
    )
    expect(question.get_by_label("days")).to_have_accessible_description(
        re.compile("^This is no whole number")
    )
    expect(question.get_by_label("city")).to_be_focused()
    question.get_by_label("city").fill("Rome")
    question.get_by_label("days").fill("2")
    with page.expect_response("**/runs/start/**"):
        question.get_by_role("button", name="Answer", exact=True).click()
    expect(question.locator(".error-text")).to_have_count(0)
    [answer] = newest_request()["new_message"]["parts"]
    assert answer["functionResponse"]["response"] == {"city": "Rome", "days": 2}


def test_text_typed_beside_the_message_box_goes_into_it(page: Page):
    message = page.locator("#message")
    expect(message).to_be_focused()  # a session without events waits for its first message
    for text in ("Hello there", "bring up the boat", "go on", "my moon, just now", "ok. d? p/v"):
        message.fill("")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.type(text)
        expect(message).to_have_value(text)
        expect(message).to_be_focused()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.type("Thanks")
    expect(message).to_have_value("ok. d? p/vThanks")
    expect(page.locator("#console-options")).to_be_hidden()
    expect(page.locator("#session")).not_to_have_attribute("data-wide", "")


def test_a_letter_alone_is_a_shortcut(page: Page):
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("o")
    expect(page.locator("#console-options")).to_be_visible()
    page.keyboard.press("m")
    expect(page.locator("#message")).to_be_focused()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.type("gs")
    page.wait_for_url("**/sessions/*")
