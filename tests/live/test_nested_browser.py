"""Nested runs in a real browser: they appear under their call and grow while they run."""

from __future__ import annotations

import asyncio
import threading

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from playwright.sync_api import APIResponse, Page, Route, expect

from sessions_app.adk import DjangoSessionService, Recorder
from tests.fake_models import ScriptedModel, call
from tests.live.windows import event
from tests.timeline.nested_story import add, nest, nested_call, text

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


def test_nested_run_appears_under_its_call_and_grows_while_it_is_open(open_page, story):
    story.calls("helper", "c1")
    page = open_page(story)
    running = {"finished_at": None, "event_count": 1, "stored_count": 1}
    run = nest(story, "r1", **running, changed_at=1.0)
    nested = event(page, 1).locator(f"[data-nested='{run.child_id}']")
    expect(nested.locator("> summary")).to_contain_text("1 event of agent helper")
    add(run, text("Paris?"), author="user")
    nested.locator("> summary").click()
    expect(nested.locator("article")).to_have_count(1)

    add(run, nested_call("deep", "d1"))
    nest(story, "r1", finished_at=None, event_count=2, stored_count=2, changed_at=2.0)
    expect(nested.locator("article")).to_have_count(2)
    deep = nest(story, "r2", call_id="d1", parent="r1", agent="deep", changed_at=3.0)
    inner = nested.locator(f"[data-nested='{deep.child_id}']")
    expect(inner.locator("> summary")).to_contain_text("of agent deep")

    add(run, text("Sunny"))
    nest(story, "r1", event_count=3, stored_count=3, changed_at=4.0)
    expect(nested.locator("article")).to_have_count(3)
    expect(nested.locator("> summary")).not_to_contain_text("Running")
    expect(nested.locator(".nested-next")).to_have_count(0)
    assert page.locator(".nested [data-seq]").count() == 0


def test_event_that_comes_while_others_are_loaded_is_shown_after_them(open_page, story):
    story.calls("helper", "c1")
    run = nest(story, "r1", finished_at=None, event_count=1, stored_count=1, changed_at=1.0)
    add(run, text("Paris?"), author="user")
    page = open_page(story)
    nested = event(page, 1).locator(f"[data-nested='{run.child_id}']")
    late_answers: list[tuple[Route, APIResponse]] = []

    def hold_first_answer(route: Route) -> None:
        if late_answers:
            route.continue_()
        else:
            late_answers.append((route, route.fetch()))

    page.route("**/nested/**", hold_first_answer)
    nested.locator("> summary").click()
    expect(page.locator(".nested.htmx-request")).to_have_count(1)
    while not late_answers:
        page.wait_for_timeout(10)
    add(run, text("Sunny"))
    nest(story, "r1", finished_at=None, event_count=2, stored_count=2, changed_at=2.0)
    expect(nested.locator("> summary")).to_contain_text("2 events")
    [(route, answer)] = late_answers
    route.fulfill(response=answer)
    expect(nested.locator("article")).to_have_count(2)


def nested_keys(page: Page) -> list[list[str]]:
    """Return the nested runs below each call of the session."""
    below = """call => {
        const keys = [];
        while ((call = call.nextElementSibling)?.matches(".nested")) keys.push(call.dataset.nested);
        return keys;
    }"""
    calls = page.locator("#events .row > .event > .event-body > .call").all()
    return [call.evaluate(below) for call in calls]


def test_runs_of_calls_with_one_id_stand_under_their_own_calls_live_and_after_a_reload(open_page, story):
    calls = [{"functionCall": {"id": "c1", "name": name, "args": {}}} for name in ("add", "helper", "helper")]
    story.add(*calls)
    page = open_page(story)
    keys = []
    for number, ref in enumerate(("r1", "r2")):
        keys.append(str(nest(story, ref, changed_at=1.0 + number).child_id))
        expect(page.locator(f"[data-nested='{keys[-1]}']")).to_be_visible()
    assert nested_keys(page) == [[], keys[:1], keys[1:]]
    page.reload()
    expect(page.locator(f"[data-nested='{keys[-1]}']")).to_be_visible()
    assert nested_keys(page) == [[], keys[:1], keys[1:]]


def test_later_step_with_the_same_id_in_an_open_run_shows_its_own_run(open_page, story):
    story.calls("helper", "c1")
    unfinished = {"finished_at": None, "event_count": 1, "stored_count": 1}
    run = nest(story, "r1", **unfinished, changed_at=1.0)
    add(run, nested_call("deep", "d1"))
    first = nest(story, "in1", call_id="d1", parent="r1", agent="deep", started_at=11.5, changed_at=2.0)
    page = open_page(story)
    nested = event(page, 1).locator(f"[data-nested='{run.child_id}']")
    nested.locator("> summary").click()
    expect(nested.locator(f"[data-nested='{first.child_id}']")).to_have_count(1)
    add(run, nested_call("deep", "d1"))
    second = nest(story, "in2", call_id="d1", parent="r1", agent="deep", started_at=12.5, changed_at=3.0)
    second_event = nested.locator("> .nested-events > li > .event").nth(1)
    expect(second_event.locator(f"[data-nested='{second.child_id}']")).to_have_count(1)
    expect(nested.locator(f"[data-nested='{second.child_id}']")).to_have_count(1)


DEPTH = 5


def test_agents_nested_five_deep_are_shown_while_they_run(open_page, story):
    may_end = threading.Event()

    async def wait() -> str:
        """Wait for the test."""
        await asyncio.to_thread(may_end.wait, 60)
        return "the bottom"

    agent = LlmAgent(name=f"a{DEPTH}", model=ScriptedModel.saying(call("wait", "w"), "seen"), tools=[wait])
    for depth in reversed(range(DEPTH)):
        turns = call(f"a{depth + 1}", f"c{depth + 1}", request="down"), f"back at {depth}"
        agent = LlmAgent(name=f"a{depth}", model=ScriptedModel.saying(*turns), tools=[AgentTool(agent)])

    async def run() -> None:
        app = App(name=story.key.app_name, root_agent=agent, plugins=[Recorder()])
        async with Runner(app=app, session_service=DjangoSessionService()) as runner:
            message = types.Content(role="user", parts=[types.Part(text="look down")])
            names = {"user_id": story.key.user_id, "session_id": story.key.session_id}
            async for _ in runner.run_async(new_message=message, **names):
                pass

    page = open_page(story)
    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        nested = event(page, 2)
        for depth in range(1, DEPTH + 1):
            nested = nested.locator(".nested", has_text=f"of agent a{depth}").first
            expect(nested.locator("> summary")).to_contain_text("Running")
            nested.locator("> summary").click()
        expect(nested.locator("article").last).to_contain_text("wait")
    finally:
        may_end.set()
        thread.join()
    expect(nested.locator("article").last).to_contain_text("seen")
    expect(page.get_by_text("Running")).to_have_count(0)
    expect(page.locator(".nested")).to_have_count(DEPTH)
    expect(event(page, 4)).to_contain_text("back at 0")
    assert page.locator("#events [data-seq]").count() == 4
