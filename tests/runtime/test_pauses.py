"""Runs that pause at calls of models and tools, their outcomes and writes of state, in real processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from devui.asgi import application
from sessions_app.console.pause_points import PausePoints
from sessions_app.console.questions import open_questions
from sessions_app.runs import dispatch, pauses, run_list, runtime_client
from sessions_app.runs.pauses import OpenPause, PauseEnded
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, ModelCall, Run, RunPause, StateChange
from sessions_app.timeline.run_marks import read_pauses, read_session_runs
from tests.runtime.conftest import STAGE, Stage, opened_stage, read_events, read_run, until
from tests.web import over, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")

AGENT = """
from acting import Acting
from google.adk.agents import LlmAgent
from google.adk.tools import AgentTool, FunctionTool
from google.adk.tools.tool_context import ToolContext


def book(city: str, nights: int, tool_context: ToolContext) -> dict:
    tool_context.state["city"] = city
    return {"city": city, "nights": nights}


def fail() -> None:
    raise ValueError("no")


def connect(auth_type: str, token: str, city: str) -> str:
    return f"{auth_type} {len(token)} {city}"


def describe(items: list[str]) -> int:
    return len(items)


def pay(amount: int) -> str:
    return f"paid {amount}"


async def note_result(tool, args, tool_context, tool_response):
    tool_context.state["noted"] = str(tool_response)


class Failing(Acting):
    async def generate_content_async(self, llm_request, stream=False):
        raise ValueError("overloaded")
        yield


asked = LlmAgent(name="asked", model=Acting())
broken = LlmAgent(name="broken", model=Failing(model="failing"))
tools = [book, fail, connect, describe, FunctionTool(pay, require_confirmation=True)]
tools += [AgentTool(asked), AgentTool(broken)]
root_agent = LlmAgent(name="desk", model=Acting(), tools=tools, after_tool_callback=note_result)
"""

PARALLEL_AGENT = """
from acting import Acting
from google.adk.agents import LlmAgent, ParallelAgent


def book(city: str, nights: int) -> dict:
    return {"city": city, "nights": nights}


