"""Expected state is compared key by key, at the end and after each turn, as a metric."""

from __future__ import annotations

import json

import pytest

from evals_app.metrics import expected_state
from evals_app.models import EvalAttempt, MetricResult
from sessions_app.store.database import units_of_work
from tests.evals import agents
from tests.evals.builders import case, evalset, turn

STATE_MATCH = "devui_state_match"


@pytest.mark.parametrize(
    ("expected", "actual", "matches"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (None, expected_state.MISSING, True),
        (None, None, True),
        (0, expected_state.MISSING, False),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ("é", "e\u0301", False),
    ],
)
def test_a_key_matches_when_its_json_does(expected, actual, matches):
    values = {} if actual is expected_state.MISSING else {"k": actual}
    (check,) = expected_state.check_state({"k": expected}, values, 0)
    assert check.matches is matches
    assert ("actual" in check.as_json()) == ("k" in values)


def test_the_score_is_the_share_of_keys_and_other_keys_do_not_count():
    checks = expected_state.check_state(
        {"a": 1, "user:b": 2, "c": 3, "d": None}, {"a": 1, "user:b": 9, "z": 0}
    )
    assert expected_state.matching_share(checks) == 0.5
    assert [check.path for check in checks if not check.matches] == ["user:b", "c"]


def counts(ctx, text):
    number = ctx.session.state.get("user:n", 0) + 1
    return agents.writes(f"count {number}", **{"user:n": number, "last": text})


async def results_of(run):
    def read():
        attempt = run.attempts.get()
        return attempt, list(attempt.results.filter(metric=STATE_MATCH).order_by("invocation"))

    return await units_of_work.read(read)


async def test_case_with_expected_state_is_judged_without_order(play):
    document = evalset(
        case(
            "a", turn("go", "count 1"), turn("on", "count 2"), final_session_state={"user:n": 2, "last": "on"}
        )
    )
    run = await play(document, counts)
    attempt, [overall] = await results_of(run)
    assert (attempt.status, overall.score, overall.status) == (EvalAttempt.Status.PASSED, 1.0, "passed")
    assert json.loads(run.config)["criteria"][STATE_MATCH] == 1.0


async def test_actual_state_is_in_the_details_by_turn(play):
    document = evalset(
        case(
            "a",
            turn("go", "count 1"),
            turn("on", "count 2"),
            final_session_state={"user:n": 3},
            devui_turn_states=[{"user:n": 1, "absent": None}, {"last": "on", "never": 1}],
        )
    )
    run = await play(document, counts)
    attempt, results = await results_of(run)
    by_turn = {result.invocation: result for result in results}
    assert attempt.status == EvalAttempt.Status.FAILED
    assert by_turn[None].score == 3 / 5
    assert (by_turn[0].score, by_turn[1].score) == (1.0, 0.5)
    wrong = [check for check in json.loads(by_turn[None].details)["state"] if not check["matches"]]
    assert wrong == [
        {"path": "never", "expected": 1, "turn": 1, "matches": False},
        {"path": "user:n", "expected": 3, "actual": 2, "turn": None, "matches": False},
    ]


async def test_state_threshold_is_configurable_and_ignores_other_cases(play):
    document = evalset(
        case("some", turn("go", "count 1"), final_session_state={"user:n": 1, "last": "no"}),
        case("none", turn("go", "count 1")),
    )
    run = await play(document, counts, {"response_match_score": 0.5, STATE_MATCH: 0.5})
    assert run.passed == 2
    results = await units_of_work.read(
        lambda: list(MetricResult.objects.filter(metric=STATE_MATCH).values_list("attempt__case_id", "score"))
    )
    assert results == [("some", 0.5)]


async def test_an_evalset_without_expected_states_does_not_hear_of_the_metric(play):
    run = await play(evalset(case("a", turn("go", "count 1"))), counts)
    assert STATE_MATCH not in json.loads(run.config)["criteria"]


async def test_case_without_any_judgement_says_so(play):
    run = await play(evalset(case("a", turn("go", "count 1"))), counts, {STATE_MATCH: 1.0})
    attempt, [overall] = await results_of(run)
    assert (attempt.status, overall.status) == (EvalAttempt.Status.INCOMPLETE, "not_evaluated")
    assert overall.reason == "The case expects no state, and nothing else is judged."
