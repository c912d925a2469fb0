"""Simulated pairs of runs with planted pass rates, judged by the comparison that DevUI uses."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evals_app.analysis.case_verdicts import Verdict
from evals_app.analysis.comparison import Comparison, compare
from evals_app.analysis.outcomes import CaseKey, Outcomes, PastRun, Sameness
from evals_app.analysis.whole_run import DEFAULT_LEVEL

BASELINE = Sameness(code="baseline", models="m", data="d", judged_by="j")
CHANGED = replace(BASELINE, code="changed")


@dataclass(frozen=True)
class World:
    """Pass rates of the cases before and after a change, and the number of earlier runs, including the baseline.

    If `is_same_code`, the judged run has the code of the baseline. `confirm` repeats suspicious cases so often; 0:
    never. `follows_advice` runs the judged version again with the repetitions that the first case's reason recommends.

    Attributes:
        days: standard deviation of the logit of pass rates between runs: good and bad days.
        shared: share of the repetitions of a run that repeat one answer of their case.
        variants: number of runs that are compared with the run before, at the level shared between them. A draw counts
            as one of them that regressed, if there is one.
    """

    before: Sequence[float]
    after: Sequence[float]
    earlier_runs: int = 1
    is_same_code: bool = False
    confirm: int = 0
    days: float = 0.0
    shared: float = 0.0
    follows_advice: bool = False
    variants: int = 1


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
    """Draw outcomes of a world and judge them. Draws without advice are left out if the world follows it."""
    source, tally = random.Random(f"{seed} {repetitions} {world}"), Tally()
    for _ in range(draws):
        result = _judge(world, repetitions, source)
        if result is None:
            continue
        first = next(case.verdict for case in result.cases if case.key == CaseKey("0"))
        tally.draws += 1
        tally.gate += bool(result.regressions)
        tally.regressed += first == Verdict.REGRESSED
        tally.flaky += first == Verdict.FLAKY
    return tally


def _judge(world: World, repetitions: int, source: random.Random) -> Comparison | None:
    now = BASELINE if world.is_same_code else CHANGED
    past = [
        _draw_run(source, world, world.before, repetitions, BASELINE, str(number))
        for number in range(world.earlier_runs)
    ]
    before = past[0]
    history = {
        key: [PastRun(run[key].same, run[key].passed, run[key].failed, run[key].run) for run in past[1:]]
        for key in before
    }
    if world.variants > 1:
        return _judge_variants(source, world, repetitions, before, history)
    after = _draw_run(source, world, world.after, repetitions, now, "now")
    result = compare(before, after, history)
    if world.follows_advice:
        return _follow_advice(source, world, before, history, result, now)
    if not world.confirm or not result.to_confirm:
        return result
    fresh = _draw_run(source, world, world.after, world.confirm, now, "fresh")
    return compare(before, after, history, fresh={case.key: fresh[case.key] for case in result.to_confirm})


def _judge_variants(
    source: random.Random,
    world: World,
    repetitions: int,
    before: dict[CaseKey, Outcomes],
    history: dict[CaseKey, list[PastRun]],
) -> Comparison:
    """Judge the runs of variants as `baselines.compare_runs` does; return one that regressed, else the last."""
    for number in range(world.variants):
        after = _draw_run(source, world, world.after, repetitions, CHANGED, f"variant {number}")
        result = compare(before, after, history, level=DEFAULT_LEVEL / world.variants)
        if result.regressions:
            break
    return result


def _follow_advice(
    source: random.Random,
    world: World,
    before: dict[CaseKey, Outcomes],
    history: dict[CaseKey, list[PastRun]],
    result: Comparison,
    now: Sameness,
) -> Comparison | None:
    """Judge another run with the repetitions that the reason of the first case recommends; None if it does not."""
    first = next(case for case in result.cases if case.key == CaseKey("0"))
    if not first.looks_worse or not first.repetitions or first.of_both_runs:
        return None
    return compare(before, _draw_run(source, world, world.after, first.repetitions, now, "now"), history)


def _draw_run(
    source: random.Random,
    world: World,
    rates: Sequence[float],
    repetitions: int,
    same: Sameness,
    run: str,
) -> dict[CaseKey, Outcomes]:
    day = source.gauss(0, world.days) if world.days else 0.0
    outcomes = {}
    for number, rate in enumerate(rates):
        passed = _count_passes(source, _on_day(rate, day), repetitions, world.shared)
        outcomes[CaseKey(str(number))] = Outcomes(same, passed, repetitions - passed, run=run)
    return outcomes


def _on_day(rate: float, day: float) -> float:
    """Return a pass rate on a good or bad day."""
    if not day or rate in (0.0, 1.0):
        return rate
    return 1 / (1 + (1 - rate) / rate * math.exp(-day))


def _count_passes(source: random.Random, rate: float, repetitions: int, shared: float) -> int:
    answer = source.random() < rate
    return sum(
        answer if shared and source.random() < shared else source.random() < rate for _ in range(repetitions)
    )
