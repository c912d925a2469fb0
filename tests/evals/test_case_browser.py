"""Evalsets in a real browser: cases follow their file, rows are added in place, conflicting writes are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from evals_app.tables.case_columns import PAGE_SIZE
from sessions_app.agents.folder import AgentsFolder
from tests.browser import OpenWindow
from tests.evals.builders import case, evalset, turn, write

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab."""
    return open_window(server, viewport={"width": 1280, "height": 800}).new_page()


@pytest.fixture
def path(folder: AgentsFolder, settings: Any) -> Path:
    """An evalset of two cases."""
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    return write(
        folder.path, "set.evalset.json", evalset(case("one", turn("hi", "yo")), case("two", turn("bye")))
    )


def test_case_list_follows_file_and_keeps_selection(page: Page, path: Path, folder: AgentsFolder):
    page.goto("/evals/counter/set/")
    page.get_by_label("Select two").check()
    page.locator("summary", has_text="two").click()
    expect(page.locator(".case-body", has_text="bye")).to_be_visible()
    write(
        folder.path,
        path.name,
        evalset(case("zero", turn("x")), case("one", turn("hi")), case("two", turn("ciao"))),
    )
    expect(page.locator(".case-name")).to_have_text(["zero", "one", "two"])
    expect(page.get_by_label("Select two")).to_be_checked()
    expect(page.locator(".case-body", has_text="ciao")).to_be_visible()
    expect(page.locator("[data-run-label]")).to_have_text("Run 1 of 3 cases")
    write(folder.path, path.name, "{")
    expect(page.get_by_text("This file cannot be used as it is.")).to_be_visible(timeout=30_000)


def test_keyboard_reaches_no_field_behind_the_foot(page: Page, path: Path):
    page.set_viewport_size({"width": 390, "height": 600})
    page.goto("/evals/counter/set/case/?id=one")
    bottoms = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(".form-foot :focus").count():
            break
        bottoms.append(page.evaluate("document.activeElement.getBoundingClientRect().bottom"))
    foot = page.locator(".form-foot").bounding_box()
    assert foot
    assert max(bottoms) <= foot["y"]


def test_range_of_sorted_cases_is_ticked_and_stays_so(page: Page, folder: AgentsFolder, path: Path):
    write(folder.path, path.name, evalset(*(case(name, turn("hi")) for name in "dbca")))
    page.goto("/evals/counter/set/")
    page.locator("#sort-case").click()
    expect(page.locator(".case-name")).to_have_text(["a", "b", "c", "d"])
    page.get_by_label("Select a").check()
    page.get_by_label("Select c").click(modifiers=["Shift"])
    expect(page.locator("[data-run-label]")).to_have_text("Run 3 of 4 cases")
    page.locator("#sort-case").click()
    expect(page.locator(".case-name")).to_have_text(["d", "c", "b", "a"])
    expect(page.locator("[data-run-label]")).to_have_text("Run 3 of 4 cases")
    expect(page.get_by_label("Select d")).not_to_be_checked()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-run-label]")).to_have_text("Run 4 of 4 cases")
    page.keyboard.press("Escape")
    expect(page.locator("td.pick > input:checked")).to_have_count(0)


def test_selected_cases_of_other_pages_run_too(page: Page, folder: AgentsFolder, path: Path):
    names = [f"c{number:03}" for number in range(PAGE_SIZE + 5)]
    write(folder.path, path.name, evalset(*(case(name, turn("hi")) for name in names)))
    page.goto("/evals/counter/set/")
    page.get_by_label("Select c001").check()
    page.get_by_role("link", name="Next").click()
    page.get_by_label(f"Select {names[-1]}").check()
    expect(page.locator("[data-run-label]")).to_have_text(f"Run 2 of {len(names)} cases")
    sent = page.locator("#run-form").evaluate("form => new FormData(form).getAll('case').sort()")
    assert sent == ["c001", names[-1]]
    page.keyboard.press("Escape")
    expect(page.locator("[data-run-label]")).to_have_text(f"Run all {len(names)} cases")


def test_added_row_gets_focus_and_form_reports_other_writers(page: Page, path: Path, folder: AgentsFolder):
    page.goto("/evals/counter/set/case/?id=one")
    page.get_by_label("Expected answer").fill("mine")
    page.get_by_role("button", name="Tool call").click()
    expect(page.get_by_label("Tool", exact=True)).to_be_focused()
    page.keyboard.type("get_weather")
    expect(page.get_by_label("Expected answer")).to_have_value("mine")
    expect(page.locator("#disk")).to_be_hidden()
    write(folder.path, path.name, evalset(case("one", turn("hi", "theirs")), case("two", turn("bye"))))
    expect(page.locator("#disk")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Review the change").last.click()
    expect(page.get_by_text("This case was changed or removed in the file")).to_be_visible()
    expect(page.get_by_label("Tool", exact=True)).to_have_value("get_weather")
    assert "mine" not in path.read_text()


def test_ticked_sessions_lead_to_their_cases(page: Page, path: Path):
    for name in ("a", "b"):
        page.request.post(f"/apps/counter/users/ann/sessions/{name}", data={})
    page.goto("/sessions/?app=counter")
    page.get_by_role("checkbox", name="Tick all").check()
    page.get_by_role("button", name="Eval cases").click()
    expect(page.get_by_role("heading", name="Make 2 eval cases")).to_be_visible()
