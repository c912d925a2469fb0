"""Verdicts on the cases of two compared runs, each with its reason. Pure.

A case's outcomes now are tested against all earlier ones (`outcomes.EarlierOutcomes`), in both directions, each
adjusted for the number of cases (`change_tests`). docs/evals.md describes the decision and its assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evals_app.analysis.change_tests import (
    OutcomeTable,
    adjust_for_many,
    at_most_probability,
    find_critical_value,
)
from evals_app.analysis.dependence import effective_total
from evals_app.analysis.outcomes import CaseKey, EarlierOutcomes, Outcomes
from evals_app.analysis.statistics import Rate, format_percent, format_probability

SUSPICION = 0.15
"""A case looks worse if its own test, not adjusted for the number of cases, is at most this probable."""
MIN_CONFIRMING_HISTORY = 3
"""Earlier outcomes beside the baseline's from which on five fresh failures can confirm a suspicion."""
MAX_REPETITIONS = 50
"""Largest number of repetitions that is computed as necessary."""
SUFFICIENT = 0.8
"""Chance to see a drop from which a number of repetitions is recommended."""
SHRINKING = 2.0
"""Earlier outcomes with which a rate is averaged before repetitions are computed from it: the draw that raised a
suspicion looks worse than what is behind it.
"""


class Verdict(StrEnum):
    """Verdict on a case between two runs, the worst first."""

    REGRESSED = "regressed"
    UNCLEAR = "unclear"
    FLAKY = "flaky"
    NOT_COMPARABLE = "not comparable"
    FIXED = "fixed"
    NEW = "new"
    GONE = "gone"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class CaseChange:
    """One case in both runs, its verdict and the reason.

    Attributes:
        earlier: the outcomes that the case was tested against; None if it cannot be compared.
        fresh: outcomes of repetitions that were made because the case looked worse; the verdict is about them.
        probability: two-sided, adjusted for the number of cases; None if nothing was tested.
        looks_worse: the case is unclear, and if it has changed, it is worse.
        repetitions: repetitions that would probably prove what an unclear case looks like; None if unknown or too many.
        of_both_runs: both runs need these repetitions, because there are too few earlier outcomes.
        can_confirm: the case fell since the baseline, and enough other earlier outcomes exist to test repetitions with.
    """

    key: CaseKey
    verdict: Verdict
    because: str
    before: Outcomes | None
    after: Outcomes | None
    earlier: EarlierOutcomes | None = None
    fresh: Outcomes | None = None
    probability: float | None = None
    looks_worse: bool = False
    repetitions: int | None = None
    of_both_runs: bool = False
    can_confirm: bool = False

    @property
    def remedy(self) -> str:
        """Advice on the repetitions that would decide an unclear case; empty if their number is unknown or too high."""
        if not self.repetitions:
            return ""
        versions = "both versions" if self.of_both_runs else "this version"
        verdict = "worse" if self.looks_worse else "better"
        return f"If it is {verdict}, {self.repetitions} repetitions of {versions} would probably prove it."

    @property
    def reason(self) -> str:
        """Reason of the verdict, with the remedy."""
        return f"{self.because} {self.remedy}".rstrip()

    @property
    def is_comparable(self) -> bool:
        """Tell whether the two runs' outcomes are about the same thing."""
        return self.earlier is not None

    @property
    def difference(self) -> float | None:
        """Pass rate of the run minus that of all earlier outcomes; None where they cannot be compared."""
        return self.after.rate - self.earlier.rate if self.after and self.earlier else None


def judge_cases(
    pairs: Mapping[CaseKey, tuple[Outcomes, Outcomes]],
    earlier: Mapping[CaseKey, EarlierOutcomes],
    fresh: Mapping[CaseKey, Outcomes] | None,
    level: float,
) -> list[CaseChange]:
    """Judge the comparable cases of two runs.

    Args:
        pairs: outcomes of the baseline and of the run that is judged; both have some.
        earlier: the outcomes that each case is tested against.
        fresh: outcomes of repetitions of the cases that looked worse; None if none were made.
        level: one-sided chance that any unchanged case regresses, and likewise that any is fixed.
    """
    evidence = [
        _Evidence(key, before, after, earlier[key], (fresh or {}).get(key), fresh is not None)
        for key, (before, after) in pairs.items()
    ]
    tables = [case.table for case in evidence]
    worse = _test_all(evidence, tables, [case.may_regress for case in evidence], level)
    better = _test_all(evidence, [table.mirror for table in tables], [True] * len(tables), level)
    return [_decide_case(case, worse[case.key], better[case.key], level) for case in evidence]


