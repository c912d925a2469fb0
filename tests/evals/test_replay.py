"""Replay of a recording: tools and models are not called, differences are reported and are no errors."""

from __future__ import annotations

import json

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool

from evals_app.execution.replay.recording import RecordedResult
from evals_app.execution.replay.tool_results import NotRecorded, RecordedResults
from evals_app.metrics.invocations import tool_calls
from evals_app.models import EvalAttempt
from evals_app.runs.replay.policy import ReplayPolicy
from evals_app.runs.replay.request_diff import compare_requests
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import AgentSession, ModelCall
from tests.evals.builders import case, evalset, turn
from tests.evals.replay_world import Asks, OutsideWorld, weather_agent

Status = EvalAttempt.Status


ONCE = evalset(case("a", turn("weather in Rome", "It is sunny.")))
DOCUMENT = evalset(case("a", turn("weather in Rome", "It is sunny."), turn("and in Oslo", "It is sunny.")))


def result(tool="f", agent="a", **args):
    return RecordedResult(agent, tool, args, 0, 1, {"n": len(args)})


def again(run, models="live", tools="live"):
    return ReplayPolicy.chosen(models, tools, run=run.id).as_json()


async def attempt_of(run):
    return await units_of_work.read(lambda: run.attempts.select_related("session").get())


async def test_a_run_counts_the_tokens_and_the_calls_of_each_model(play):
    attempt = await attempt_of(await play(DOCUMENT, weather_agent(OutsideWorld())))
    assert json.loads(attempt.by_model) == {
        "m": {"prompt": 40, "output": 8, "thoughts": 0, "cached": 0, "calls": 4}
    }
    assert (attempt.prompt_tokens, attempt.output_tokens, attempt.total_tokens) == (40, 8, 48)
    assert attempt.model_seconds is not None


async def test_recorded_tools_are_not_called_but_their_state_is_written(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))
    world = OutsideWorld(sky="rainy")
    replayed = await play(DOCUMENT, weather_agent(world), policy=again(first, tools="recorded"))
    assert (replayed.passed, world.tool_calls, world.model_calls) == (1, [], 4)
    attempt = await attempt_of(replayed)
    assert json.loads(attempt.differences) == []
    calls = [
        call["args"]["city"] for invocation in json.loads(attempt.actual) for call in tool_calls(invocation)
    ]
    assert calls == ["Rome", "Oslo"]

    def state():
        from sessions_app.store.state import history as history

        return history.state_at(AgentSession.objects.get(pk=attempt.session_id)).merge_scopes()

    assert (await units_of_work.read(state))["last_city"] == "Oslo"


async def test_changed_prompt_is_shown_beside_recorded_one(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))
    replayed = await play(
        DOCUMENT, weather_agent(OutsideWorld(), "Look it up twice."), policy=again(first, tools="recorded")
    )
    differences = json.loads((await attempt_of(replayed)).differences)
    assert [(difference["turn"], difference["agent"], difference["call"]) for difference in differences] == [
        (0, "counter", 1),
        (0, "counter", 2),
        (1, "counter", 1),
        (1, "counter", 2),
    ]
    assert all(difference["instruction"]["now"].startswith("Look it up twice.") for difference in differences)
    assert all("history" not in difference and "tools" not in difference for difference in differences)


async def test_recorded_models_are_not_called_and_callbacks_see_their_responses(play):
    responses = []

    def after(callback_context, llm_response):
        responses.append(llm_response.usage_metadata.total_token_count)
        callback_context.state["answers"] = len(responses)

    def before(callback_context, llm_request):
        llm_request.append_instructions(["Be brief."])

    first = await play(
        DOCUMENT, weather_agent(OutsideWorld(), before_model_callback=before, after_model_callback=after)
    )
    responses.clear()
    world = OutsideWorld()
    replayed = await play(
        DOCUMENT,
        weather_agent(world, before_model_callback=before, after_model_callback=after),
        policy=again(first, "recorded"),
    )
    attempt = await attempt_of(replayed)
    assert (replayed.passed, world.model_calls, world.tool_calls) == (1, 0, ["Rome", "Oslo"])
    assert responses == [12] * 4
    assert json.loads(attempt.differences) == []
    assert (attempt.total_tokens, json.loads(attempt.by_model)) == (0, {})
    by_callback = await units_of_work.read(
        lambda: set(
            ModelCall.objects.filter(session=attempt.session_id).values_list("by_callback", flat=True)
        )
    )
    assert by_callback == {True}


