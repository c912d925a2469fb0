"""Tables of `make trust`: what is planted, how often it is found, and the targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.trust.simulation import Tally, World, simulate

REPETITIONS = (1, 2, 3, 5, 10)
FALSE_ALARMS = 5.0
"""Percent of runs without a change that may fail."""
MIN_DRAWS = 40
SLACK = 5.0
"""Points by which a found drop may stay below its target."""
REFUTED = 0.001
"""Chance of a result at most so small refutes that its target is met: a few hundred cells are looked at."""

SOLID, FLAKY = [1.0] * 14, [0.5] * 6

Targets = Mapping[int, float]
"""Percent found, by repetitions."""


@dataclass(frozen=True)
class Row:
    """A world at several numbers of repetitions. `targets`: percent found; None: false alarms."""

    name: str
    world: World
    targets: Targets | None = None
    counts: str = "gate"
    draws_divisor: int = 1

    @property
    def is_null(self) -> bool:
        """Tell whether nothing has changed, so that what is found is a false alarm."""
        return self.targets is None


@dataclass(frozen=True)
class Cell:
    """Result of a row at a number of repetitions: percent found, and whether it meets its target."""

    percent: float
    met: bool
    target: float | None


def unchanged(name: str, rates: Sequence[float], divisor: int = 1, **more: float | bool) -> Iterator[Row]:
    """Yield rows in which nothing has changed, with 1, 6 and 21 earlier runs."""
    for runs in (1, 6, 21):
        world = World(rates, rates, runs, **more)  # type: ignore[arg-type]
        yield Row(f"{name}, {_count_runs(runs)}", world, draws_divisor=divisor)


def dropped(before: Sequence[float], after: float, count: int = 1) -> list[float]:
    """Return rates of which the first ones dropped."""
    return [after] * count + list(before[count:])


def _count_runs(runs: int) -> str:
    return f"{runs} earlier run{'s' * (runs > 1)}"


DEPENDENT_WORLDS: Mapping[
    str, tuple[Mapping[str, float], Mapping[int, tuple[float, float, float, float]]]
] = {
    "independent": ({}, {3: (64, 86, 55, 66), 5: (82, 98, 68, 88), 10: (99, 100, 98, 100)}),
    "good and bad days (0.3)": ({"days": 0.3}, {3: (36, 56, 46, 56), 10: (56, 76, 95, 100)}),
    "good and bad days (0.6)": ({"days": 0.6}, {3: (24, 31, 43, 56), 10: (22, 38, 88, 98)}),
    "half of the answers shared": ({"shared": 0.5}, {5: (62, 71, 50, 58)}),
    "all answers shared": ({"shared": 1.0}, {3: (26, 40, 30, 27), 10: (24, 37, 35, 33)}),
}
"""Worlds in which outcomes of a run depend on each other: how, and by repetitions the percent of falls to be found: of
all cases from 0.7 to 0.5 and of one from 0.99 to 0.3, each with 5 and with 20 earlier runs.
"""


def _dependent_rows() -> Iterator[Row]:
    for name, (more, _) in DEPENDENT_WORLDS.items():
        for runs in (5, 20):
            world = World([0.7] * 20, [0.7] * 20, runs, **more)  # type: ignore[arg-type]
            yield Row(f"20 cases at 0.7, {name}, {_count_runs(runs)}", world)


def _dependent_drops() -> Iterator[Row]:
    falls = {
        "all of 20: 0.7 to 0.5": ([0.7] * 20, [0.5] * 20),
        "one of 20: 0.99 to 0.3": ([0.99] * 20, dropped([0.99] * 20, 0.3)),
    }
    for name, (more, targets) in DEPENDENT_WORLDS.items():
        for number, (fall, (before, after)) in enumerate(falls.items()):
            for place, runs in enumerate((5, 20)):
                world = World(before, after, runs, **more)  # type: ignore[arg-type]
                percents = {count: figures[2 * number + place] for count, figures in targets.items()}
                yield Row(f"{fall}, {name}, {_count_runs(runs)}", world, percents)


FALSE_ALARM_ROWS = [
    *unchanged("one case at 0.5", [0.5]),
    *unchanged("20 cases at 1.0", [1.0] * 20),
    *unchanged("20 cases at 0.9", [0.9] * 20),
    *unchanged("20 cases at 0.7", [0.7] * 20),
    *unchanged("20 cases at 0.5", [0.5] * 20),
    *unchanged("20 cases at 0.3", [0.3] * 20),
    *unchanged("14 solid and 6 flaky cases", SOLID + FLAKY),
    *unchanged("20 cases at 0.5, confirmed 5 times", [0.5] * 20, confirm=5),
    *unchanged("20 cases at 0.9, confirmed 5 times", [0.9] * 20, confirm=5),
    *unchanged("60 cases at 0.9", [0.9] * 60, 3),
    *unchanged("200 cases at 0.9", [0.9] * 200, 8),
    *unchanged("20 cases at 0.9, four variants", [0.9] * 20, 2, variants=4),
    *unchanged("20 cases at 0.5, same code", [0.5] * 20, is_same_code=True),
    *_dependent_rows(),
]

DROP_ROWS = [
    Row(
        "one of 20: 1.0 to 0.5, 6 earlier runs (case)",
        World([1.0] * 20, dropped([1.0] * 20, 0.5), 6),
        {3: 47, 5: 72, 10: 97},
        "regressed",
    ),
    Row(
        "three of 20: 0.9 to 0.5, 6 earlier runs",
        World([0.9] * 20, dropped([0.9] * 20, 0.5, 3), 6),
        {3: 28, 5: 46, 10: 86},
    ),
    Row(
        "one of 20: 1.0 to 0, 6 earlier runs",
        World([1.0] * 20, dropped([1.0] * 20, 0.0), 6),
        {2: 100, 3: 100, 5: 100, 10: 100},
    ),
    Row(
        "one of 20: 1.0 to 0, 40 earlier runs",
        World([1.0] * 20, dropped([1.0] * 20, 0.0), 40),
        {1: 100, 2: 100, 3: 100, 5: 100, 10: 100},
    ),
    Row(
        "one of 20: 0.9 to 0.3, 6 earlier runs",
        World([0.9] * 20, dropped([0.9] * 20, 0.3), 6),
        {3: 22, 5: 36, 10: 81},
    ),
    Row(
        "one of 20: 0.9 to 0, 6 earlier runs",
        World([0.9] * 20, dropped([0.9] * 20, 0.0), 6),
        {2: 7, 3: 68, 5: 100, 10: 100},
    ),
    Row(
        "1.0 to 0.5 beside 13 solid and 6 flaky, 6 earlier runs",
        World(SOLID + FLAKY, dropped(SOLID + FLAKY, 0.5), 6),
        {3: 25, 5: 59, 10: 96},
    ),
    Row("one of 20: 0.9 to 0.5, 21 earlier runs", World([0.9] * 20, dropped([0.9] * 20, 0.5), 21), {10: 60}),
    Row(
        "all of 20: 0.7 to 0.45, 1 earlier run",
        World([0.7] * 20, [0.45] * 20, 1),
        {1: 26, 3: 76, 5: 99},
    ),
    Row(
        "one of 20: 1.0 to 0, 6 earlier runs, confirmed 5 times",
        World([1.0] * 20, dropped([1.0] * 20, 0.0), 6, confirm=5),
        {1: 100, 2: 100, 3: 100},
    ),
    Row(
        "one of 20: 0.9 to 0, 6 earlier runs, confirmed 5 times",
        World([0.9] * 20, dropped([0.9] * 20, 0.0), 6, confirm=5),
        {1: 70, 2: 87},
    ),
    Row(
        "one of 20: 1.0 to 0, 6 earlier runs, four variants",
        World([1.0] * 20, dropped([1.0] * 20, 0.0), 6, variants=4),
        {3: 100, 5: 100, 10: 100},
    ),
    *(
        Row(
            f"one of 20: {before} to {after}, 21 earlier runs, recommended repetitions",
            World([before] * 20, dropped([before] * 20, after), 21, follows_advice=True),
            {1: 80, 3: 80, 5: 80},
            "regressed",
        )
        for before, after in ((1.0, 0.5), (0.9, 0.3), (0.9, 0.5))
    ),
    *_dependent_drops(),
]


def compute(row: Row, draws: int) -> dict[int, Cell]:
    """Simulate a row at all numbers of repetitions."""
    draws = max(MIN_DRAWS, draws // row.draws_divisor)
    return {count: _judge_cell(row, count, simulate(row.world, count, draws)) for count in REPETITIONS}


def _judge_cell(row: Row, repetitions: int, tally: Tally) -> Cell:
    """Return a cell. Its target is met unless the draws refute it: exact binomial tests, since shares are small."""
    if not tally.draws:
        return Cell(0.0, True, None)
    count = getattr(tally, row.counts)
    percent = tally.percent(count)
    if row.is_null:
        return Cell(percent, _chance_of_at_least(count, tally.draws, FALSE_ALARMS) > REFUTED, None)
    target = (row.targets or {}).get(repetitions)
    if target is None:
        return Cell(percent, True, None)
    missed = tally.draws - count
    return Cell(percent, _chance_of_at_least(missed, tally.draws, 100 - (target - SLACK)) > REFUTED, target)


def _chance_of_at_least(count: int, draws: int, percent: float) -> float:
    """Return the chance of so many draws, or more, of which each has a probability in percent."""
    share = percent / 100
    return math.fsum(
        math.comb(draws, number) * share**number * (1 - share) ** (draws - number)
        for number in range(count, draws + 1)
    )
