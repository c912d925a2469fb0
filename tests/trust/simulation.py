"""Simulated pairs of runs with planted pass rates, judged by the comparison that DevUI uses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evals_app.analysis.case_verdicts import Verdict
from evals_app.analysis.comparison import Comparison, compare
from evals_app.analysis.outcomes import CaseKey, Outcomes, Past, Sameness

BASELINE = Sameness(code="baseline", models="m", data="d", judged_by="j")
CHANGED = replace(BASELINE, code="changed")


@dataclass(frozen=True)
class World:
    """Pass rates of the cases before and after a change, and the number of earlier runs beside the baseline.

    If `is_same_code`, the judged run has the code of the baseline. With `has_versions` every earlier run has code of
    its own. `confirm` repeats suspicious cases so often; 0: never.
    """

    before: Sequence[float]
    after: Sequence[float]
    earlier_runs: int = 0
    is_same_code: bool = False
    has_versions: bool = False
    confirm: int = 0


@dataclass
class Tally:
    """Counts over draws: gate failures, and draws in which the first case was called regressed or flaky."""

    draws: int = 0
    gate: int = 0
    regressed: int = 0
    flaky: int = 0

    def percent(self, count: int) -> float:
        """Return a count as a percentage of the draws."""
        return 100 * count / self.draws


def simulate(world: World, repetitions: int, draws: int, seed: int = 1) -> Tally:
    """Draw outcomes of a world and judge them."""
    source, tally = random.Random(f"{seed} {repetitions} {world}"), Tally()
    for _ in range(draws):
        result = _judge(world, repetitions, source)
        first = next(case.verdict for case in result.cases if case.key == CaseKey("0"))
        tally.draws += 1
        tally.gate += bool(result.regressions)
        tally.regressed += first == Verdict.REGRESSED
        tally.flaky += first == Verdict.FLAKY
    return tally


def _judge(world: World, repetitions: int, source: random.Random) -> Comparison:
    keys = [CaseKey(str(number)) for number in range(len(world.before))]
    now = BASELINE if world.is_same_code else CHANGED
    before = {
        key: _draw(source, rate, repetitions, BASELINE) for key, rate in zip(keys, world.before, strict=True)
    }
    after = {key: _draw(source, rate, repetitions, now) for key, rate in zip(keys, world.after, strict=True)}
    history = {
        key: _draw_history(source, rate, repetitions, world)
        for key, rate in zip(keys, world.before, strict=True)
    }
    result = compare(before, after, history)
    if not world.confirm or not result.to_confirm:
        return result
    fresh = {
        case.key: _draw(source, world.after[int(case.key.id)], world.confirm, now)
        for case in result.to_confirm
    }
    return compare(before, after, history, fresh=fresh)


def _draw(source: random.Random, rate: float, repetitions: int, same: Sameness) -> Outcomes:
    passed = sum(source.random() < rate for _ in range(repetitions))
    return Outcomes(same, passed, repetitions - passed)


def _draw_history(source: random.Random, rate: float, repetitions: int, world: World) -> list[Past]:
    if not world.earlier_runs:
        return []
    if world.has_versions:
        drawn = [_draw(source, rate, repetitions, BASELINE) for _ in range(world.earlier_runs)]
        return [
            Past(replace(BASELINE, code=f"version {number}"), item.passed, item.failed)
            for number, item in enumerate(drawn)
        ]
    total = _draw(source, rate, repetitions * world.earlier_runs, BASELINE)
    return [Past(BASELINE, total.passed, total.failed, world.earlier_runs)]
