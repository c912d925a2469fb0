"""Tools called by hand in the process of their agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from devui.asgi import application
from sessions_app.runs import agent_loading, runtime_client
from sessions_app.runs.tool_calls import call_tool
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound, RuntimeUnavailable
from sessions_app.store.models import AgentSession, Artifact, LogRecord, Trace
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import SessionKey
from tests.pages.html import Element, parse
from tests.runtime.conftest import Stage, pid_of, until
from tests.web import over, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def provider(stage: Stage) -> Any:
    runtime_client.register(stage.supervisor)
    yield
    runtime_client.register(None)


async def call(tool: str, app: str = "handy", seconds: float = 30, agent: str = "handy", **body: Any) -> Any:
    """Call a tool as the page does."""
    return await call_tool(app, {"tool": tool, "agent": agent, "time_limit_s": seconds, **body})


async def test_call_returns_result_state_artifacts_log_and_duration(stage):
    outcome = await call("book", args={"city": "Paris", "nights": 2})
    assert outcome["status"] == "done"
    assert outcome["result"] == {"city": "Paris", "nights": 2, "breakfast": False, "was": None}
    assert outcome["state_delta"] == {"city": "Paris", "user:nights": 2}
    assert outcome["artifacts"] == [
        {"name": "booking.txt", "version": 0, "mime_type": "text/plain", "size": 8}
    ]
    assert [(line["source"], line["message"]) for line in outcome["log"]] == [
        ("log", "books Paris"),
        ("stdout", "printed Paris"),
    ]
    assert 0 <= outcome["seconds"] < 30


async def test_call_stores_nothing(stage):
    models = (AgentSession, Artifact, LogRecord, Trace)

    def count() -> list[int]:
        return [model.objects.count() for model in models]

    before = await units_of_work.read(count)
    await call("book", args={"city": "Paris", "nights": 2})
    await call("fail", args={"reason": "no"})
    assert await units_of_work.read(count) == before


async def test_tool_reads_state_of_a_session_and_of_the_call(stage):
    key = SessionKey("", "handy", "ann", "s1")
    await units_of_work.write(writes.create_session, key, {"last": "Rome", "user:nights": 1})
    session = {"user_id": "ann", "session_id": "s1"}
    args = {"city": "Paris", "nights": 2}
    assert (await call("book", args=args, **session))["result"]["was"] == "Rome"
    outcome = await call("book", args=args, state={"last": "Oslo"}, **session)
    assert outcome["result"]["was"] == "Oslo"
    with pytest.raises(NotFound, match="No session 'gone'"):
        await call("book", args=args, user_id="ann", session_id="gone")


@pytest.mark.parametrize(
    ("args", "reason", "hint"),
    [
        ({"city": "Paris", "nights": "2"}, "nights is string, not integer", "city, nights, breakfast"),
        ({"city": "Paris"}, "nights is missing", "city, nights, breakfast"),
        ({"city": "Paris", "nights": 2, "town": "x"}, "town is not a parameter", "city, nights, breakfast"),
    ],
)
async def test_arguments_against_the_schema_are_refused(stage, args, reason, hint):
    with pytest.raises(BadInput) as refusal:
        await call("book", args=args)
    assert refusal.value.message == f"Arguments of book: {reason}."
    assert refusal.value.hint == f"Its parameters: {hint}."


async def test_tool_or_agent_that_does_not_exist_is_refused(stage):
    with pytest.raises(NotFound) as refusal:
        await call("nothing")
    assert "No tool 'nothing'" in refusal.value.message
    assert "Lost of handy could not list its tools: ConnectionError: no server" in refusal.value.message
    assert "book, fail, hang" in refusal.value.hint
    assert "dice_roll" in refusal.value.hint
    with pytest.raises(NotFound, match="no LLM agent 'nobody'"):
        await call("book", agent="nobody")


async def test_name_that_two_agents_have_needs_the_agent(stage):
    with pytest.raises(BadInput, match=r"Several agents have a tool 'fail': handy, helper\."):
        await call("fail", agent="", args={"reason": "no"})
    assert (await call("fail", agent="helper", args={"reason": "no"}))["agent"] == "helper"


async def test_tool_of_a_toolset_is_called(stage):
    assert (await call("dice_roll", args={"sides": 6}))["result"] == 6


async def test_error_of_a_tool_has_a_traceback_without_credentials(stage):
    outcome = await call("fail", args={"reason": "no"})
    assert (outcome["status"], outcome["error"]["type"]) == ("failed", "ValueError")
    assert outcome["error"]["message"] == "no: token=[redacted]"
    assert 'agent.py", line' in outcome["error"]["traceback"]
    assert "s3cr3t" not in str(outcome)
    assert [line["message"] for line in outcome["log"]] == ["about to fail"]


async def test_tool_that_calls_sys_exit_fails_and_its_process_lives(stage):
    pid = await pid_of(stage, "handy")
    outcome = await call("leave")
    assert outcome["error"]["message"] == "The tool called sys.exit(4)."
    assert await pid_of(stage, "handy") == pid


async def test_tool_that_ends_the_process_leaves_a_line(stage):
    with pytest.raises(RuntimeUnavailable, match=r"The process of agent 'handy' ended by itself \(.*3"):
        await call("die")
    assert (await call("dice_roll", args={"sides": 4}))["result"] == 4


async def test_tool_that_hangs_is_cancelled_at_its_time_limit(stage):
    pid = await pid_of(stage, "handy")
    outcome = await call("hang", seconds=0.5)
    assert (outcome["status"], outcome["has_stopped"], outcome["result"]) == ("timed_out", True, None)
    assert [line["message"] for line in outcome["log"]] == ["waits"]
    assert (await stage.health("handy"))["active_runs"] == 0
    assert await pid_of(stage, "handy") == pid


async def test_tool_that_ignores_its_cancellation_is_said_to_go_on(stage):
    outcome = await call("ignore_cancellation", seconds=0.5)
    assert (outcome["status"], outcome["has_stopped"]) == ("timed_out", False)


async def test_call_of_a_blocked_process_ends_with_a_line_and_the_process_goes_on(stage, monkeypatch):
    monkeypatch.setattr("sessions_app.runs.tool_calls.GRACE_S", 1.0)
    pid = await pid_of(stage, "napper")
    with pytest.raises(
        RuntimeUnavailable, match=r"nap did not return within 0\.5 s, and the process .* does not"
    ):
        await call("nap", "napper", 0.5, "napper", args={"seconds": 4})
    assert await pid_of(stage, "napper") == pid


async def test_caller_who_leaves_cancels_the_call(stage):
    task = asyncio.create_task(call("hang"))

    async def active() -> Any:
        return (await stage.health("handy"))["active_runs"]

    await until(active, lambda count: count == 1)
    task.cancel()
    await until(active, lambda count: count == 0)


async def test_state_that_a_tool_changes_in_place_is_in_the_delta(stage):
    outcome = await call("add_to_cart", args={"item": "b"}, state={"cart": ["a"]})
    assert outcome["state_delta"] == {"cart": ["a", "b"]}


async def test_tool_that_waits_for_something_cancelled_has_failed(stage):
    outcome = await call("await_cancelled")
    assert (outcome["status"], outcome["error"]["type"]) == ("failed", "CancelledError")


async def test_number_of_any_size_is_an_integer(stage):
    outcome = await call("dice_roll", args={"sides": 10**400})
    assert outcome["status"] == "done"


async def test_large_result_is_returned_and_a_larger_one_cut(stage):
    assert len((await call("answer_much"))["result"]) == 1_000_000


async def test_tool_that_needs_a_confirmation_asks_and_takes_the_answer(stage):
    asking = await call("confirm", args={"amount": 5})
    assert "requires confirmation" in asking["result"]["error"]
    assert asking["actions"]["requestedToolConfirmations"]
    confirmed = await call("confirm", args={"amount": 5}, confirmation="confirmed")
    assert confirmed["result"] == "paid 5"
    rejected = await call("confirm", args={"amount": 5}, confirmation="rejected")
    assert rejected["result"] == {"error": "This tool call is rejected."}


async def test_long_running_tool_returns_its_first_answer(stage):
    outcome = await call("wait_for_person", args={"question": "Why?"})
    assert outcome["is_long_running"]
    assert outcome["result"]["status"] == "pending"


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("asked", "asked runs an agent, which calls models and needs a session."),
        (
            "google_search",
            "google_search has no declaration: the model or the server of the model carries it out.",
        ),
        ("count_up", "count_up is a generator, which ADK runs as a node of a run."),
        ("broken", "broken cannot declare its parameters: TypeError: no schema"),
    ],
)
async def test_tool_that_cannot_be_called_by_itself_is_refused(stage, tool, reason):
    with pytest.raises(BadInput) as refusal:
        await call(tool)
    assert refusal.value.message == reason


async def test_tool_with_an_odd_schema_is_called(stage):
    assert (await call("odd", args={"a": 1, "b": [2]}))["result"] == {"a": 1, "b": [2]}


@pytest_asyncio.fixture(loop_scope="module")
async def web(stage: Stage, settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI, whose agents are those of the stage and loaded."""
    settings.DEVUI_AGENTS_DIR = str(stage.supervisor.folder.root)
    await agent_loading.load_agent("handy")
    async with over(application) as client:
        yield client


