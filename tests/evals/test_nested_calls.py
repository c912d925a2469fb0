"""Tool calls of nested agents (`AgentTool`) in the tool trajectory metric, by its option."""

from __future__ import annotations

import json

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool

from evals_app.analysis.attempt_detail import detail
from evals_app.execution.nested_calls import read_nested_calls
from evals_app.metrics.catalog import INCLUDE_NESTED
from evals_app.metrics.criterion_options import option_value
from evals_app.runs.replay.policy import ReplayPolicy
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, NestedRun
from sessions_app.store.scopes import EVALUATION_KEY
from tests.evals.builders import case, evalset, turn
from tests.evals.web_pages import get_page
from tests.fake_models import ScriptedModel, call

TRAJECTORY = "tool_trajectory_avg_score"
NESTED = {"threshold": 1.0, "include_nested": True}
TOP = [{"name": "a1", "args": {"request": "down"}}]
ALL = [
    *TOP,
    *({"name": f"a{depth}", "args": {"request": "on"}} for depth in (2, 3)),
    {"name": "look", "args": {"at": "it"}},
]


def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def chain(times: int = 1) -> LlmAgent:
    """Return an agent that calls a1, which calls a2, which calls a3, which calls a tool; once a turn."""
    deepest = LlmAgent(
        name="a3", model=ScriptedModel.saying(*[call("look", at="it"), "seen"] * times), tools=[look]
    )
    middle = LlmAgent(
        name="a2",
        model=ScriptedModel.saying(*[call("a3", request="on"), "back"] * times),
        tools=[AgentTool(deepest)],
    )
    first = LlmAgent(
        name="a1",
        model=ScriptedModel.saying(*[call("a2", request="on"), "back"] * times),
        tools=[AgentTool(middle)],
    )
    return LlmAgent(
        name="counter",
        model=ScriptedModel.saying(*[call("a1", request="down"), "done"] * times),
        tools=[AgentTool(first)],
    )


def criteria(criterion) -> dict:
    return {"criteria": {TRAJECTORY: criterion}}


async def scores_of(run):
    def read():
        [attempt] = run.attempts.all()
        return attempt, {row.invocation: row for row in attempt.results.filter(metric=TRAJECTORY)}

    return await units_of_work.read(read)


async def test_nested_calls_count_only_with_the_option(play):
    document = evalset(case("a", turn("go", tools=ALL)))
    _, without = await scores_of(await play(document, chain(), criteria(1.0)))
    assert without[None].score == 0.0
    assert "nested_calls" not in without[None].details
    _, counted = await scores_of(await play(document, chain(), criteria(NESTED)))
    assert (counted[None].score, counted[0].score) == (1.0, 1.0)


async def test_invocations_of_the_attempt_never_contain_nested_calls(play):
    document = evalset(case("a", turn("go", tools=ALL)))
    attempt, _ = await scores_of(await play(document, chain(), criteria(NESTED)))
    names = [
        part["function_call"]["name"]
        for event in json.loads(attempt.actual)[0]["intermediate_data"]["invocation_events"]
        for part in (event.get("content") or {}).get("parts", [])
        if part.get("function_call")
    ]
    assert names == ["a1"]


async def test_nested_events_are_stored_without_the_marks_of_adks_evaluation(play):
    await play(evalset(case("a", turn("go", tools=ALL))), chain(), criteria(NESTED))
    nested_events = Event.objects.filter(session__nested_run__isnull=False)
    data = await units_of_work.read(lambda: list(nested_events.values_list("data", flat=True)))
    assert data
    assert not [text for text in data if EVALUATION_KEY in text]


async def test_nested_calls_belong_to_their_own_turn(play):
    document = evalset(case("a", turn("go", tools=ALL), turn("again", tools=TOP)))
    _, scores = await scores_of(await play(document, chain(times=2), criteria(NESTED)))
    assert [scores[index].score for index in (0, 1)] == [1.0, 0.0]


async def test_attempt_without_the_expected_nested_call_names_it_as_cause(play):
    expected = [*ALL[:-1], {"name": "look", "args": {"at": "that"}}]
    run = await play(evalset(case("a", turn("go", tools=expected))), chain(), criteria(NESTED))
    attempt, _ = await scores_of(run)
    assert attempt.cause == "look: other at"


