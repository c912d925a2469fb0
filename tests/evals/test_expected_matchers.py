"""Matchers of arguments in the tool calls that a case expects."""

from __future__ import annotations

import json

import pytest

from evals_app.files import BadFile, parse
from evals_app.models import EvalAttempt
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn
from tests.evals.replay_world import OutsideWorld, weather_agent

CRITERIA = {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}}


def document(city, **more):
    expected = {"name": "get_weather", "args": {"city": city, **more}}
    return evalset(case("a", turn("weather in Rome", "It is sunny.", tools=[expected])))


async def play_case(play, city, criteria=None, **more):
    run = await play(
        document(city, **more), weather_agent(OutsideWorld()), config={"criteria": criteria or CRITERIA}
    )
    [attempt] = await units_of_work.read(lambda: list(run.attempts.all()))
    return attempt


@pytest.mark.parametrize(
    ("matchers", "status"),
    [
        ({"regex": "^R"}, EvalAttempt.Status.PASSED),
        ({"type": "string"}, EvalAttempt.Status.PASSED),
        ({"regex": "^O"}, EvalAttempt.Status.FAILED),
    ],
)
async def test_call_whose_argument_fits_is_the_expected_one(play, matchers, status):
    attempt = await play_case(play, {"devui_match": matchers})
    assert attempt.status == status


@pytest.mark.parametrize("match_type", ["EXACT", "IN_ORDER", "ANY_ORDER"])
async def test_matchers_follow_the_rules_of_the_metric(play, match_type):
    criteria = {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": match_type}}
    assert (await play_case(play, {"devui_match": {"any": True}}, criteria)).status == "passed"
    assert (await play_case(play, {"devui_match": {"any": True}}, criteria, more=1)).status == "failed"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"devui_match": {"glob": "R*"}}, "city has the unknown matcher 'glob'"),
        ({"devui_match": "R"}, "city: devui_match needs an object of matchers"),
        ({"devui_match": {"any": True}, "b": 1}, "city: devui_match needs an object of matchers"),
    ],
)
def test_wrong_matchers_are_refused_in_the_file(value, message):
    with pytest.raises(BadFile) as refusal:
        parse(json.dumps(document(value)), "a.evalset.json", "a")
    assert message in str(refusal.value.problems)