@dataclass(frozen=True)
class _Evidence:
    """Evidence about a case. `is_confirming`: suspicious cases were repeated, so only repetitions can confirm."""

    key: CaseKey
    before: Outcomes
    after: Outcomes
    earlier: EarlierOutcomes
    fresh: Outcomes | None
    is_confirming: bool

    @property
    def can_confirm(self) -> bool:
        """Tell whether the case fell since the baseline, and the rest of the history can be a test of repetitions."""
        return self.after.rate < self.before.rate and self.earlier.history_total >= MIN_CONFIRMING_HISTORY

    @property
    def may_regress(self) -> bool:
        """Tell whether the case can regress: after a confirmation, only by its own repetitions."""
        return not self.is_confirming or self.fresh is not None or not self.earlier.history_total

    @property
    def table(self) -> OutcomeTable:
        """The outcomes that are tested, as independent ones."""
        if self.fresh:
            return self.earlier.confirm_with(self.fresh.counts)
        return self.earlier.compare_with(self.after.counts)

    @property
    def counted(self) -> OutcomeTable:
        """The outcomes that are tested, as they are counted."""
        earlier = self.earlier
        if self.fresh:
            return OutcomeTable(*self.fresh.counts, earlier.history_passed, earlier.history_total)
        return OutcomeTable(*self.after.counts, earlier.passed, earlier.total)

    @property
    def counts(self) -> str:
        """The tested outcomes in words."""
        table = self.counted
        if self.fresh:
            runs = f"{self.earlier.runs} run{'s' * (self.earlier.runs > 1)}"
            return (
                f"{table.passed} of {table.total} fresh repetitions passed, {table.earlier_passed} of"
                f" {table.earlier_total} attempts of {runs} before the baseline"
            )
        return (
            f"{table.passed} of {table.total} passed now, {table.earlier_passed} of {table.earlier_total} earlier"
            f" ({self.earlier.source})"
        )


@dataclass(frozen=True)
class _Test:
    """Result of a one-sided test: its own probability, the adjusted one, and the own one that would decide."""

    own: float
    adjusted: float
    critical: float
    cases: int

    @property
    def two_sided(self) -> float:
        """The adjusted probability in both directions."""
        return min(1.0, 2 * self.adjusted)


def _test_all(
    cases: Sequence[_Evidence], tables: Sequence[OutcomeTable], may_decide: Sequence[bool], level: float
) -> dict[CaseKey, _Test]:
    """Test cases against fewer passes. Only those that `may_decide` count as tests and get an adjusted probability."""
    deciding = [table for table, decides in zip(tables, may_decide, strict=True) if decides]
    critical = find_critical_value(deciding, level)
    adjusted = iter(adjust_for_many(deciding))
    return {
        case.key: _Test(
            at_most_probability(table), next(adjusted) if decides else 1.0, critical, len(deciding)
        )
        for case, table, decides in zip(cases, tables, may_decide, strict=True)
    }


def _decide_case(case: _Evidence, worse: _Test, better: _Test, level: float) -> CaseChange:
    """Return the verdict on a case from its tests in both directions."""
    for verdict, test in ((Verdict.REGRESSED, worse), (Verdict.FIXED, better)):
        if test.adjusted <= level:
            return _build_change(case, verdict, f"{case.counts}: {_format_significance(test)}.", test)
    table = case.counted
    for test, counted in ((worse, table), (better, table.mirror)):
        if _is_suspicious(counted, test):
            return _build_unclear_change(case, counted, test, looks_worse=test is worse)
    outcomes = Rate(table.passed + table.earlier_passed, table.total + table.earlier_total)
    if table.varies:
        low, high = map(format_percent, (outcomes.interval.low, outcomes.interval.high))
        share = f"Passes {format_percent(outcomes.value)} of the time"
        limits = f"95 % interval {low} to {high}, {outcomes.total} attempts"
        because = f"{share} ({limits}). Its rate has not visibly changed."
        return _build_change(case, Verdict.FLAKY, because, min(worse, better, key=lambda test: test.own))
    return _build_change(case, Verdict.UNCHANGED, f"{case.counts}.", None)


