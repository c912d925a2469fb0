"""The metric of expected states: the share of expected keys that have their value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evals_app.files.content import expected_states
from evals_app.metrics.expected_state import check_state, matching_share
from evals_app.metrics.own import MetricInput, MetricOutcome, OwnMetric


def score_state(data: MetricInput) -> MetricOutcome:
    """Return the share of expected keys that match: overall, and of each turn that expects any."""
    checks = [
        (expected.turn, check_state(expected.values, data.states.at(expected.turn), expected.turn))
        for expected in expected_states(data.case)
    ]
    reached = len(data.states.turns)
    missed = [turn + 1 for turn, _ in checks if turn is not None and turn >= reached]
    all_checks = [check for _, of_turn in checks for check in of_turn]
    return MetricOutcome(
        matching_share(all_checks),
        f"Turn {', '.join(map(str, missed))} was not reached." if missed else "",
        {"state": [check.as_json() for check in all_checks]},
        {
            turn: MetricOutcome(
                matching_share(of_turn), details={"state": [check.as_json() for check in of_turn]}
            )
            for turn, of_turn in checks
            if turn is not None
        },
    )


def describe_mismatch(details: Mapping[str, Any]) -> str:
    """Name the first key that is not as expected."""
    checks = [check for check in details.get("state") or [] if isinstance(check, Mapping)]
    key = next((str(check.get("path", "")) for check in checks if not check.get("matches")), "")
    return f"state {key}: not as expected" if key else ""


STATE_MATCH = OwnMetric(
    name="devui_state_match",
    description="Share of expected state keys that have their value.",
    computed="computed from the expected state, where a case has one",
    score=score_state,
    applies=lambda case: bool(expected_states(case)),
    otherwise="The case expects no state",
    cause=describe_mismatch,
    former_names=("state_match", "final_session_state"),
)
