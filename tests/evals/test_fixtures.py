"""Fixtures of tools in evalset files: what answers a call, in which order, and what a run tells about them."""

from __future__ import annotations

import json

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from evals_app.analysis.fixture_use import read_run_fixtures
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.replay.policy import ReplayPolicy
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn
from tests.evals.replay_world import Asks, OutsideWorld, weather_agent
from tests.pages import html

Status = EvalAttempt.Status


def response(sky, **more):
    return {"injected_response": {"sky": sky}, **more}


def fixture(*injections, tool="get_weather", **more):
    return {"tool_name": tool, "injection_configs": list(injections), **more}


def document(*fixtures, shared=(), cities=("Rome",), answer="It is stormy."):
    """Return an evalset with one case that asks for the weather in cities, turn by turn."""
    turns = [turn(f"weather in {city}", answer) for city in cities]
    own = {"devui_fixtures": list(fixtures)} if fixtures else {}
    return {**evalset(case("a", *turns, **own)), **({"devui_fixtures": list(shared)} if shared else {})}


async def read_attempts(run):
    return await units_of_work.read(lambda: list(run.attempts.order_by("case_index", "repetition")))


async def read_skies(run):
    """Return the answers of the first attempt, without their first words."""
    [attempt, *_] = await read_attempts(run)
    texts = [turn["final_response"]["parts"][0]["text"] for turn in json.loads(attempt.actual)]
    return [text.removeprefix("It is ").removesuffix(".") for text in texts]


async def read_unused(run):
    fixtures = await units_of_work.read(lambda: read_run_fixtures(run))
    return list(fixtures.unused)


async def test_fixture_answers_and_the_tool_is_not_called(play):
    world = OutsideWorld()
    run = await play(document(fixture(response("stormy"))), weather_agent(world))
    [attempt] = await read_attempts(run)
    assert (run.passed, world.tool_calls) == (1, [])
    [answer] = json.loads(attempt.fixture_answers)
    call = json.loads(attempt.actual)[0]["intermediate_data"]["invocation_events"][0]["content"]["parts"][0]
    assert answer == {
        "turn": 0,
        "agent": "counter",
        "tool": "get_weather",
        "call": call["function_call"]["id"],
        "source": "case",
        "number": 1,
    }


async def test_fixture_of_case_replaces_that_of_evalset_for_the_same_tool(play):
    shared = [fixture(response("foggy"))]
    assert await read_skies(await play(document(shared=shared), weather_agent(OutsideWorld()))) == ["foggy"]
    run = await play(document(fixture(response("stormy")), shared=shared), weather_agent(OutsideWorld()))
    assert await read_skies(run) == ["stormy"]
    assert await read_unused(run) == ["fixture 1 of get_weather in the evalset"]


async def test_first_fixture_with_the_call_s_arguments_answers(play):
    world = OutsideWorld()
    fixtures = fixture(
        response("hot", match_args={"city": "Rome"}),
        response("cold", devui_match_args={"city": {"regex": "^O"}}),
    )
    run = await play(document(fixtures, cities=("Oslo", "Rome", "Lima")), weather_agent(world))
    assert (await read_skies(run), world.tool_calls) == (["cold", "hot", "sunny"], ["Lima"])


async def test_first_call_fails_and_second_works(play):
    world = OutsideWorld()
    error = {"injected_http_error_code": 503, "error_message": "Try later."}
    fixtures = fixture({"injected_error": error, "devui_times": 1}, response("clear"))
    document_ = document(fixtures, cities=("Rome", "Rome"))

    def after(tool, args, tool_context, tool_response):
        if "error_code" in tool_response:
            return {"sky": f"unknown ({tool_response['error_message']})"}
        return None

    run = await play(document_, weather_agent(world, after_tool_callback=after))
    assert await read_skies(run) == ["unknown (Try later.)", "clear"]


async def test_fixture_answers_before_the_recording_and_the_recording_before_the_tool(play):
    first = await play(document(cities=("Rome", "Oslo")), weather_agent(OutsideWorld()))
    world = OutsideWorld(sky="rainy")
    policy = ReplayPolicy.chosen("live", "recorded", run=first.id).as_json()
    fixtures = fixture(response("stormy", match_args={"city": "Oslo"}))
    run = await play(document(fixtures, cities=("Rome", "Oslo")), weather_agent(world), policy=policy)
    assert (await read_skies(run), world.tool_calls) == (["sunny", "stormy"], [])


async def test_call_without_fixture_ends_the_attempt_under_the_policy_fail(play):
    fixtures = fixture(response("stormy", match_args={"city": "Rome"}))
    policy = ReplayPolicy.chosen(tools="fail").as_json()
    passing = await play(document(fixtures), weather_agent(OutsideWorld()), policy=policy)
    failing = await play(document(fixtures, cities=("Oslo",)), weather_agent(OutsideWorld()), policy=policy)
    [attempt] = await read_attempts(failing)
    assert (passing.passed, attempt.status) == (1, Status.ERROR)
    assert attempt.error.endswith("Give it a fixture, or let tools be live or recorded.")
    assert (await units_of_work.read(lambda: read_run_fixtures(failing))).policy == "fail"


async def test_callback_that_guards_a_tool_guards_its_fixture(play):
    def guard(tool, args, tool_context):
        return {"sky": "secret"}

    run = await play(
        document(fixture(response("stormy"))), weather_agent(OutsideWorld(), before_tool_callback=guard)
    )
    [attempt] = await read_attempts(run)
    assert (await read_skies(run), json.loads(attempt.fixture_answers)) == (["secret"], [])