async def test_models_and_tools_recorded_need_nothing_outside(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))
    world = OutsideWorld()
    replayed = await play(DOCUMENT, weather_agent(world), policy=again(first, "recorded", "recorded"))
    assert (replayed.passed, world.model_calls, world.tool_calls) == (1, 0, [])


async def test_different_tool_result_shows_in_the_next_request(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))
    replayed = await play(DOCUMENT, weather_agent(OutsideWorld(sky="rainy")), policy=again(first, "recorded"))
    differences = json.loads((await attempt_of(replayed)).differences)
    first_change = differences[0]["history"]
    assert [item["change"] for item in first_change] == ["removed", "added"]
    assert "sunny" in json.dumps(first_change[0]["content"])
    assert "rainy" in json.dumps(first_change[1]["content"])


async def test_unrecorded_call_ends_attempt_and_lists_recordings(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))
    world = OutsideWorld()
    replayed = await play(DOCUMENT, weather_agent(world, city="Paris"), policy=again(first, tools="recorded"))
    attempt = await attempt_of(replayed)
    assert (attempt.status, attempt.error_type, world.tool_calls) == (Status.ERROR, "NotRecorded", [])
    assert "Agent counter calls get_weather(city='Paris')" in attempt.error
    assert "get_weather(city='Rome')" in attempt.error
    assert attempt.traceback == ""


async def test_tools_that_may_not_be_called_end_the_attempt(play):
    world = OutsideWorld()
    policy = ReplayPolicy.chosen(tools="fail").as_json()
    attempt = await attempt_of(await play(DOCUMENT, weather_agent(world), policy=policy))
    assert (attempt.status, world.tool_calls) == (Status.ERROR, [])
    assert "tools may not be called in this run" in attempt.error


async def test_unrecorded_case_is_reported(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))
    other = evalset(case("b", turn("weather in Rome", "It is sunny.")))
    attempt = await attempt_of(
        await play(other, weather_agent(OutsideWorld()), policy=again(first, tools="recorded"))
    )
    assert attempt.error_type == "NotRecorded"
    assert f"Run {first.id} has no recording of the case 'b'" in attempt.error


async def test_agent_used_as_tool_is_replayed_inside(play):
    def nested(world):
        inner = weather_agent(world)
        inner.name = "inner"
        outer = LlmAgent(name="counter", model=Asks(model="m", world=world), tools=[AgentTool(inner)])
        return outer

    first = await play(ONCE, nested(OutsideWorld()))
    attempt = await attempt_of(first)
    assert first.passed == 1, (attempt.error, attempt.actual)
    world = OutsideWorld()
    replayed = await play(ONCE, nested(world), policy=again(first, "recorded"))
    assert (replayed.passed, world.model_calls, world.tool_calls) == (1, 0, ["Rome"])
    tools = OutsideWorld()
    replayed = await play(ONCE, nested(tools), policy=again(first, tools="recorded"))
    assert (replayed.passed, tools.model_calls, tools.tool_calls) == (1, 2, [])


async def test_a_live_connection_cannot_be_answered_from_a_recording(play):
    first = await play(ONCE, weather_agent(OutsideWorld()))
    config = {"criteria": {"response_match_score": 0.5}, "live_model_config": {"timeout_seconds": 5}}
    attempt = await attempt_of(
        await play(ONCE, weather_agent(OutsideWorld()), config, policy=again(first, "recorded"))
    )
    assert "spoken with live" in attempt.error


async def test_recording_without_recorder_is_reported(play):
    first = await play(ONCE, weather_agent(OutsideWorld()))
    await units_of_work.write(ModelCall.objects.all().delete)
    attempt = await attempt_of(
        await play(ONCE, weather_agent(OutsideWorld()), policy=again(first, "recorded"))
    )
    assert "the recording has no call of any model" in attempt.error