agents = [LlmAgent(name=name, model=Acting(), tools=[book]) for name in ("left", "right")]
root_agent = ParallelAgent(name="both", sub_agents=agents)
"""

BOOK = 'call book {"city": "Oslo", "nights": 2}'
TOOLS = PausePoints(tool_calls=True)
MODELS = PausePoints(model_calls=True)
RESULTS = PausePoints(tool_results=True)
ERRORS = PausePoints(errors=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(module_store: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    for app, text in (("desk", AGENT), ("both", PARALLEL_AGENT)):
        (folder / "agents" / app).mkdir(parents=True)
        (folder / "agents" / app / "agent.py").write_text(text)
    shutil.copy(STAGE / "acting.py", folder / "agents")
    async with opened_stage(folder / "agents", folder) as opened:
        yield opened


@pytest.fixture(autouse=True)
def provider(stage: Stage) -> Any:
    runtime_client.register(stage.supervisor)
    yield
    runtime_client.register(None)


@pytest_asyncio.fixture(loop_scope="module")
async def web() -> AsyncIterator[httpx.AsyncClient]:
    async with serve(application), over(application) as client:
        yield client


async def start(stage: Stage, text: str, points: PausePoints, app: str = "desk") -> tuple[AgentSession, Run]:
    session = await stage.session(app)
    return session, await stage.start(session, text, pause_at=points.as_json())


async def open_pauses(run: Run, count: int = 1) -> list[OpenPause]:
    """Return the pauses of a run, once there are so many."""
    opened: list[OpenPause] = await until(lambda: _read_pauses(run), lambda found: len(found) == count)
    return opened


async def _read_pauses(run: Run) -> list[OpenPause]:
    row = await read_run(run)
    assert row.status in Run.ACTIVE, row.error
    return await units_of_work.read(pauses.list_open_pauses, row)


async def decide(run: Run, action: str, person: str = "ann", **values: Any) -> OpenPause:
    """Decide the only pause of a run."""
    [pause] = await open_pauses(run)
    await units_of_work.write(pauses.decide, run.pk, pause.row.pk, {"action": action, **values}, person)
    return pause


async def last_text(session: AgentSession) -> str:
    return str(json.loads((await read_events(session))[-1].summary).get("text"))


async def read_state(session: AgentSession, key: str) -> object:
    """Return the last value that the session wrote to a key."""
    row = await units_of_work.read(StateChange.objects.filter(session=session, key=key).order_by("seq").last)
    assert row is not None
    return json.loads(row.value or "null")


async def read_written_keys(session: AgentSession) -> set[str]:
    return await units_of_work.read(
        lambda: set(StateChange.objects.filter(session=session).values_list("key", flat=True))
    )


async def read_open_call(session: AgentSession) -> str:
    """Return the id of the only call that waits for an answer."""

    def read() -> str:
        events = Event.objects.filter(session=session)
        [[question]] = open_questions(session, events).values()
        return question.call_id

    return await units_of_work.read(read)


def changes_of(events: list[Event]) -> list[dict[str, str]]:
    return [change for event in events for change in json.loads(event.summary).get("changed", [])]


async def test_changed_argument_reaches_tool_and_is_marked_on_its_result(stage):
    session, run = await start(stage, BOOK, TOOLS)
    pause = await decide(run, "continue", args={"city": "Rome", "nights": 3})
    assert (pause.row.agent, pause.row.target) == ("desk", "book")
    assert pause.content["args"] == {"city": "Oslo", "nights": 2}
    assert pause.content["schema"]["required"] == ["city", "nights"]
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert "'city': 'Rome', 'nights': 3" in await last_text(session)
    [change] = changes_of(await read_events(session))
    assert (change["what"], change["by"], change["tool"]) == ("arguments", "ann", "book")
    assert json.loads(change["args"]) == {"city": "Rome", "nights": 3}
    assert await units_of_work.read(RunPause.objects.count) == 0


async def test_writer_of_a_key_is_the_tool_although_the_run_could_pause(stage):
    session, run = await start(stage, BOOK, PausePoints(tool_calls=True, tools=("fail",)))
    await stage.end_of(run)
    changes = await units_of_work.read(lambda: list(StateChange.objects.filter(session=session, key="city")))
    assert [change.writer_name for change in changes] == ["book"]


async def test_run_that_goes_on_unchanged_has_no_mark(stage):
    session, run = await start(stage, BOOK, TOOLS)
    await decide(run, "continue")
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert "Oslo" in await last_text(session)
    assert changes_of(await read_events(session)) == []


async def test_answer_in_place_of_a_tool_is_its_result(stage):
    session, run = await start(stage, BOOK, TOOLS)
    await decide(run, "answer", response={"result": "fully booked"})
    await stage.end_of(run)
    assert "fully booked" in await last_text(session)
    assert [change["what"] for change in changes_of(await read_events(session))] == ["result"]
    assert await read_written_keys(session) == {"noted"}


async def test_changed_result_reaches_model_and_callbacks_and_is_marked(stage):
    session, run = await start(stage, BOOK, RESULTS)
    pause = await decide(run, "continue", result={"city": "Rome"})
    assert (pause.row.kind, pause.row.target, pause.where) == ("result", "book", "after")
    assert pause.content["result"] == {"city": "Oslo", "nights": 2}
    assert pause.content["args"] == {"city": "Oslo", "nights": 2}
    assert pause.content["state"] == {"city": "Oslo"}
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert await last_text(session) == "book answered {'city': 'Rome'}"
    assert await read_state(session, "noted") == "{'city': 'Rome'}"
    [change] = changes_of(await read_events(session))
    assert (change["what"], change["by"], change["tool"]) == ("result", "ann", "book")


async def test_result_that_is_no_object_is_shown_as_the_model_gets_it(stage):
    session, run = await start(stage, 'call describe {"items": ["a"]}', RESULTS)
    pause = await decide(run, "continue")
    assert pause.content["result"] == {"result": 1}
    await stage.end_of(run)
    assert await last_text(session) == "describe answered {'result': 1}"
    assert changes_of(await read_events(session)) == []


async def test_result_given_by_a_person_does_not_pause_again(stage):
    _, run = await start(stage, BOOK, PausePoints(tool_calls=True, tool_results=True))
    await decide(run, "answer", response={"result": "none"})
    assert (await stage.end_of(run)).status == Run.Status.DONE


async def test_changed_arguments_and_a_changed_result_are_both_marked(stage):
    session, run = await start(stage, BOOK, PausePoints(tool_calls=True, tool_results=True))
    await decide(run, "continue", args={"city": "Rome", "nights": 2})
    await decide(run, "continue", result={"city": "Lima"})
    await stage.end_of(run)
    assert [change["what"] for change in changes_of(await read_events(session))] == ["arguments", "result"]


async def test_error_of_a_tool_can_be_answered_in_its_place(stage):
    session, run = await start(stage, "call fail {}", ERRORS)
    pause = await decide(run, "answer", response={"result": "fine"})
    assert (pause.row.kind, pause.content["error"]) == ("tool_error", "ValueError: no")
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert await last_text(session) == "fail answered {'result': 'fine'}"
    assert [change["what"] for change in changes_of(await read_events(session))] == ["result"]


async def test_error_of_a_tool_goes_on_unless_a_person_answers(stage):
    _, run = await start(stage, "call fail {}", ERRORS)
    await decide(run, "continue")
    row = await stage.end_of(run)
    assert (row.status, row.error_type) == (Run.Status.FAILED, "ValueError")


async def test_error_of_a_model_can_be_answered_in_its_place(stage):
    session, run = await start(stage, 'call broken {"request": "hi"}', ERRORS)
    pause = await decide(run, "answer", response="good evening")
    assert (pause.row.kind, pause.row.agent, pause.row.target) == ("model_error", "broken", "failing")
    assert pause.content["error"] == "ValueError: overloaded"
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert "good evening" in await last_text(session)


async def test_error_that_passes_from_an_inner_agent_to_its_caller_pauses_once(stage):
    _, run = await start(stage, 'call broken {"request": "hi"}', ERRORS)
    await decide(run, "continue")
    assert (await stage.end_of(run)).status == Run.Status.FAILED


async def test_error_of_an_agent_that_was_not_chosen_pauses_at_its_caller(stage):
    points = PausePoints(errors=True, agents=("desk",))
    _, run = await start(stage, 'call broken {"request": "hi"}', points)
    pause = await decide(run, "answer", response={"result": "fine"})
    assert (pause.row.kind, pause.row.agent, pause.row.target) == ("tool_error", "desk", "broken")
    assert (await stage.end_of(run)).status == Run.Status.DONE


async def test_cancelled_tool_does_not_pause_as_a_failed_one(stage):
    _, run = await start(
        stage, 'call asked {"request": "say hi"}', PausePoints(model_calls=True, errors=True)
    )
    await decide(run, "continue")
    [pause] = await open_pauses(run)
    assert pause.row.agent == "asked"
    await dispatch.cancel_run(run)
    assert (await stage.end_of(run)).status == Run.Status.CANCELLED


@pytest.mark.parametrize(
    ("key", "agent"), [("city", "desk"), ("noted", "desk")], ids=["by a tool", "by a callback"]
)
async def test_run_pauses_before_a_state_key_is_stored(stage, key, agent):
    session, run = await start(stage, BOOK, PausePoints(state_keys=(key, "other")))
    [pause] = await open_pauses(run)
    assert (pause.row.kind, pause.row.agent, pause.row.target) == ("state", agent, key)
    assert set(pause.content["writes"]) == {key}
    assert await read_written_keys(session) == set()
    await decide(run, "continue")
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert await read_written_keys(session) == {"city", "noted"}


async def test_tool_call_in_place_of_a_model_is_carried_out(stage, web):
    session, run = await start(stage, "say hello", MODELS)
    [pause] = await open_pauses(run)
    url, htmx = f"/runs/{run.pk}/pauses/{pause.row.pk}/", {"HX-Request": "true"}
    for name, args, refusal in [
        ("fly", "{}", "is not offered by the request."),
        ("book", '{"city": 1, "nights": 2}', "Arguments of book: city is integer, not string."),
        ("book", "[]", "Arguments of the call: this is no JSON object."),
    ]:
        data = {"action": "answer", "call_tool": name, "call_args": args}
        response = await web.post(url, data=data, headers=htmx)
        assert (response.status_code, refusal in response.text) == (422, True), response.text
    data = {"action": "answer", "call_tool": "book", "call_args": '{"city": "Rome", "nights": 1}'}
    assert (await web.post(url, data=data, headers=htmx)).status_code == 204
    await decide(run, "continue")
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert await last_text(session) == "book answered {'city': 'Rome', 'nights': 1}"


async def test_call_that_needs_a_confirmation_pauses_once_it_is_approved(stage, web):
    session, run = await start(stage, 'call pay {"amount": 1}', TOOLS)
    assert (await stage.end_of(run)).status == Run.Status.WAITING
    answer = {"call_id": await read_open_call(session), "confirmed": "yes"}
    assert (await web.post(f"/runs/start/{session.pk}/", data=answer)).status_code == 303
    approved = await units_of_work.read(
        lambda: Run.objects.filter(session=session).order_by("created_at").last()
    )
    pause = await decide(approved, "continue", args={"amount": 2})
    assert pause.content["args"] == {"amount": 1}
    await stage.end_of(approved)
    assert await last_text(session) == "pay answered {'result': 'paid 2'}"
    assert [change["what"] for change in changes_of(await read_events(session))] == ["arguments"]


async def test_time_of_pauses_is_no_duration_of_the_run(stage):
    _, run = await start(stage, BOOK, TOOLS)
    [pause] = await open_pauses(run)
    hour_ago = pause.row.created_at - 3600
    await decide(run, "continue")
    row = await stage.end_of(run)
    [[began, ended]] = json.loads(row.paused_times)
    assert began <= ended
    assert row.paused_s == pytest.approx(ended - began)
    await units_of_work.write(
        Run.objects.filter(pk=run.pk).update,
        started_at=row.started_at - 3600,
        paused_s=row.paused_s + 3600,
        paused_times=json.dumps([[hour_ago, ended]]),
    )
    row = await read_run(run)
    assert row.seconds is not None
    assert row.seconds < 3600
    listed_runs = run_list.filter_runs(run_list.NO_FILTERS).filter(pk=run.pk)
    [listed] = await units_of_work.read(list, listed_runs)
    assert listed.duration == pytest.approx(row.seconds)


async def test_run_that_is_cancelled_at_a_pause_was_paused_until_then(stage):
    _, run = await start(stage, BOOK, TOOLS)
    [pause] = await open_pauses(run)
    await dispatch.cancel_run(run)
    row = await stage.end_of(run)
    assert json.loads(row.paused_times) == [[pause.row.created_at, row.finished_at]]
    assert row.paused_s == pytest.approx(row.finished_at - pause.row.created_at)


async def test_error_in_place_of_a_tool_is_a_failed_result(stage):
    session, run = await start(stage, BOOK, TOOLS)
    await decide(run, "fail", response={"error": "no rooms"})
    await stage.end_of(run)
    [result] = json.loads((await read_events(session))[-2].summary)["results"]
    assert result["failed"]


async def test_answer_in_place_of_a_model_needs_no_model_call(stage):
    session, run = await start(stage, "say hello", MODELS)
    await decide(run, "answer", response="Good evening")
    await stage.end_of(run)
    assert await last_text(session) == "Good evening"
    assert [change["what"] for change in changes_of(await read_events(session))] == ["answer"]
    assert await units_of_work.read(ModelCall.objects.filter(session=session).count) == 0


async def test_changed_request_reaches_model_and_its_record(stage):
    session, run = await start(stage, "say hello", MODELS)
    contents = [{"role": "user", "parts": [{"text": "say something else"}]}]
    pause = await decide(run, "continue", contents=contents)
    assert pause.content["contents"][-1]["parts"] == [{"text": "say hello"}]
    await stage.end_of(run)
    assert await last_text(session) == "something else"
    assert [change["what"] for change in changes_of(await read_events(session))] == ["request"]


async def test_edit_of_arguments_with_a_credential_keeps_it(stage):
    session, run = await start(
        stage, 'call connect {"auth_type": "http", "token": "s3cret", "city": "Oslo"}', TOOLS
    )
    pause = await decide(run, "continue", args={"auth_type": "http", "city": "Rome"})
    assert pause.content["args"] == {"auth_type": "http", "city": "Oslo"}
    assert pause.content["schema"] == {}
    await stage.end_of(run)
    assert "http 6 Rome" in await last_text(session)


async def test_step_in_a_branch_neither_ends_nor_stops_another_branch(stage):
    _, run = await start(
        stage, "say hello", PausePoints(model_calls=True, agents=("left", "right")), app="both"
    )
    first, second = await open_pauses(run, 2)
    left, right = (first, second) if first.row.agent == "left" else (second, first)
    contents = [{"role": "user", "parts": [{"text": BOOK}]}]
    for pause, action in ((left, "step"), (right, "continue")):
        values = {"action": action, "contents": contents}
        await units_of_work.write(pauses.decide, run.pk, pause.row.pk, values, "")
        await until(
            lambda pause=pause: units_of_work.read(RunPause.objects.filter(pk=pause.row.pk).exists),
            lambda found: not found,
        )

    def is_stepping(found: list[OpenPause]) -> bool:
        return {(pause.row.agent, pause.row.kind) for pause in found} == {
            ("left", "tool"),
            ("right", "model"),
        }

    await until(lambda: _read_pauses(run), is_stepping)
    await dispatch.cancel_run(run)
    await stage.end_of(run)


async def test_step_pauses_at_the_next_call_of_any_kind(stage):
    _, run = await start(stage, BOOK, TOOLS)
    await decide(run, "step")
    [pause] = await open_pauses(run)
    assert pause.row.kind == "model"
    await decide(run, "continue")
    assert (await stage.end_of(run)).status == Run.Status.DONE


@pytest.mark.parametrize(
    ("points", "is_paused"),
    [
        (PausePoints(tool_calls=True, condition='city = "Oslo"'), True),
        (PausePoints(tool_calls=True, condition='city == "Oslo" nights > 1'), True),
        (PausePoints(tool_calls=True, condition="city = Rome"), False),
        (PausePoints(tool_calls=True, tools=("fail",)), False),
        (PausePoints(tool_calls=True, agents=("helper",)), False),
    ],
)
async def test_run_pauses_only_at_chosen_calls(stage, points, is_paused):
    _, run = await start(stage, BOOK, points)
    if is_paused:
        await decide(run, "continue")
    assert (await stage.end_of(run)).status == Run.Status.DONE


async def test_agent_inside_a_tool_pauses(stage):
    session, run = await start(
        stage, 'call asked {"request": "say hi"}', PausePoints(model_calls=True, agents=("asked",))
    )
    pause = await decide(run, "answer", response="hi from ann")
    assert pause.row.agent == "asked"
    await stage.end_of(run)
    assert "hi from ann" in await last_text(session)


@pytest.mark.parametrize(("action", "agent"), [("step", "asked"), ("step_over", "desk")])
async def test_step_over_an_agent_pauses_after_it(stage, action, agent):
    _, run = await start(stage, 'call asked {"request": "say hi"}', TOOLS)
    await decide(run, action)
    [pause] = await open_pauses(run)
    assert (pause.row.kind, pause.row.agent) == ("model", agent)
    await decide(run, "continue")
    assert (await stage.end_of(run)).status == Run.Status.DONE


async def test_tool_that_runs_no_agent_cannot_be_stepped_over(stage, web):
    _, run = await start(stage, BOOK, TOOLS)
    [pause] = await open_pauses(run)
    assert "step_over" not in pause.actions
    url = f"/runs/{run.pk}/pauses/{pause.row.pk}/"
    response = await web.post(url, data={"action": "step_over"}, headers={"HX-Request": "true"})
    assert response.status_code == 422
    await decide(run, "continue")
    await stage.end_of(run)


async def test_calls_at_once_pause_each_by_itself(stage):
    calls = [["book", {"city": "Oslo", "nights": 1}], ["book", {"city": "Rome", "nights": 1}]]
    session, run = await start(stage, f"calls {json.dumps(calls)}", TOOLS)
    first, second = await open_pauses(run, 2)
    for pause, city in ((second, "Lima"), (first, "Cairo")):
        values = {"action": "continue", "args": {"city": city, "nights": 1}}
        await units_of_work.write(pauses.decide, run.pk, pause.row.pk, values, "")
    await stage.end_of(run)
    cities = {json.loads(change["args"])["city"] for change in changes_of(await read_events(session))}
    assert cities == {"Lima", "Cairo"}


async def test_second_decision_is_refused(stage):
    _, run = await start(stage, BOOK, TOOLS)
    pause = await decide(run, "continue")
    with pytest.raises(PauseEnded, match="does not wait for a decision any more"):
        await units_of_work.write(pauses.decide, run.pk, pause.row.pk, {"action": "continue"}, "bob")
    await stage.end_of(run)


async def test_paused_run_is_shown_and_can_be_cancelled_at_once(stage):
    session, run = await start(stage, BOOK, TOOLS)
    await open_pauses(run)
    [row] = await units_of_work.read(run_list.read_rows, [run.pk])
    assert row.status == run_list.PAUSED
    runs = await units_of_work.read(read_session_runs, session.pk)
    assert (len(runs.pause_keys), runs.pauses) == (1, [])
    assert len((await units_of_work.read(read_pauses, runs)).pauses) == 1
    await dispatch.cancel_run(run)
    assert (await stage.end_of(run)).status == Run.Status.CANCELLED
    assert "book" not in [event.author for event in await read_events(session)]
    assert await units_of_work.read(StateChange.objects.filter(session=session).count) == 0
    assert await units_of_work.read(RunPause.objects.count) == 0


async def test_paused_run_ends_after_its_limit_with_the_reason(stage):
    _, run = await start(stage, BOOK, PausePoints(tool_calls=True, limit_s=0.5))
    row = await stage.end_of(run)
    assert (row.status, row.error_type) == (Run.Status.CANCELLED, "PauseExpired")
    assert "paused before book" in row.error
    [[began, ended]] = json.loads(row.paused_times)
    assert row.paused_s == pytest.approx(ended - began)


async def test_run_that_is_cancelled_was_paused_since_the_first_of_pauses_that_overlap(stage):
    calls = [["book", {"city": "Oslo", "nights": 1}], ["book", {"city": "Rome", "nights": 1}]]
    _, run = await start(stage, f"calls {json.dumps(calls)}", TOOLS)
    first, _ = await open_pauses(run, 2)
    await units_of_work.write(pauses.decide, run.pk, first.row.pk, {"action": "continue"}, "")
    await open_pauses(run)
    await until(lambda: read_run(run), lambda row: row.paused_s)
    await dispatch.cancel_run(run)
    row = await stage.end_of(run)
    assert row.paused_s == pytest.approx(row.finished_at - first.row.created_at)


async def test_decision_counts_until_the_run_ends_its_pause_by_whatever_clock(stage):
    session, run = await start(stage, BOOK, TOOLS)
    [pause] = await open_pauses(run)
    await units_of_work.write(RunPause.objects.filter(pk=pause.row.pk).update, expires_at=0.0)
    await decide(run, "continue", args={"city": "Rome", "nights": 3})
    assert (await stage.end_of(run)).status == Run.Status.DONE
    assert "Rome" in await last_text(session)


async def test_pause_ends_either_by_a_decision_or_by_its_limit(stage):
    _, run = await start(stage, "say hello", PausePoints(tool_calls=True))
    await stage.end_of(run)
    pks = [
        await units_of_work.write(pauses.add_pause, run.pk, "tool", "desk", name, {}, 0.0, 1.0)
        for name in "ab"
    ]
    await units_of_work.write(Run.objects.filter(pk=run.pk).update, status=Run.Status.RUNNING)
    await units_of_work.write(pauses.decide, run.pk, pks[0], {"action": "continue"}, "ann")
    for pk, has_expired in zip(pks, (False, True), strict=True):
        for _ in range(2):
            assert await units_of_work.write(pauses.expire_pause, pk) == has_expired
    with pytest.raises(PauseEnded):
        await units_of_work.write(pauses.decide, run.pk, pks[1], {"action": "continue"}, "ann")
    await units_of_work.write(Run.objects.filter(pk=run.pk).update, status=Run.Status.DONE)
    await units_of_work.write(pauses.delete_pause, run.pk, pks[0])


@pytest.mark.parametrize(("count", "is_editable"), [(10_000, True), (40_000, False)], ids=["as it is", "cut"])
async def test_untouched_long_arguments_go_on(stage, web, count, is_editable):
    """Indented, with the line breaks of browsers, both have more characters than compact ones."""
    _, run = await start(stage, f"call describe {json.dumps({'items': [''] * count})}", TOOLS)
    [pause] = await open_pauses(run)
    assert ("args" in pause.content) == is_editable
    data = {"action": "continue", "args": pause.args_text.replace("\n", "\r\n")}
    response = await web.post(
        f"/runs/{run.pk}/pauses/{pause.row.pk}/", data=data, headers={"HX-Request": "true"}
    )
    assert response.status_code == 204
    assert (await stage.end_of(run)).status == Run.Status.DONE


async def test_form_checks_only_what_the_decision_uses(stage, web):
    _, run = await start(stage, BOOK, TOOLS)
    [pause] = await open_pauses(run)
    url, htmx = f"/runs/{run.pk}/pauses/{pause.row.pk}/", {"HX-Request": "true"}
    data = {"args": " " * 400_001, "response": "none left"}
    refused = await web.post(url, data={"action": "continue", **data}, headers=htmx)
    assert (refused.status_code, "more than 400,000 characters" in refused.text) == (422, True)
    assert (await web.post(url, data={"action": "answer", **data}, headers=htmx)).status_code == 204
    await stage.end_of(run)


async def test_arguments_without_a_schema_are_not_checked(stage, web):
    session, run = await start(stage, BOOK, TOOLS)
    [pause] = await open_pauses(run)
    content = json.dumps({**pause.content, "schema": {}})
    await units_of_work.write(RunPause.objects.filter(pk=pause.row.pk).update, content=content)
    data = {"action": "continue", "args": '{"city": "Rome", "nights": 3}'}
    response = await web.post(
        f"/runs/{run.pk}/pauses/{pause.row.pk}/", data=data, headers={"HX-Request": "true"}
    )
    assert response.status_code == 204, response.text
    await stage.end_of(run)
    assert "Rome" in await last_text(session)


async def test_paused_run_delays_no_run_of_another_session(stage):
    _, paused_run = await start(stage, BOOK, TOOLS)
    await open_pauses(paused_run)
    other = await stage.run(await stage.session("desk"), "say hello")
    assert other.status == Run.Status.DONE
    await decide(paused_run, "continue")
    await stage.end_of(paused_run)


async def test_form_refuses_bad_arguments_and_keeps_the_pause(stage, web):
    _, run = await start(stage, BOOK, TOOLS)
    [pause] = await open_pauses(run)
    url = f"/runs/{run.pk}/pauses/{pause.row.pk}/"
    htmx = {"HX-Request": "true"}
    for args, refusal in [
        ('{"city": "Oslo", "nights": "two"}', "Arguments of book: nights is string, not integer."),
        ('{"city": "Oslo", "nights": 2, "x": 1}', "x is not a parameter"),
        ('{"city": ', "Arguments: Line 1"),
        ("[]", "Arguments: this is no JSON object."),
    ]:
        response = await web.post(url, data={"action": "continue", "args": args}, headers=htmx)
        assert (response.status_code, refusal in response.text) == (422, True), response.text
    assert len(await open_pauses(run)) == 1
    response = await web.post(url, data={"action": "answer", "response": "none left"}, headers=htmx)
    assert response.status_code == 204
    again = await web.post(url, data={"action": "continue"}, headers=htmx)
    assert again.status_code == 409
    await stage.end_of(run)


async def test_form_refuses_contents_that_adk_does_not_accept(stage, web):
    _, run = await start(stage, "say hello", MODELS)
    [pause] = await open_pauses(run)
    url = f"/runs/{run.pk}/pauses/{pause.row.pk}/"
    data = {"action": "continue", "contents": '[{"role": "user", "parts": [{"txt": "hi"}]}]'}
    response = await web.post(url, data=data, headers={"HX-Request": "true"})
    assert response.status_code == 422
    assert "Content 1: parts.0.txt" in response.text
    await decide(run, "continue")
    await stage.end_of(run)
