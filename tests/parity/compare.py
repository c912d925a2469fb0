"""Comparison of both sides' results by score and verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals_app.metrics.catalog import own_metrics

Json = Mapping[str, Any]

NEVER_EQUAL = frozenset({"invocation_duration_v1"})
"""Metrics that measure the machine."""

VERDICTS = {"passed": "passed", "failed": "failed", "incomplete": "not_evaluated", "error": "failed"}
"""What a status of ours is called in ADK's results."""


@dataclass(frozen=True)
class Difference:
    """Where both sides do not agree."""

    case: str
    what: str
    adk: str
    devui: str


@dataclass
class Compared:
    """How many scores and verdicts were laid beside each other, and those that differ."""

    scores: int = 0
    verdicts: int = 0
    differences: list[Difference] = field(default_factory=list)


def compare(adk: Sequence[Json] | Json, devui: Sequence[Json]) -> Compared:
    """Compare what `adk eval` said of cases with the attempts of a run (as exported to JSON).

    Every repetition of a case is held to the one that `adk eval` made.
    """
    comparison = Compared()
    if isinstance(adk, Mapping):
        comparison.differences.append(Difference("", "the whole", f"crashed: {adk['crashed']}", "ran"))
        return comparison
    theirs = {case_id["case"]: case_id for case_id in adk}
    for attempt in devui:
        case = f"{attempt['case']}" + (f" #{attempt['repetition']}" if attempt["repetition"] > 1 else "")
        other = theirs.get(attempt["case"])
        if other is None:
            comparison.differences.append(Difference(case, "the case", "missing", attempt["status"]))
            continue
        comparison.verdicts += 1
        if VERDICTS.get(attempt["status"]) != other["verdict"]:
            comparison.differences.append(Difference(case, "verdict", other["verdict"], attempt["status"]))
        comparison.differences += _scores(case, other["metrics"], attempt["metrics"], comparison)
    for name in theirs.keys() - {attempt["case"] for attempt in devui}:
        comparison.differences.append(Difference(name, "the case", theirs[name]["verdict"], "missing"))
    return comparison


def _scores(
    case: str, adk: Sequence[Json], devui: Sequence[Json], comparison: Compared
) -> Iterator[Difference]:
    """Yield the scores that differ. A metric of our own, which ADK does not have, is no difference."""
    theirs, ours = (_by_place(side) for side in (adk, devui))
    for place in [*theirs, *(place for place in ours if place not in theirs)]:
        metric, turn = place
        if metric in NEVER_EQUAL or metric in own_metrics():
            continue
        left, right = _score_and_status(theirs.get(place)), _score_and_status(ours.get(place))
        if left is None and turn is not None and right is None:
            continue
        comparison.scores += 1
        if left != right:
            where = metric if turn is None else f"{metric}, turn {turn}"
            yield Difference(case, where, _text(left), _text(right))


def _by_place(scores: Sequence[Json]) -> dict[tuple[str, int | None], Json]:
    return {(score["metric"], score["turn"]): score for score in scores}


def _score_and_status(score: Json | None) -> tuple[float | None, str] | None:
    """Return score and status; None: nothing was said. What was not evaluated of a turn says nothing."""
    if score is None or (score["turn"] is not None and score["status"] == "not_evaluated"):
        return None
    return score["score"], score["status"]


def _text(score: tuple[float | None, str] | None) -> str:
    return "nothing" if score is None else f"{score[1]} {'' if score[0] is None else repr(score[0])}".strip()
