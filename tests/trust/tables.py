"""Tables of `make trust`: what is planted, how often it is found, and the targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.trust.simulation import Tally, World, simulate

REPETITIONS = (1, 2, 3, 5, 10)
FALSE_ALARMS = 5.0
"""Percent of runs without a change that may fail."""
MIN_DRAWS = 40
SLACK = 5.0
"""Points by which a found drop may stay below its target."""

SOLID, FLAKY = [1.0] * 14, [0.5] * 6


@dataclass(frozen=True)
class Row:
    """A world at several numbers of repetitions. `targets`: percent found, by repetitions; None: false alarms."""

    name: str
    world: World
    targets: dict[int, float] | None = None
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


def unchanged(name: str, rates: Sequence[float], divisor: int = 1, **more: int | bool) -> Iterator[Row]:
    """Yield rows in which nothing has changed, with 0, 5 and 20 earlier runs."""
    for runs in (0, 5, 20):
        world = World(rates, rates, runs, **more)  # type: ignore[arg-type]
        yield Row(f"{name}, {runs} earlier runs", world, draws_divisor=divisor)


def dropped(before: Sequence[float], after: float, count: int = 1) -> list[float]:
    """Return rates of which the first ones dropped."""
    return [after] * count + list(before[count:])


FALSE_ALARM_ROWS = [
    *unchanged("one case at 0.5", [0.5]),
    *unchanged("20 cases at 1.0", [1.0] * 20),
    *unchanged("20 cases at 0.9", [0.9] * 20),
    *unchanged("20 cases at 0.7", [0.7] * 20),
    *unchanged("20 cases at 0.5", [0.5] * 20),
    *unchanged("14 solid and 6 flaky cases", SOLID + FLAKY),
    *unchanged("20 cases at 0.5, each run other code", [0.5] * 20, has_versions=True),
    *unchanged("20 cases at 0.5, confirmed 5 times", [0.5] * 20, confirm=5),
    *unchanged("20 cases at 0.9, confirmed 5 times", [0.9] * 20, confirm=5),
    *unchanged("200 cases at 0.9", [0.9] * 200, 8),
    Row("20 cases at 0.5, same code, 5 earlier runs", World([0.5] * 20, [0.5] * 20, 5, is_same_code=True)),
]

DROP_ROWS = [
    Row(
        "one of 20: 1.0 to 0.5, 5 earlier runs (case)",
        World([1.0] * 20, dropped([1.0] * 20, 0.5), 5),
        {3: 47, 5: 72, 10: 100},
        "regressed",
    ),
    Row(
        "three of 20: 0.9 to 0.5, 5 earlier runs",
        World([0.9] * 20, dropped([0.9] * 20, 0.5, 3), 5),
        {1: 8, 3: 28, 5: 51, 10: 86},
    ),
    Row(
        "one of 20: 1.0 to 0, 5 earlier runs",
        World([1.0] * 20, dropped([1.0] * 20, 0.0), 5),
        {2: 100, 3: 100, 5: 100, 10: 100},
    ),
    Row(
        "one of 20: 0.9 to 0, 5 earlier runs",
        World([0.9] * 20, dropped([0.9] * 20, 0.0), 5),
        {2: 12, 3: 68, 5: 100, 10: 100},
    ),
    Row(
        "1.0 to 0.5 beside 13 solid and 6 flaky, 5 earlier runs",
        World(SOLID + FLAKY, dropped(SOLID + FLAKY, 0.5), 5),
        {2: 18, 3: 25, 5: 59, 10: 96},
    ),
    Row("one of 20: 0.9 to 0.5, 20 earlier runs", World([0.9] * 20, dropped([0.9] * 20, 0.5), 20), {10: 60}),
    Row(
        "one of 20: 1.0 to 0, 5 earlier runs, confirmed 5 times",
        World([1.0] * 20, dropped([1.0] * 20, 0.0), 5, confirm=5),
        {1: 100, 2: 100, 3: 100},
    ),
    Row(
        "one of 20: 0.9 to 0, 5 earlier runs, confirmed 5 times",
        World([0.9] * 20, dropped([0.9] * 20, 0.0), 5, confirm=5),
        {1: 70, 2: 87},
    ),
]


def compute(row: Row, draws: int) -> dict[int, Cell]:
    """Simulate a row at all numbers of repetitions."""
    draws = max(MIN_DRAWS, draws // row.draws_divisor)
    return {count: _judge_cell(row, count, simulate(row.world, count, draws)) for count in REPETITIONS}


def _judge_cell(row: Row, repetitions: int, tally: Tally) -> Cell:
    """Return a cell. Its target is met unless the draws refute it: by more than three standard errors."""
    percent = tally.percent(getattr(tally, row.counts))
    if row.is_null:
        target = 0.0 if row.world.is_same_code else FALSE_ALARMS
        return Cell(percent, percent <= target + _noise(target, tally.draws), None)
    target_or_none = (row.targets or {}).get(repetitions)
    if target_or_none is None:
        return Cell(percent, True, None)
    least = target_or_none - SLACK
    return Cell(percent, percent >= least - _noise(least, tally.draws), target_or_none)


def _noise(percent: float, draws: int) -> float:
    """Return three standard errors of a percentage of draws."""
    share = min(1.0, max(0.0, percent / 100))
    return 300 * float((share * (1 - share) / draws) ** 0.5)