def _is_suspicious(table: OutcomeTable, test: _Test) -> bool:
    """Tell whether a case has probably changed: by its own test, or it deviates for the first time."""
    if table.earlier_passed == table.earlier_total:
        return table.passed < table.total
    return test.own <= SUSPICION


def _build_unclear_change(
    case: _Evidence, table: OutcomeTable, test: _Test, *, looks_worse: bool
) -> CaseChange:
    """Return that a case may have changed, with the repetitions that would decide.

    Args:
        table: the outcomes as they are counted; if the case looks better, with failures as passes.
    """
    if table.earlier_passed == table.earlier_total:
        verb, opposite = ("failed", "passed") if looks_worse else ("passed", "failed")
        times = "now" if table.total == 1 else f"{table.total - table.passed} of {table.total} times now"
        because = f"It {verb} {times} and {opposite} in {_name_earlier_attempts(table.earlier_total)}."
    else:
        because = f"{case.counts}: it looks {'worse' if looks_worse else 'better'}, but {_format_significance(test)}."
    tested = case.table if looks_worse else case.table.mirror
    repetitions, of_both_runs = _find_fewest_repetitions(
        table, tested, test.critical, case.earlier.correlation
    )
    return _build_change(
        case,
        Verdict.UNCLEAR,
        because,
        test,
        looks_worse=looks_worse,
        repetitions=repetitions,
        of_both_runs=of_both_runs,
    )


def _build_change(
    case: _Evidence,
    verdict: Verdict,
    because: str,
    test: _Test | None,
    *,
    looks_worse: bool = False,
    repetitions: int | None = None,
    of_both_runs: bool = False,
) -> CaseChange:
    return CaseChange(
        case.key,
        verdict,
        because,
        case.before,
        case.after,
        case.earlier,
        case.fresh,
        None if test is None else test.two_sided,
        looks_worse,
        repetitions,
        of_both_runs,
        case.can_confirm,
    )


def _format_significance(test: _Test) -> str:
    adjusted = f" over {test.cases} cases" if test.cases > 1 else ""
    return f"{format_probability(test.two_sided)}{adjusted}"


def _name_earlier_attempts(count: int) -> str:
    return "the only earlier attempt" if count == 1 else f"all {count} earlier attempts"


def _find_fewest_repetitions(
    counted: OutcomeTable, tested: OutcomeTable, critical: float, correlation: float
) -> tuple[int | None, bool]:
    """Return how many repetitions would probably decide, and whether both runs need them.

    Whatever takes fewer attempts; None if it takes more than `MAX_REPETITIONS`. The case is assumed to pass at its rate
    of now, drawn to the earlier one.

    Args:
        counted, tested: its outcomes as they are, and as independent ones.
        critical: the largest probability of the case's own test that decides.
        correlation: of repetitions within a run.
    """
    earlier_rate = counted.earlier_passed / counted.earlier_total
    rate = (counted.passed + SHRINKING * earlier_rate) / (counted.total + SHRINKING)
    of_run = of_both = None
    for repetitions in range(1, MAX_REPETITIONS + 1):
        count = max(1, round(effective_total(repetitions, correlation)))
        if of_run is None and _chance_to_prove(tested._replace(total=count), rate, critical) >= SUFFICIENT:
            of_run = repetitions
        both = OutcomeTable(0, count, round(earlier_rate * count), count)
        if of_both is None and _chance_to_prove(both, rate, critical) >= SUFFICIENT:
            of_both = repetitions
    if of_both is not None and (of_run is None or 2 * of_both < of_run):
        return of_both, True
    return of_run, False


def _chance_to_prove(table: OutcomeTable, rate: float, critical: float) -> float:
    """Return the chance that outcomes now, as many as in the table, prove a fall to a rate."""
    chance = 0.0
    for passed in range(table.total + 1):
        if at_most_probability(table._replace(passed=passed)) > critical:
            break
        chance += math.comb(table.total, passed) * rate**passed * (1 - rate) ** (table.total - passed)
    return chance
