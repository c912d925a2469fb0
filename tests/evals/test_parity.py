"""`make parity` reports every difference, and fails for unintended ones only."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.parity.__main__ import report
from tests.parity.compare import compare
from tests.parity.corpus import Job


def score(metric, value, status, turn=None):
    return {"metric": metric, "turn": turn, "score": value, "status": status}


ADK = [
    {
        "case": "a",
        "verdict": "passed",
        "metrics": [
            score("response_match_score", 0.5, "passed"),
            score("response_match_score", 0.5, "passed", 1),
            score("invocation_duration_v1", 0.1, "informational"),
        ],
    }
]
DEVUI = [
    {
        "case": "a",
        "repetition": repetition,
        "status": "passed",
        "metrics": [
            score("response_match_score", 0.5, "passed"),
            score("response_match_score", 0.5, "passed", 1),
            score("invocation_duration_v1", 0.9, "informational"),
            score("devui_state_match", 1.0, "passed"),
        ],
    }
    for repetition in (1, 2)
]


def test_equal_scores_of_every_repetition_are_counted():
    comparison = compare(ADK, DEVUI)
    assert (comparison.scores, comparison.verdicts, comparison.differences) == (4, 2, [])


def differences_of(change):
    ours = copy.deepcopy(DEVUI)
    change(ours)
    return [(difference.case, difference.what) for difference in compare(ADK, ours).differences]


def test_every_planted_difference_is_reported():
    def other_score(ours):
        ours[1]["metrics"][0]["score"] = 0.5000001

    def other_status(ours):
        ours[0]["metrics"][1]["status"] = "failed"

    def other_verdict(ours):
        ours[0]["status"] = "incomplete"

    def no_score(ours):
        del ours[0]["metrics"][0]

    assert differences_of(other_score) == [("a #2", "response_match_score")]
    assert differences_of(other_status) == [("a", "response_match_score, turn 1")]
    assert differences_of(other_verdict) == [("a", "verdict")]
    assert differences_of(no_score) == [("a", "response_match_score")]
    assert differences_of(lambda ours: ours.clear()) == [("a", "the case")]
    assert [difference.what for difference in compare({"crashed": "KeyError"}, DEVUI).differences] == [
        "the whole"
    ]


@pytest.mark.parametrize(("intended", "code"), [({}, 1), ({"a": "meant"}, 0), ({"b": "meant"}, 1)])
def test_only_unexpected_differences_fail(intended, code, capsys):
    job = Job("agent", Path("set.evalset.json"), {"criteria": {"response_match_score": 0.5}}, intended)
    ours = copy.deepcopy(DEVUI)
    ours[0]["status"] = "failed"
    assert report([job], [compare(ADK, ours)]) == code
    assert ("DIFFERS" in capsys.readouterr().out) == bool(code)


def test_nothing_compared_is_no_success():
    assert report([], []) == 1
