"""The steps of docs/playground.md in a browser, on the server that its command starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/playground.md").read_text(encoding="utf-8")


@pytest.mark.soak
@pytest.mark.usefixtures("demo")
def test_steps_of_the_page_lead_to_the_marked_argument(window: BrowserContext):
    page = window.new_page()
    page.goto("/sessions/weather/aya/second-visit/?seq=5")
    page.get_by_text("Sent to model").click()
    page.locator(".tab-llm").get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Add a column").click()
    content = page.get_by_role("group", name="Column 2").get_by_role("textbox", name=re.compile("^Content "))
    expect(content.last).to_have_value("And what is it like there now?")
    content.last.fill("What is the weather in Rome?")
    page.get_by_label("Name", exact=True).fill("Rome instead")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/try/*/")
    expect(page.locator("#playground-answers [data-status=done]")).to_have_count(2)
    first, second = (page.get_by_role("region", name=f"Column {number}") for number in (1, 2))
    expect(first).to_contain_text("as recorded")
    expect(second.locator(".pair-args .removed")).to_have_text('city="Oslo"')
    expect(second.locator(".pair-args .added")).to_have_text('city="Rome"')

    column = page.get_by_role("group", name="Column 1")
    column.get_by_text("Fields", exact=True).click()
    column.get_by_label("temperature", exact=True).fill("hot")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="temperature: This is no number")).to_be_visible()
    expect(column.get_by_label("temperature", exact=True)).to_have_value("hot")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Rome instead")


def test_page_names_the_command_of_the_guide_and_controls_that_pages_have():
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert command in guide  # tests/examples/test_guide.py runs it
    pages = " ".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    assert [name for name in re.findall(r"\*\*([A-Z][\w ]+)\*\*", PAGE) if name not in pages] == []