async def test_a_live_run_can_be_compared_with_a_recording(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))
    replayed = await play(DOCUMENT, weather_agent(OutsideWorld(), "Be kind."), policy=again(first))
    assert len(json.loads((await attempt_of(replayed)).differences)) == 4


def test_results_match_by_name_and_arguments_then_by_order():
    recorded = [result(x=1), result(x=2), result(x=1), result("g", x=1), result(agent="b", x=1)]
    results = RecordedResults(recorded)
    results_taken = [results.take("a", "f", {"x": 1}) for _ in range(4)]
    assert [(recorded.index(item) if not again else "again") for item, again in results_taken][:2] == [0, 0]
    assert [
        results_taken[0][0] is recorded[0],
        results_taken[1][0] is recorded[2],
        results_taken[2][0] is recorded[4],
    ] == [True] * 3
    assert results_taken[3] == (recorded[2], True)
    with pytest.raises(NotRecorded, match="no result of that call"):
        results.take("a", "f", {"x": True})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"models": "sometimes"}, "Models cannot be 'sometimes'"),
        ({"tools": "never"}, "Tools cannot be 'never'"),
        ({"tools": "recorded"}, "from a recording"),
    ],
)
def test_invalid_policy_is_refused(value, message):
    with pytest.raises(BadInput, match=message):
        ReplayPolicy.chosen(**value)


def test_requests_are_compared_by_relevant_fields_only():
    call = {"functionCall": {"id": "1", "name": "f", "args": {}}}
    then = {
        "model": "m",
        "system_instruction": "a",
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [call]}],
        "tools": [{"name": "f"}, {"name": "g"}],
        "config": {"temperature": 1, "http_options": {"retry": 1}},
    }
    other_ids = {"functionCall": {"id": "2", "name": "f", "args": {}}}
    assert (
        compare_requests(
            then, {**then, "contents": [then["contents"][0], {"role": "model", "parts": [other_ids]}]}
        )
        == {}
    )
    now = {
        "model": "n",
        "system_instruction": "b",
        "contents": [then["contents"][0]],
        "tools": [{"name": "f", "description": "new"}, {"name": "h"}],
        "config": {"temperature": 2},
    }
    assert compare_requests(then, now) == {
        "model": {"recorded": "m", "now": "n"},
        "instruction": {"recorded": "a", "now": "b"},
        "history": [{"change": "removed", "place": 2, "content": then["contents"][1]}],
        "tools": {"added": ["h"], "removed": ["g"], "changed": ["f"]},
        "declarations": {"f": {"recorded": {"name": "f"}, "now": {"name": "f", "description": "new"}}},
        "settings": {"temperature": {"recorded": 1, "now": 2}},
    }


def test_too_long_declaration_is_named_but_not_stored():
    long = [{"name": "f", "description": "x" * 20_000}]
    assert compare_requests({"tools": [{"name": "f"}]}, {"tools": long}) == {"tools": {"changed": ["f"]}}


async def test_the_newest_run_is_named_last_and_any_by_the_beginning_of_its_id(play):
    first = await play(DOCUMENT, weather_agent(OutsideWorld()))

    async def replayed(name):
        policy = {"models": "live", "tools": "recorded", "source": {"run": name}}
        run = await play(DOCUMENT, weather_agent(OutsideWorld()), policy=policy)
        return run.id, json.loads(run.policy)["source"]["run"]

    second, source = await replayed(first.id[:10])
    assert source == first.id
    assert (await replayed("last"))[1] == second
    with pytest.raises(NotFound, match="no run 'nonsense'"):
        await replayed("nonsense")


def test_moved_contents_are_reported_as_moved():
    contents = [{"role": "user", "parts": [{"text": word}]} for word in ("a", "b", "c", "d")]
    then = {"contents": contents}
    assert compare_requests(then, {"contents": [contents[0], contents[2], contents[1], contents[3]]}) == {
        "history": [{"change": "moved", "place": 2, "content": contents[2]}]
    }