BOOK = "/agents/handy/tools/book/?agent=handy"


async def post_form(web: httpx.AsyncClient, address: str, status: int = 200, **fields: str) -> Element:
    """Send the form of a tool as a browser without scripts does, and return the page."""
    answer = await web.post(address, data={"seconds": "30", **fields})
    assert answer.status_code == status, answer.text[:2000]
    return parse(answer.content)


def find_alert(page: Element) -> Element:
    """Return the problem below the form of a page."""
    return page.one("div", id="tool-call").one("div", role="alert")


async def test_agent_page_links_the_form_of_each_tool(web):
    page = parse((await web.get("/agents/handy/")).content)
    links = [link.attrs["href"] for link in page.all("a", "button-small") if "/tools/" in link.attrs["href"]]
    assert BOOK in links
    assert "/agents/handy/tools/fail/?agent=helper" in links
    assert not [link for link in links if "/asked/" in link or "/google_search/" in link]
    assert "It runs an agent, which calls models and needs a session" in page.one("main").text
    assert "The model or the server of the model carries it out" in page.one("main").text


async def test_form_without_scripts_calls_the_tool_and_answers_with_the_page(web):
    form = parse((await web.get(BOOK)).content).one("form", "tool-call-form")
    assert form.attrs["method"] == "post"
    names = [control.attrs["name"] for tag in ("input", "select") for control in form.all(tag)]
    assert names == ["args.city", "args.nights", "from_session", "seconds", "args.breakfast", "confirmation"]
    fields = {"args.city": "Paris", "args.nights": "2", "args.breakfast": "true", "state": '{"last": "Rome"}'}
    page = await post_form(web, form.attrs["action"], **fields)
    assert page.one("h1").text == "book"
    outcome = page.one("section", "tool-outcome")
    assert '"breakfast": true' in outcome.one("pre", id="tool-call-result").text
    assert '"was": "Rome"' in outcome.one("pre", id="tool-call-result").text
    for text in ("user:nights", "booking.txt", "books Paris", "printed Paris"):
        assert text in outcome.text
    assert page.one("input", name="args.city").attrs["value"] == "Paris"


