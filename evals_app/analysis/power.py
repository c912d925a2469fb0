"""Power of a planned run: the chance that its comparison will show a drop, and that of a false alarm. Pure.

Simulated runs are decided by the tests of `comparison.compare`. A case is assumed to pass at the rate of its earlier
outcomes, drawn slightly to that of all cases: one pass of one does not mean that a case never fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random

from evals_app.analysis.case_verdicts import MAX_REPETITIONS, SUFFICIENT
from evals_app.analysis.change_tests import (
    OutcomeTable,
    adjust_smallest,
    at_most_probability,
    at_most_probability_in_all,
    expect_passes,
)
from evals_app.analysis.dependence import OutcomeCounts, effective_total
from evals_app.analysis.outcomes import CaseKey
from evals_app.analysis.whole_run import DEFAULT_LEVEL
from sessions_app.store.errors import BadInput

DEFAULT_DROP = 0.5
REPETITIONS = (1, 2, 3, 5, 10)
"""Repetitions that are always computed, beside the planned ones."""
MANY_CASES = 3
"""Number of cases that drop together in the second column."""
MIN_DRAWS, MAX_DRAWS = 40, 200
DRAWN_CASES = 8_000
"""Cases to draw for each chance; many cases get fewer draws, so that 200 take less than two seconds."""
_NORMAL_ERROR = 0.56
"""Largest error of the normal approximation of a sum of independent events, times its deviation (Berry and Esseen)."""


@dataclass(frozen=True)
class Chances:
    """Chances that a comparison reports a regression: after a drop of one case or of `MANY_CASES`, and of none.

    The tests are exact, so a false alarm is never more probable than the level, whatever a simulation comes to.
    """

    repetitions: int
    one_case: float
    many_cases: float
    false_alarm: float


@dataclass(frozen=True)
class Shortage:
    """A case that cannot regress in the planned run even if it always fails, and what would change that.

    `repetitions` of the run would do, or `earlier_needed` earlier outcomes in all, if they all pass. None: that does
    not help.
    """

    key: CaseKey
    earlier: OutcomeCounts | None
    repetitions: int | None
    earlier_needed: int | None

    @property
    def remedy(self) -> str:
        """The reason why the case cannot regress, and what to do."""
        if self.earlier is None:
            return "no comparable earlier outcomes: run the baseline with it first"
        outcomes = f"{self.earlier.passed} of {self.earlier.total} passed earlier"
        if not self.earlier.passed:
            return f"{outcomes}: it cannot get worse"
        numbers = ((self.repetitions, "repetitions"), (self.earlier_needed, "earlier outcomes in all"))
        needs = " or ".join(f"{number} {what}" for number, what in numbers if number)
        return f"{outcomes}: needs {needs or 'more earlier outcomes'}"


@dataclass(frozen=True)
class Power:
    """Statistical power of the comparison of a planned run.

    Attributes:
        cases: number of cases; `comparable` of them have earlier outcomes.
        draws: simulated runs for each chance.
        chances: by repetitions, the fewest first; empty if no case is comparable.
    """

    num_runs: int
    drop: float
    level: float
    cases: int
    comparable: int
    draws: int
    chances: Sequence[Chances]
    shortages: Sequence[Shortage]

    @property
    def precision_points(self) -> int:
        """Half of the 95 % interval of a simulated chance, at most, in percentage points."""
        return round(98 / math.sqrt(self.draws))

    @cached_property
    def planned_chances(self) -> Chances | None:
        """The chances with the planned repetitions; None if no case is comparable."""
        return next((row for row in self.chances if row.repetitions == self.num_runs), None)

    @property
    def sufficient_repetitions(self) -> int | None:
        """The fewest repetitions that probably show the drop of one case; None if none of the computed do."""
        return next((row.repetitions for row in self.chances if row.one_case >= SUFFICIENT), None)

    @property
    def advice(self) -> str:
        """Advice on what to do, in a few sentences."""
        repetitions = f"{self.num_runs} repetition{'s' * (self.num_runs != 1)}"
        if self.planned_chances is None:
            return (
                f"With {repetitions} and no earlier outcomes no drop can be proven. Run the baseline with 5 repetitions"
                " first."
            )
        if self.planned_chances.one_case >= SUFFICIENT:
            return f"{repetitions} will probably show this drop, even in a single case."
        enough = self.sufficient_repetitions
        if enough and enough > self.num_runs:
            return f"Use {enough} repetitions: they will probably show this drop, even in a single case."
        if len(self.shortages) == self.cases:
            return (
                f"With {repetitions} no drop of a single case can be proven. Use more repetitions, or run the baseline"
                " with 10 repetitions first."
            )
        return (
            "A drop of a single case will often be missed. Use more repetitions, or run the baseline with 10"
            " repetitions first: more earlier outcomes make every later run more sensitive."
        )


def plan_power(
    earlier: Mapping[CaseKey, OutcomeCounts | None],
    num_runs: int,
    drop: float = DEFAULT_DROP,
    level: float = DEFAULT_LEVEL,
    correlation: float = 0.0,
) -> Power:
    """Return what the comparison of a planned run can show.

    Args:
        earlier: the chosen cases with the outcomes that they will be tested against, as independent ones; None: they
            have none.
        num_runs: planned repetitions.
        drop: how much a pass rate falls, at most to 0.
        level: chance that an unchanged agent is called worse.
        correlation: of the repetitions of a case in one run.

    Raises:
        BadInput: the drop is out of range.
    """
    check_drop(drop)
    comparable = [outcomes for outcomes in earlier.values() if outcomes]
    draws = min(MAX_DRAWS, max(MIN_DRAWS, DRAWN_CASES // max(1, len(comparable))))
    counts = sorted({*REPETITIONS, num_runs}) if comparable else ()
    simulation = _Simulation(comparable, draws, level)
    independent = {count: max(1, round(effective_total(count, correlation))) for count in counts}
    chances = [
        Chances(
            count,
            simulation.chance(independent[count], drop, 1),
            simulation.chance(independent[count], drop, MANY_CASES),
            min(level, simulation.chance(independent[count], drop, 0)),
        )
        for count in counts
    ]
    shortages = list(_find_shortages(earlier, num_runs, level / 2))
    return Power(num_runs, drop, level, len(earlier), len(comparable), draws, chances, shortages)


def parse_drop(text: str) -> float:
    """Parse a drop.

    Raises:
        BadInput: the text is no number, or out of range.
    """
    try:
        drop = float(text)
    except ValueError:
        raise BadInput(f"The drop is no number: {text!r}.", hint="Give one, such as 0.5.") from None
    check_drop(drop)
    return drop


def check_drop(drop: float) -> None:
    """Require a drop that a pass rate can have.

    Raises:
        BadInput: it is out of range.
    """
    if not 0 < drop <= 1:
        raise BadInput(
            f"A drop must be more than 0 and at most 1, not {drop:g}.",
            hint="Give 0.5 for a pass rate that falls by half, such as from 100 % to 50 %.",
        )


def is_regression(tables: Sequence[OutcomeTable], level: float) -> bool:
    """Tell whether a comparison of these cases reports a regression: of a case, or of the run as a whole."""
    return adjust_smallest(tables) <= level / 2 or _has_fewer_in_all(tables, level / 2)


def _has_fewer_in_all(tables: Sequence[OutcomeTable], limit: float) -> bool:
    """Tell whether so few passes in all are at most as probable as the limit. Clear results need no exact sum."""
    expected = expect_passes(tables)
    if not expected.stdev:
        return False
    estimate = expected.cdf(sum(table.passed for table in tables))
    if abs(estimate - limit) > _NORMAL_ERROR / expected.stdev:
        return estimate < limit
    return at_most_probability_in_all(tables) <= limit


class _Simulation:
    """Simulated runs of cases with these earlier outcomes. The seed is fixed: equal questions get equal answers."""

    def __init__(self, earlier: Sequence[OutcomeCounts], draws: int, level: float) -> None:
        self._earlier, self._draws, self._level = earlier, draws, level
        overall = (sum(outcomes.passed for outcomes in earlier) + 0.5) / (
            sum(outcomes.total for outcomes in earlier) + 1
        )
        self._rates = [(outcomes.passed + overall) / (outcomes.total + 1) for outcomes in earlier]
        self._can_drop = [index for index, outcomes in enumerate(earlier) if outcomes.passed]

    def chance(self, repetitions: int, drop: float, dropping: int) -> float:
        """Return the share of runs that are called a regression when the rate of some cases, drawn anew, drops."""
        random = Random(0)  # noqa: S311 - a simulation, not a secret
        dropping = min(dropping, len(self._can_drop))
        regressions = 0
        for _ in range(self._draws):
            rates = list(self._rates)
            for index in random.sample(self._can_drop, dropping):
                rates[index] = max(0.0, rates[index] - drop)
            regressions += is_regression(
                self._draw_outcomes(random, rates, repetitions, not dropping), self._level
            )
        return regressions / self._draws

    def _draw_outcomes(
        self, random: Random, rates: Iterable[float], repetitions: int, draws_earlier: bool
    ) -> list[OutcomeTable]:
        """Return the outcomes of a run. For false alarms the earlier ones, also chance, are drawn, too."""

        def count_passes(rate: float, total: int) -> int:
            return sum(random.random() < rate for _ in range(total))

        return [
            OutcomeTable(
                count_passes(rate, repetitions),
                repetitions,
                count_passes(rate, outcomes.total) if draws_earlier else outcomes.passed,
                outcomes.total,
            )
            for rate, outcomes in zip(rates, self._earlier, strict=True)
        ]


def _find_shortages(
    earlier: Mapping[CaseKey, OutcomeCounts | None], num_runs: int, limit: float
) -> Iterator[Shortage]:
    """Yield the cases that cannot regress even if they always fail, while all others stay as they were."""
    unchanged = {
        key: OutcomeTable(
            round(history.passed / history.total * num_runs), num_runs, history.passed, history.total
        )
        for key, history in earlier.items()
        if history
    }

    @cache
    def solve(passed: int, total: int, key: CaseKey) -> tuple[int | None, int | None] | None:
        others = [table for other, table in unchanged.items() if other != key]

        def decides(repetitions: int, earlier_passed: int, earlier_total: int) -> bool:
            table = OutcomeTable(0, repetitions, earlier_passed, earlier_total)
            return at_most_probability(table) <= limit and adjust_smallest([table, *others]) <= limit

        if total and decides(num_runs, passed, total):
            return None
        counts = range(1, MAX_REPETITIONS + 1)
        always_passed = passed == total
        return (
            next((count for count in counts if passed and decides(count, passed, total)), None),
            next((count for count in counts if always_passed and decides(num_runs, count, count)), None),
        )

    alike: dict[tuple[int, int], CaseKey] = {}
    for key, history in earlier.items():
        outcomes = (history.passed, history.total) if history else (0, 0)
        if remedies := solve(*outcomes, alike.setdefault(outcomes, key)):
            yield Shortage(key, history, *remedies)
