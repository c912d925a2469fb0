"""The steps of docs/step-through.md in a browser, on the server that its command starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.axe import WCAG_RULES, violations

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/step-through.md").read_text(encoding="utf-8")


@pytest.mark.soak
@pytest.mark.usefixtures("demo")
def test_steps_of_the_page_lead_to_another_answer(window: BrowserContext):
    page = window.new_page()
    page.goto("/sessions/weather/aya/first-visit/")
    page.get_by_text("Pause at", exact=True).click()
    page.get_by_label("tool calls").check()
    page.get_by_label("Pause if").fill('city = "Oslo"')
    page.locator("#message").fill("What is the weather in Oslo?")
    page.get_by_role("button", name="Run", exact=True).click()
    pause = page.get_by_role("form", name="Paused before get_weather")
    expect(pause).to_contain_text("weather is about to call get_weather.")
    pause.get_by_text("State", exact=True).click()
    pause.get_by_text("Answer instead", exact=True).click()
    page.get_by_text("Pause at", exact=True).click()
    assert violations(page, WCAG_RULES) == []
    arguments = pause.get_by_label("Arguments", exact=True)
    arguments.fill('{"city": 3}')
    pause.get_by_role("button", name="Continue").click()
    expect(pause.get_by_role("alert")).to_contain_text("city is integer, not string")
    expect(arguments).to_have_value('{"city": 3}')
    arguments.fill('{"city": "Rome"}')
    pause.get_by_role("button", name="Continue").click()
    expect(page.locator(".event-body", has_text="arguments changed").last).to_be_visible()
    expect(page.get_by_text("It is clear in Rome").last).to_be_visible()
    expect(pause).to_have_count(0)


@pytest.mark.soak
@pytest.mark.usefixtures("demo")
def test_new_version_of_the_runs_keeps_what_is_typed_at_a_pause(window: BrowserContext):
    page = window.new_page()
    page.goto("/sessions/weather/aya/first-visit/")
    page.get_by_text("Pause at", exact=True).click()
    page.get_by_label("tool calls").check()
    for text in ("What is the weather in Oslo?", "And in Lima?"):
        page.locator("#message").fill(text)
        page.get_by_role("button", name="Run", exact=True).click()
        pause = page.get_by_role("form", name="Paused before get_weather")
        expect(pause).to_have_count(1)
        pause.get_by_label("Arguments", exact=True).fill('{"city": "Cairo"}')
    expect(page.locator(".run-queued")).to_have_count(1)  # the second message: the runs were drawn again
    expect(pause.get_by_label("Arguments", exact=True)).to_have_value('{"city": "Cairo"}')
    page.locator(".run-queued").get_by_role("button", name="Cancel").click()
    expect(page.locator(".run-queued")).to_have_count(0)
    page.locator("#runs").get_by_role("button", name="Cancel").click()
    expect(page.locator("[data-pause]")).to_have_count(0)


def test_page_names_the_command_of_the_guide_and_controls_that_pages_have():
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert command in guide  # tests/examples/test_guide.py runs it
    pages = " ".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    assert [name for name in re.findall(r"\*\*([A-Z][\w ]+)\*\*", PAGE) if name not in pages] == []