async def test_wrong_argument_is_refused_at_its_field(web):
    page = await post_form(web, BOOK, 422, **{"args.city": "Paris", "args.nights": "two"})
    assert page.one("input", name="args.nights").attrs["aria-invalid"] == "true"
    assert "nights: This is no whole number." in page.one("form", "tool-call-form").text
    assert not page.all("section", "tool-outcome")


async def test_wrong_json_argument_is_refused_in_one_line(web):
    page = await post_form(web, BOOK, 422, args_json='{"city": "Paris", "nights": "2"}')
    alert = find_alert(page)
    assert "Arguments of book: nights is string, not integer." in alert.text
    assert "Its parameters: city, nights, breakfast." in alert.text
    assert json.loads(page.one("textarea", name="args_json").text) == {"city": "Paris", "nights": "2"}


async def test_html_in_a_result_is_shown_as_text(web):
    page = await post_form(web, "/agents/handy/tools/answer_html/?agent=handy")
    outcome = page.one("section", "tool-outcome")
    assert "<script>alert(1)</script>" in outcome.text
    assert not outcome.all("script")
    assert not outcome.all("img")


async def test_large_result_is_cut_on_the_page(web):
    page = await post_form(web, "/agents/handy/tools/answer_much/?agent=handy")
    assert "980,000 characters left out" in page.one("section", "tool-outcome").text
    assert "The API returns up to 5,000,000 characters" in page.one("section", "tool-outcome").text
    assert len(str(page.text)) < 100_000