async def test_page_of_the_attempt_shows_nested_calls_with_their_agent(play, web):
    run = await play(evalset(case("a", turn("go", tools=ALL))), chain(), criteria(NESTED))
    attempt, _ = await scores_of(run)
    page = await get_page(web, f"/evals/runs/{run.pk}/?attempt={attempt.pk}")
    calls = page.one("table", css="calls")
    assert "in agent a3" in " ".join(calls.text.split())
    details = await units_of_work.read(lambda: detail(run.attempts.get()))
    assert [pair.fit for pair in details.turns[0].calls] == ["same"] * 4
    assert {pair.actual["seq"] for pair in details.turns[0].calls} == {2}


async def test_nested_calls_of_a_session_are_read_with_three_queries(play, django_assert_num_queries):
    run = await play(evalset(case("a", turn("go", tools=ALL))), chain(), criteria(NESTED))
    attempt, _ = await scores_of(run)
    invocation = json.loads(attempt.actual)[0]

    def read():
        session = AgentSession.objects.get(realm=attempt.realm)
        with django_assert_num_queries(3):
            return read_nested_calls(session.pk, [invocation["invocation_id"], "unknown"])

    first, unknown = await units_of_work.read(read)
    [inner] = first.values()
    assert [(one["name"], one["agent"]) for one in inner] == [("a2", "a1"), ("a3", "a2"), ("look", "a3")]
    assert unknown == {}


async def test_steps_with_one_call_id_have_their_own_nested_calls_and_events(play):
    inner = LlmAgent(
        name="inner",
        model=ScriptedModel.saying(call("look", "x", at="sea"), "saw", call("look", "x", at="sky"), "saw"),
        tools=[look],
    )
    turns = [
        call("look", "x", at="door"),
        call("inner", "x", request="a"),
        call("inner", "x", request="b"),
        "done",
    ]
    agent = LlmAgent(name="counter", model=ScriptedModel.saying(*turns), tools=[look, AgentTool(inner)])
    expected = [
        {"name": "look", "args": {"at": "door"}},
        {"name": "inner", "args": {"request": "a"}},
        {"name": "look", "args": {"at": "sea"}},
        {"name": "inner", "args": {"request": "b"}},
        {"name": "look", "args": {"at": "sky"}},
    ]
    run = await play(evalset(case("a", turn("go", tools=expected))), agent, criteria(NESTED))
    _, scores = await scores_of(run)
    assert scores[None].score == 1.0
    details = await units_of_work.read(lambda: detail(run.attempts.get()))
    assert [pair.actual["seq"] for pair in details.turns[0].calls] == [2, 4, 4, 6, 6]


@pytest.mark.parametrize(("value", "counted"), [("true", True), ("false", False), (1, True), (False, False)])
def test_option_is_read_in_every_spelling_of_adk(value, counted):
    assert option_value({"threshold": 1.0, "includeNested": value}, INCLUDE_NESTED) is counted


async def replayed_agents(play, models: str, tools: str) -> tuple[float, list[str]]:
    """Replay a run with nested agents; return the score of the replay and the agents that ran inside calls."""
    document = evalset(case("a", turn("go", tools=ALL)))
    first = await play(document, chain(), criteria(NESTED))
    replay = ReplayPolicy.chosen(models, tools, run=first.id).as_json()
    second = await play(document, chain(), criteria(NESTED), policy=replay)
    attempt, scores = await scores_of(second)
    runs = NestedRun.objects.filter(outer__realm=attempt.realm).order_by("pk")
    return scores[None].score, await units_of_work.read(lambda: list(runs.values_list("agent", flat=True)))


async def test_replayed_models_run_the_nested_agents_again(play):
    assert await replayed_agents(play, models="recorded", tools="live") == (1.0, ["a1", "a2", "a3"])


async def test_replayed_call_of_an_agent_runs_no_nested_agent(play):
    assert await replayed_agents(play, models="recorded", tools="recorded") == (0.0, [])
