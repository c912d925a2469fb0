"""The steps of docs/tools.md in a browser, on the server that its command starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tools.md").read_text(encoding="utf-8")


def open_form(page: Page, tool: str) -> None:
    """Open the form of a tool on the agent's page by keyboard."""
    item = page.locator(".tools > li").filter(has_text=tool)
    item.locator("summary").first.press("Enter")
    item.get_by_role("link", name="Call the tool").press("Enter")
    expect(item.locator(".tool-call-form")).to_be_visible()


def enter_state(page: Page, tool: str, state: str) -> None:
    """Enter the state of a call, and call the tool."""
    form = page.locator(".tools > li").filter(has_text=tool).locator(".tool-call-form")
    form.get_by_text("State that the tool reads").press("Enter")
    form.get_by_label("State", exact=True).fill(state)
    form.get_by_role("button", name="Call", exact=True).press("Enter")


@pytest.mark.soak
@pytest.mark.usefixtures("demo")
def test_steps_of_the_page_call_tools_and_show_state_and_error(window: BrowserContext):
    page = window.new_page()
    page.goto("/agents/weather/")
    open_form(page, "get_weather")
    page.get_by_label("city").fill("Paris")
    page.get_by_label("city").press("Enter")
    outcome = page.locator(".tool-outcome")
    expect(outcome).to_contain_text("count: 1")
    expect(outcome.get_by_role("button", name="Copy the result as JSON")).to_be_visible()
    expect(page.get_by_label("city")).to_have_value("Paris")
    enter_state(page, "get_weather", '{"count": 4}')
    expect(outcome).to_contain_text("count: 5")

    page.goto("/agents/weather/")
    open_form(page, "packing_advice")
    page.get_by_role("button", name="Call", exact=True).press("Enter")
    expect(outcome).to_contain_text("KeyError: 'temp:raw'")
    expect(outcome.locator(".traceback")).to_contain_text("agent.py")
    enter_state(page, "packing_advice", '{"temp:raw": {"sky": "rainy"}}')
    expect(outcome).to_contain_text("boots")

    page.route("**/tools/packing_advice/**", lambda route: None)  # the server does not answer
    page.get_by_role("button", name="Call", exact=True).press("Enter")
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(page.locator("[data-call-status]")).to_have_text("Cancelled.")
    expect(page.get_by_role("button", name="Call", exact=True)).to_be_focused()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()


def test_page_names_the_command_of_the_guide_and_controls_that_pages_have():
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert command in guide  # tests/examples/test_guide.py runs it
    pages = " ".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    forms = (ROOT / "sessions_app/forms/tools.py").read_text()
    assert [name for name in re.findall(r"\*\*([A-Z][\w ]+)\*\*", PAGE) if name not in pages + forms] == []