async def test_faults_differ_between_repetitions_and_are_the_same_in_each_run(play):
    fixtures = fixture(response("stormy", injection_probability=0.5))

    async def draw(seed=None):
        injection = {**fixtures["injection_configs"][0], **({"random_seed": seed} if seed else {})}
        run = await play(document(fixture(injection)), weather_agent(OutsideWorld()), num_runs=12)
        return [len(json.loads(attempt.fixture_answers)) for attempt in await read_attempts(run)]

    draws = await draw()
    assert set(draws) == {0, 1}
    assert draws == await draw()
    assert draws != await draw(7)


async def test_run_names_fixtures_that_no_call_used(play):
    fixtures = fixture(
        response("hot", match_args={"city": "Rome"}), response("x", match_args={"city": "Lima"})
    )
    run = await play(document(fixtures), weather_agent(OutsideWorld()))
    assert await read_unused(run) == ["fixture 2 of get_weather in the case 'a'"]


async def test_run_of_some_cases_says_nothing_about_fixtures_of_the_evalset(play):
    cases = [case(name, turn("weather in Rome", "It is sunny.")) for name in ("a", "b")]
    shared = [fixture(response("hot", match_args={"city": "Lima"}))]
    content = {**evalset(*cases), "devui_fixtures": shared}
    assert await read_unused(await play(content, weather_agent(OutsideWorld()), case_ids=["a"])) == []
    assert await read_unused(await play(content, weather_agent(OutsideWorld()))) == [
        "fixture 1 of get_weather in the evalset"
    ]


async def test_fixtures_answer_the_tools_of_an_agent_that_is_used_as_a_tool(play):
    world = OutsideWorld()
    inner = weather_agent(world)
    inner.name = "inner"
    outer = LlmAgent(name="counter", model=Asks(model="m", world=world), tools=[AgentTool(inner)])
    run = await play(document(fixture(response("stormy"))), outer)
    [attempt] = await read_attempts(run)
    assert (run.passed, world.tool_calls) == (1, [])
    assert [(answer["agent"], answer["turn"]) for answer in json.loads(attempt.fixture_answers)] == [
        ("inner", 0)
    ]


async def test_model_mocks_the_calls_that_no_injection_fits(play, monkeypatch):
    async def invent(self, llm_request, stream=False):
        is_call = "You are now simulating the following tool call" in llm_request.contents[0].parts[0].text
        text = '{"sky": "invented"}' if is_call else '{"stateful_parameters": []}'
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))

    monkeypatch.setattr(Gemini, "generate_content_async", invent)
    mocked = fixture(
        response("hot", match_args={"city": "Rome"}), mock_strategy_type="MOCK_STRATEGY_TOOL_SPEC"
    )
    world = OutsideWorld()
    run = await play(document(mocked, cities=("Rome", "Oslo")), weather_agent(world))
    assert (await read_skies(run), world.tool_calls, await read_unused(run)) == (["hot", "invented"], [], [])


async def test_pages_mark_answered_calls_and_name_unused_fixtures(play, web):
    shared = [fixture(response("x", match_args={"city": "Lima"}), tool="transfer_to_agent")]
    run = await play(document(fixture(response("stormy")), shared=shared), weather_agent(OutsideWorld()))
    [attempt] = await read_attempts(run)
    page = html.parse((await web.get(f"/evals/runs/{run.pk}/?attempt={attempt.pk}")).content.decode())
    assert "fixture 1 of the case" in page.one("table", class_="calls").text
    assert "1 unused fixture: fixture 1 of transfer_to_agent in the evalset." in page.text
    assert "answer tool calls first; tools answer the others" in page.text
    case_text = (
        html.parse((await web.get("/evals/counter/set/?case=0")).content.decode()).one(id="case-body-0").text
    )
    assert "fixtures of get_weather" in case_text
    assert "fixtures of transfer_to_agent from the evalset" in case_text


async def test_result_that_a_callback_changes_is_whole_at_the_next_call(play):
    def spoil(tool, args, tool_context, tool_response):
        tool_response["sky"] += "!"

    agent = weather_agent(OutsideWorld(), after_tool_callback=spoil)
    run = await play(document(fixture(response("stormy")), cities=("Rome", "Oslo")), agent)
    assert await read_skies(run) == ["stormy!", "stormy!"]


@pytest.mark.parametrize("shared", [True, False])
async def test_fixture_for_an_unknown_tool_is_refused_before_anything_runs(play, shared):
    wrong = fixture(response("stormy"), tool="get_wether")
    world = OutsideWorld()
    run = await play(document(shared=[wrong]) if shared else document(wrong), weather_agent(world))
    assert (run.status, run.error_type, world.model_calls) == (EvalRun.Status.FAILED, "BadInput", 0)
    where = "evalset" if shared else "case 'a'"
    assert run.error == f"devui_fixtures of the {where}: the agent has no tool 'get_wether'."
    assert run.hint == "Correct tool_name to one of get_weather, or remove the object."


class Editor(BaseAgent):
    """Runs the agent in its field, which is no sub-agent."""

    writer: LlmAgent

    async def _run_async_impl(self, ctx):
        async for event in self.writer.run_async(ctx):
            yield event


async def test_fixture_answers_the_tool_of_an_agent_in_a_field_of_a_custom_class(play):
    world = OutsideWorld()
    writer = weather_agent(world)
    writer.name = "writer"
    run = await play(document(fixture(response("stormy"))), Editor(name="counter", writer=writer))
    assert (run.error, run.passed, world.tool_calls) == ("", 1, [])