async def test_error_of_a_tool_is_shown_with_its_traceback(web):
    page = await post_form(web, "/agents/handy/tools/fail/?agent=helper", **{"args.reason": "<b>no</b>"})
    outcome = page.one("section", "tool-outcome")
    assert "ValueError: <b>no</b>: token=[redacted]" in outcome.text
    assert "agent.py" in outcome.one("pre", "traceback").text


async def test_end_of_the_process_is_shown_in_a_line(web):
    page = await post_form(web, "/agents/handy/tools/die/?agent=handy", 422)
    assert "The process of agent 'handy' ended by itself" in find_alert(page).text


async def test_tool_that_the_description_does_not_have_is_not_found(web):
    answer = await web.get("/agents/handy/tools/nothing/")
    assert answer.status_code == 404
    assert "has no tool &#x27;nothing&#x27;" in answer.text


async def test_session_of_another_app_is_refused(web):
    key = SessionKey("", "napper", "ann", "other")
    session = await units_of_work.write(writes.create_session, key, {"last": "Rome"})
    fields = {"args.city": "Paris", "args.nights": "2", "from_session": str(session.pk)}
    page = await post_form(web, BOOK, 422, **fields)
    assert f"App 'handy' has no session {session.pk}." in find_alert(page).text


async def test_program_calls_a_tool_by_the_api(web):
    session = await units_of_work.write(
        writes.create_session, SessionKey("", "handy", "ann", "s2"), {"last": "Rome"}
    )
    address = "/api/v1/apps/handy/tools/{}/call"
    body = {"args": {"city": "Paris", "nights": 2}, "session": session.pk}
    answer = await web.post(address.format("book"), json=body)
    assert answer.status_code == 200
    assert answer.json()["result"]["was"] == "Rome"
    refused = await web.post(address.format("book"), json={"args": {"city": 1, "nights": 2}})
    assert refused.status_code == 400
    assert refused.json() == {
        "detail": "Arguments of book: city is integer, not string.",
        "code": "bad_input",
        "hint": "Its parameters: city, nights, breakfast.",
    }
    assert (await web.post(address.format("nothing"), json={})).status_code == 404
    for body in ('{"args": {"city": NaN}}', '{"state": {"a": "\\ud800"}}'):
        unsendable = await web.post(
            address.format("book"), content=body, headers={"Content-Type": "application/json"}
        )
        assert (unsendable.status_code, unsendable.json()["code"]) == (400, "bad_input"), unsendable.text
    too_long = await web.post(address.format("book"), json={"time_limit_s": 301})
    assert too_long.status_code == 422


async def test_browser_that_closes_the_page_cancels_the_call(web, stage):
    async def active() -> Any:
        return (await stage.health("handy"))["active_runs"]

    async with serve(application) as address, httpx.AsyncClient(base_url=f"http://{address}") as client:
        task = asyncio.create_task(client.post("/agents/handy/tools/hang/", data={"seconds": "60"}))
        await until(active, lambda count: count == 1)
        task.cancel()
        await until(active, lambda count: count == 0)
