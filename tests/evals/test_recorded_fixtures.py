"""Fixtures and cases made of a session, also of one in which a person changed something at a pause."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types

from evals_app.cases.recorded_fixtures import MAX_CALLS, read_recorded_fixtures
from evals_app.files.fixtures import ToolFixtures
from sessions_app.adk import DjangoSessionService
from sessions_app.runs import runtime_client
from sessions_app.runs.run_usage import read_run_spending
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.events import CHANGES_BY_PERSON
from sessions_app.store.models import AgentSession, Run
from tests.evals.builders import case, evalset, turn, write
from tests.evals.conversation_runtime import ConversationRuntime
from tests.evals.form_filling import Browser
from tests.sessions.build import event

OWNER = {"app_name": "counter", "user_id": "ann"}
Call = tuple[str, dict[str, Any], dict[str, Any]]


async def append(service, session, invocation, author, part, changes=(), delta=None, **actions):
    added = event("", delta or {}, author=author, invocation_id=invocation)
    added.content = types.Content(role="user" if author == "user" else "model", parts=[part])
    if changes:
        added.custom_metadata = {CHANGES_BY_PERSON: list(changes)}
    for name, value in actions.items():
        setattr(added.actions, name, value)
    await service.append_event(session, added)


async def append_call(service, session, invocation, call: Call, **fields):
    tool, args, result = call
    call_id = f"c{len(session.events)}"
    call_part = types.Part(function_call=types.FunctionCall(id=call_id, name=tool, args=args))
    await append(service, session, invocation, "counter", call_part)
    response = types.FunctionResponse(id=call_id, name=tool, response=result)
    await append(service, session, invocation, "counter", types.Part(function_response=response), **fields)


async def create_session(*calls: Call, **fields: Any) -> AgentSession:
    """Create a session with one turn that makes these calls; `fields` are those of the events with results."""
    service = DjangoSessionService()
    session = await service.create_session(**OWNER, session_id="s1")
    await append(service, session, "i1", "user", types.Part(text="go"))
    for call in calls:
        await append_call(service, session, "i1", call, **fields)
    await append(service, session, "i1", "counter", types.Part(text="done"))
    return await units_of_work.read(AgentSession.objects.get, session_id="s1")


async def read_fixtures(session: AgentSession):
    fixtures = await units_of_work.read(read_recorded_fixtures, session, ["i1"])
    for tool_fixtures in fixtures.fixtures:
        ToolFixtures.model_validate(tool_fixtures)
    return fixtures


@pytest.fixture
def browser(web, folder):
    content = evalset(case("one", turn("x")), eval_set_id="set")
    write(folder.path, "set.evalset.json", json.dumps(content, indent=1))
    runtime_client.register(ConversationRuntime())
    return Browser(web)


def newest_case(folder):
    return json.loads((folder.path / "set.evalset.json").read_text())["eval_cases"][-1]


async def test_results_answer_calls_by_their_arguments(store):
    session = await create_session(
        ("get", {}, {"all": 1}), ("get", {"city": "Oslo"}, {"sky": "grey"}), ("save", {"n": 1}, {"ok": True})
    )
    assert (await read_fixtures(session)).fixtures == [
        {
            "tool_name": "get",
            "injection_configs": [
                {"match_args": {"city": "Oslo"}, "injected_response": {"sky": "grey"}},
                {"injected_response": {"all": 1}},
            ],
        },
        {
            "tool_name": "save",
            "injection_configs": [{"match_args": {"n": 1}, "injected_response": {"ok": True}}],
        },
    ]


async def test_same_call_with_other_results_answers_in_their_order(store):
    results = [{"error": "busy"}, {"error": "busy"}, {"mails": 1}]
    session = await create_session(*(("list", {}, result) for result in results))
    [fixtures] = (await read_fixtures(session)).fixtures
    assert fixtures["injection_configs"] == [
        {"injected_response": {"error": "busy"}, "devui_times": 2},
        {"injected_response": {"mails": 1}},
    ]


async def test_calls_whose_effect_is_no_result_get_no_fixture(store):
    session = await create_session(
        ("transfer_to_agent", {"agent_name": "b"}, {"result": None}),
        ("empty", {}, {}),
        ("adk_request_confirmation", {}, {"confirmed": True}),
    )
    fixtures = await read_fixtures(session)
    assert (fixtures.fixtures, fixtures.count) == ([], 0)
    assert fixtures.left_out == ["adk_request_confirmation", "empty", "transfer_to_agent"]


async def test_call_that_steers_the_agent_gets_no_fixture_and_writers_are_named(store):
    steering = await create_session(("leave", {}, {"left": True}), escalate=True)
    assert (await read_fixtures(steering)).left_out == ["leave"]
    await DjangoSessionService().delete_session(**OWNER, session_id="s1")
    writing = await create_session(("save", {}, {"ok": True}), delta={"n": 1})
    assert (await read_fixtures(writing)).writers == ["save"]


async def test_too_many_calls_are_refused(store, monkeypatch):
    monkeypatch.setattr("evals_app.cases.recorded_fixtures.MAX_CALLS", 1)
    session = await create_session(("get", {}, {"a": 1}), ("get", {}, {"a": 1}))
    assert MAX_CALLS > 1
    with pytest.raises(BadInput, match="more than 1 tool calls"):
        await read_fixtures(session)


async def test_fixtures_are_made_of_a_session_in_one_step(browser, folder, store):
    session = await create_session(("get", {"city": "Oslo"}, {"sky": "grey"}))
    page = await browser.get(f"/evals/record/?session={session.pk}&fixtures=1")
    assert "checked" in page.one("input", name="fixtures").attrs
    assert "1 fixture of 1 tool" in page.text
    await browser.send("review", target="set")
    assert '"injected_response"' in browser.page.text
    await browser.save()
    [fixtures] = newest_case(folder)["devui_fixtures"]
    assert fixtures["tool_name"] == "get"
    assert fixtures["injection_configs"][0]["injected_response"] == {"sky": "grey"}


async def test_case_without_the_box_ticked_calls_its_tools(browser, folder, store):
    session = await create_session(("get", {"city": "Oslo"}, {"sky": "grey"}))
    await browser.get(f"/evals/record/?session={session.pk}")
    await browser.send("review", target="set")
    await browser.save()
    assert "devui_fixtures" not in newest_case(folder)


async def test_answer_after_a_change_by_a_person_is_not_expected(browser, folder, store):
    changes = [{"what": "result", "by": "bob", "tool": "get"}]
    session = await create_session(("get", {"city": "Oslo"}, {"sky": "pink"}), changes=changes)
    page = await browser.get(f"/evals/record/?session={session.pk}")
    assert "Changed at a pause: result of get by bob." in " ".join(page.text.split())
    [answer] = [area for area in page.all("textarea") if area.attrs["name"].startswith("answer.")]
    assert answer.text == ""
    await browser.send("review", target="set")
    await browser.save()
    [expected] = newest_case(folder)["conversation"]
    assert "final_response" not in expected
    assert "intermediate_data" in expected


async def test_answers_of_changed_sessions_are_not_expected_if_several_become_cases(browser, folder, store):
    changed = await create_session(("get", {}, {"sky": "pink"}), changes=[{"what": "result", "tool": "get"}])
    service = DjangoSessionService()
    other = await service.create_session(**OWNER, session_id="s2")
    await append(service, other, "i2", "user", types.Part(text="hello"))
    await append(service, other, "i2", "counter", types.Part(text="good morning"))
    other_pk = (await units_of_work.read(AgentSession.objects.get, session_id="s2")).pk
    await browser.get(f"/evals/record/?session={changed.pk}&session={other_pk}")
    await browser.send("review", target="set")
    await browser.save()
    cases = json.loads((folder.path / "set.evalset.json").read_text())["eval_cases"][-2:]
    assert ["final_response" in case["conversation"][0] for case in cases] == [False, True]


async def test_answer_in_place_of_a_model_costs_nothing(store):
    service = DjangoSessionService()
    session = await service.create_session(**OWNER, session_id="s1")
    await append(service, session, "i1", "user", types.Part(text="go"))
    await append(service, session, "i1", "counter", types.Part(text="by ann"), changes=[{"what": "answer"}])

    def read():
        row = AgentSession.objects.get(session_id="s1")
        return read_run_spending(Run(session=row, invocation_id="i1", first_seq=0, last_seq=2))

    tokens, cost = await units_of_work.read(read)
    assert (tokens, cost and cost.amount) == (0, None)
