"""Pages of evals in a real browser: runs update case by case, attempts open by keys and links."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from evals_app.analysis import case_matrix, trends
from evals_app.execution.run_execution import execute_run
from evals_app.models import EvalRun
from sessions_app.agents.folder import AgentsFolder
from sessions_app.runs import runtime_client as runs
from tests.browser import OpenWindow
from tests.evals import agents, builders, stored_runs

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


@pytest.fixture
def page(open_window: OpenWindow, server: str) -> Page:
    """A tab."""
    return open_window(server, viewport={"width": 1280, "height": 800}).new_page()


class Process:
    """A runtime process whose agent answers when it is allowed to."""

    def __init__(self, folder: AgentsFolder) -> None:
        self.allowed = threading.Semaphore(0)
        self.folder = folder
        self.tasks: list[asyncio.Task[None]] = []

    async def client(self, app_name: str) -> Process:
        return self

    async def call(self, method: str, path: str, body: Any = None) -> None:
        agent = agents.Scripted(name="counter", answer=self.answer)
        source = agents.Source(agent, folder=self.folder)
        running = execute_run(body["eval_run_id"], source, asyncio.Event())
        self.tasks.append(asyncio.create_task(running))

    async def answer(self, ctx: Any, text: str) -> list[Any]:
        while not self.allowed.acquire(blocking=False):  # noqa: ASYNC110 - the test is in another thread
            await asyncio.sleep(0.01)
        return [agents.calls("look", at=text), f"I see {text}."]


@pytest.fixture
def process(folder: AgentsFolder, settings: Any) -> Iterator[Process]:
    """Three cases, of which the second fails; they wait for permission."""
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    cases = [
        builders.case(
            f"sees_{name}", builders.turn(name, f"I see {name}.", [{"name": "look", "args": {"at": at}}])
        )
        for name, at in (("a cat", "a cat"), ("a dog", "the sky"), ("a cow", "a cow"))
    ]
    builders.write(folder.path, "sights.evalset.json", builders.evalset(*cases))
    agent_process = Process(folder)
    runs.register(agent_process)
    yield agent_process
    agent_process.allowed.release(100)
    runs.register(None)


def start(page: Page, evalset: str = "sights") -> None:
    page.goto("/evals/")
    page.click(f"text={evalset}")
    page.fill("#parallelism", "1")
    page.click("#run-form button")
    page.wait_for_url("**/evals/runs/*/")


def is_end_of_run(frame: str | bytes) -> bool:
    return bool(json.loads(frame)["type"] == "end")


def test_cases_finish_one_by_one_without_reload(page: Page, process: Process):
    start(page)
    expect(page.locator("#summary")).to_have_attribute("data-state", "live")
    page.evaluate("window.sameDocument = true")
    expect(page.locator("#case-0")).to_have_attribute("data-status", "running")
    process.allowed.release()
    expect(page.locator("#case-0")).to_have_attribute("data-status", "passed")
    expect(page.locator("#case-1")).to_have_attribute("data-status", "running")
    expect(page.locator("#case-2")).to_have_attribute("data-status", "pending")
    process.allowed.release(2)
    expect(page.locator("#case-1")).to_have_attribute("data-status", "failed")
    expect(page.locator(".outcome-count")).to_contain_text("2 of 3 passed")
    expect(page.locator("#filters")).to_contain_text("failed 1")
    expect(page.locator("#run-announcer")).to_contain_text("2 of 3 passed")
    expect(page.locator("summary", has_text="Export")).to_be_visible()
    assert page.evaluate("window.sameDocument")


def test_case_opens_whose_row_changes_between_press_and_release(page: Page, process: Process):
    with page.expect_websocket(lambda socket: "/evals/runs/" in socket.url) as connected:
        start(page)
    expect(page.locator("#summary")).to_have_attribute("data-state", "live")
    expect(page.locator("#case-0")).to_have_attribute("data-status", "running")
    page.locator("#case-0").get_by_role("link").hover()
    page.mouse.down()
    with connected.value.expect_event("framereceived", is_end_of_run):
        process.allowed.release(3)
    expect(page.locator("#case-0")).to_have_attribute("data-status", "running")
    page.mouse.up()
    expect(page.locator("#attempt")).to_contain_text("sees_a cat")
    expect(page.locator("#case-0")).to_have_attribute("data-status", "passed")
    expect(page.locator(".outcome-count")).to_contain_text("2 of 3 passed")


def test_a_run_is_cancelled_from_its_page(page: Page, process: Process):
    start(page)
    process.allowed.release()
    expect(page.locator("#case-0")).to_have_attribute("data-status", "passed")
    page.click("text=Cancel")
    expect(page.locator(".outcome-count")).to_contain_text("2 cancelled")
    assert EvalRun.objects.get().status == EvalRun.Status.CANCELLED
    status_box, resume = (
        page.locator(f".notice {part}").bounding_box() or {} for part in ("strong", "button")
    )
    assert resume["x"] >= status_box["x"] + status_box["width"], "Resume stands beside what it is about"


def test_focus_stays_on_button_during_run(page: Page, process: Process):
    start(page)
    expect(page.locator("#summary")).to_have_attribute("data-state", "live")
    page.get_by_role("button", name="Cancel").focus()
    page.evaluate("document.getElementById('summary').firstElementChild.dataset.before = '1'")
    process.allowed.release()
    expect(page.locator("#case-0")).to_have_attribute("data-status", "passed")
    expect(page.locator("#summary > [data-before]")).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    process.allowed.release(2)
    expect(page.locator("summary", has_text="Export")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_no_tab_shows_running_case_after_the_end(page: Page, process: Process):
    start(page)
    expect(page.locator("#summary")).to_have_attribute("data-state", "live")
    page.evaluate(
        """() => {
            const fetchNow = window.fetch;
            window.fetch = async (url, options) => {
                const isCount = options?.headers?.["HX-Target"] === "filters";
                if (isCount) await new Promise((resolve) => setTimeout(resolve, 1500));
                return fetchNow(url, options);
            };
            window.torn = [];
            const look = () => {
                const ended = document.querySelector("#summary .menu") !== null;
                const tabs = document.getElementById("filters").textContent;
                if (ended && /running|pending/.test(tabs)) window.torn.push(tabs);
            };
            new MutationObserver(look).observe(document.body, {subtree: true, childList: true});
        }"""
    )
    for index, status in enumerate(("passed", "failed", "passed")):
        process.allowed.release()
        expect(page.locator(f"#case-{index}")).to_have_attribute("data-status", status)
    expect(page.locator("summary", has_text="Export")).to_be_visible()
    expect(page.locator("#filters")).to_contain_text("failed 1")
    assert page.evaluate("window.torn") == []


def test_click_meant_for_cancel_hits_no_other_button(page: Page, process: Process):
    start(page)
    expect(page.locator("#summary")).to_have_attribute("data-state", "live")
    page.evaluate("addEventListener('mousemove', (event) => { window.at = [event.clientX, event.clientY]; })")
    page.get_by_role("button", name="Cancel").hover()
    page.evaluate(
        """() => {
            window.clicked = 0;
            const hit = (event) => { window.clicked += 1; event.preventDefault(); };
            new MutationObserver(() => {
                const under = document.elementFromPoint(...window.at)?.closest("a, button, summary");
                if (!document.querySelector("#summary .menu") || !under || window.tried) return;
                window.tried = under.textContent.trim();
                under.addEventListener("click", hit);
                under.click();
            }).observe(document.getElementById("summary"), {childList: true});
        }"""
    )
    process.allowed.release(3)
    expect(page.locator("summary", has_text="Export")).to_be_visible()
    assert page.evaluate("window.clicked") == 0
    assert page.evaluate("window.tried"), "something else stands there now"


def test_of_very_many_changes_a_page_shows_its_own_cases(page: Page, process: Process):
    number = case_matrix.PAGE + 1
    cases = [builders.case(f"case {at}", builders.turn("a cat", "I see it.")) for at in range(number)]
    builders.write(process.folder.path, "many.evalset.json", builders.evalset(*cases))
    start(page, "many")
    expect(page.locator("#summary")).to_have_attribute("data-state", "live")
    page.click("text=Cancel")
    expect(page.locator(".outcome-count")).to_contain_text(f"{number} cancelled")
    expect(page.locator("#cases > [data-status=cancelled]")).to_have_count(case_matrix.PAGE)
    expect(page.locator("#filters")).to_contain_text(f"cancelled {number}")


def test_an_attempt_opens_beside_the_matrix_by_click_key_and_address(page: Page, process: Process):
    process.allowed.release(3)
    start(page)
    expect(page.locator(".outcome-count")).to_contain_text("2 of 3 passed")
    page.reload()
    expect(page.locator("#cases > tr.case").first).to_contain_text("sees_a dog")
    page.keyboard.press("j")
    expect(page.locator("#attempt-title")).to_have_text("sees_a dog")
    expect(page.locator(".pair.first .added")).to_have_text('at="a dog"')
    expect(page.locator(".pair.first .removed")).to_have_text('at="the sky"')
    first = page.url
    page.keyboard.press("j")
    expect(page.locator("#attempt-title")).to_have_text("sees_a cat")
    page.go_back()
    expect(page.locator("#attempt-title")).to_have_text("sees_a dog")
    page.keyboard.press("Escape")
    expect(page.locator(".attempt")).to_have_count(0)
    page.goto(first)
    expect(page.locator("tr[aria-current] bdi")).to_have_text("sees_a dog")


def test_case_opens_in_place_and_button_names_selection(page: Page, process: Process):
    page.goto("/evals/counter/sights/")
    page.click("text=sees_a dog")
    expect(page.locator("#case-body-1")).to_contain_text('look(at="the sky")')
    assert page.url.endswith("/sights/")
    page.check("input[value='sees_a cow']")
    expect(page.locator("[data-run-label]")).to_have_text("Run 1 of 3 cases")


def test_run_button_follows_the_file(page: Page, process: Process):
    file = process.folder.path / "sights.evalset.json"
    page.goto("/evals/counter/sights/")
    run, label = page.locator("button:has([data-run-label])"), page.locator("[data-run-label]")
    expect(label).to_have_text("Run all 3 cases")
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "eval_cases": whole["eval_cases"][:1]}))
    expect(label).to_have_text("Run the case")
    file.write_text("{")
    expect(run).to_be_disabled()
    page.reload()
    expect(page.locator("[data-why-not]")).to_be_visible()
    file.write_text(json.dumps(whole))
    expect(run).to_be_enabled()
    expect(label).to_have_text("Run all 3 cases")
    expect(page.locator("[data-why-not]")).to_be_hidden()


def test_a_case_of_an_endless_id_or_cause_makes_no_page_wider(page: Page, process: Process):
    process.allowed.release(3)
    start(page)
    expect(page.locator(".outcome-count")).to_contain_text("2 of 3 passed")
    page.set_viewport_size({"width": 390, "height": 800})
    cause = page.locator(".cause-text").first
    cause.evaluate("shown => { shown.textContent = 'no verdict '.repeat(60); }")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("j")
    title = page.locator("#attempt-title")
    expect(title).to_have_attribute("title", title.locator("bdi").inner_text())
    title.locator("bdi").evaluate("shown => { shown.textContent = 'x'.repeat(3200); }")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert title.evaluate("shown => shown.clientHeight < shown.scrollHeight")


def test_trend_fits_narrow_window_and_shows_newest_runs_first(page: Page):
    of = stored_runs.version(stored_runs.cases("a"))
    for at in range(trends.RUNS):
        stored_runs.run(
            of, {"a": [stored_runs.passing() if at % 2 else stored_runs.failing()]}, code=f"{at:04}"
        )
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/evals/counter/kept/trend/")
    expect(page.locator(".trend-dot")).to_have_count(trends.RUNS)
    window = page.evaluate("document.documentElement.clientWidth")
    dots = [dot.bounding_box() for dot in page.locator(".trend-dot").all()]
    assert all(dot and dot["x"] > 0 and dot["x"] + dot["width"] < window for dot in dots)
    assert all(left["x"] < right["x"] for left, right in pairwise(filter(None, dots)))
    expect(page.locator(".heat-head").last).to_be_in_viewport()
    expect(page.locator(".heat-table th[scope=row]")).to_be_in_viewport()


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
def test_no_page_is_wider_than_its_window(page: Page, process: Process, width: int):
    process.allowed.release(3)
    start(page)
    expect(page.locator(".outcome-count")).to_contain_text("2 of 3 passed")
    page.set_viewport_size({"width": width, "height": 800})
    run = page.url
    page.keyboard.press("j")
    expect(page.locator(".attempt")).to_be_visible()
    for url in ("/evals/", "/evals/counter/sights/", run, page.url):
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), url
