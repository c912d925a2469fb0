"""Comparison of two runs of an evalset, case by case and as a whole. Pure.

A case has one outcome a repetition: it passed, or it did not (failed, or the agent raised). What could not be judged
(incomplete, cancelled, model unavailable) is no outcome. `baselines.compare_runs` reads both runs and their history and
calls `compare`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evals_app.analysis import statistics
from evals_app.analysis.case_verdicts import CaseChange, Verdict, judge_cases
from evals_app.analysis.change_tests import probability_of_fewer_in_all
from evals_app.analysis.outcomes import CaseKey, Outcomes, Past
from evals_app.analysis.score_changes import ScoreChange
from evals_app.analysis.statistics import Effect, Rate, format_probability

DEFAULT_LEVEL = 0.05
"""Chance that two runs of an unchanged agent are called a regression."""
MAX_UNAVAILABLE = 0.2
"""Share of attempts that models, judges or the database lost, above which a run is not comparable."""
SAME_AGENT = (
    "Code, models, evalset and judges are the same: any difference is chance or has an external cause."
)


@dataclass(frozen=True)
class Whole:
    """Comparison of the runs as a whole: the passes of all comparable cases against all earlier outcomes.

    `probability` is two-sided; `fell` tells the direction. `worse` and `better` count the cases whose pass rate fell
    and rose. `refusal` says why there is no verdict; "" if there is one.
    """

    cases: int
    worse: int
    better: int
    probability: float
    fell: bool
    effect: Effect | None
    level: float = DEFAULT_LEVEL
    refusal: str = ""
    test: str = "exact permutation test of all cases"

    @property
    def significant(self) -> bool:
        """Tell whether chance alone would seldom do this."""
        return not self.refusal and self.probability <= self.level

    @property
    def is_worse(self) -> bool:
        """Tell whether the run as a whole is worse, and not by chance."""
        return self.significant and self.fell

    @property
    def is_better(self) -> bool:
        """Tell whether the run as a whole is better, and not by chance."""
        return self.significant and not self.fell


@dataclass(frozen=True)
class Amount:
    """A quantity a repetition (seconds, tokens, money) in both runs, over the cases that know it in both."""

    name: str
    cases: int
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After divided by before; None where that says nothing."""
        return self.after / self.before if self.before and self.after is not None else None


class Advice(NamedTuple):
    """Summary of a comparison in a sentence, and the next step. `mark` is "danger", "warn", "info" or "ok"."""

    mark: str
    title: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """Two runs compared."""

    cases: list[CaseChange]
    whole: Whole
    amounts: list[Amount] = field(default_factory=list)
    scores: list[ScoreChange] = field(default_factory=list)

    def of(self, verdict: Verdict) -> list[CaseChange]:
        """Return the cases with a verdict."""
        return [case for case in self.cases if case.verdict == verdict]

    @property
    def counts(self) -> dict[Verdict, int]:
        """Number of cases by verdict, the worst verdict first."""
        counted = Counter(case.verdict for case in self.cases)
        return {verdict: counted[verdict] for verdict in Verdict if counted[verdict]}

    @property
    def regressions(self) -> list[str]:
        """Reasons for a regression, one sentence each; empty without one."""
        sentences = [f"{case.key.label}: {case.because}" for case in self.of(Verdict.REGRESSED)]
        if self.whole.is_worse and self.whole.effect:
            points = abs(100 * self.whole.effect.mean)
            fell = f"the pass rate fell by {points:.1f} points over {self.whole.cases} cases"
            chance = format_probability(self.whole.probability)
            sentences.append(f"The run as a whole: {fell} ({chance}, {self.whole.test}).")
        return sentences

    @property
    def advice(self) -> Advice:
        """The result in a sentence, and what to do next."""
        if self.regressions:
            cases = (
                "Open the regressed cases below: both sides and the first difference are shown."
                if self.of(Verdict.REGRESSED)
                else "No single case is proven worse, but all of them together are. Open those that fell."
            )
            return Advice(
                "danger",
                "This run is worse than the earlier ones.",
                f"{cases} If the change is intended, make this run the baseline.",
            )
        if self.to_confirm:
            return Advice(
                "warn",
                "Some cases look worse, but chance can explain it.",
                "Repeat them: the fresh repetitions are tested against earlier outcomes, and decide.",
            )
        if self.suspicious:
            return Advice(
                "warn",
                "Some cases look worse, but there are too few outcomes to decide.",
                "Run the evalset again with more repetitions. The reason of each case says how many, and of which"
                " version.",
            )
        if fallen := [score.metric for score in self.scores if score.is_worse]:
            return Advice(
                "warn",
                f"No case is worse than chance explains, but scores fell: {', '.join(fallen)}.",
                "See the scores below. The fall is not by chance, although pass rates do not show it.",
            )
        if not any(case.is_comparable for case in self.cases):
            return Advice(
                "warn",
                self.whole.refusal,
                "Compare with another run, or run the evalset again.",
            )
        if self.whole.refusal:
            return Advice("info", self.whole.refusal, "No case is reported as regressed or fixed.")
        return Advice("ok", "No case is worse than chance explains.", "You need not do anything.")

    @property
    def before_rate(self) -> Rate:
        """Pass rate of the run before."""
        return self._rate(lambda case: case.before)

    @property
    def after_rate(self) -> Rate:
        """Pass rate of the run after."""
        return self._rate(lambda case: case.after)

    def _rate(self, side: Callable[[CaseChange], Outcomes | None]) -> Rate:
        """Return the pass rate of one side over the cases that can be compared, each with the same weight."""
        outcomes = [side(case) for case in self.cases if case.is_comparable]
        rates = [side_outcomes.rate for side_outcomes in outcomes if side_outcomes is not None]
        return Rate(sum(rates), len(rates))

    @property
    def doubts(self) -> list[str]:
        """Reasons for doubt, one sentence each: flaky cases, and unclear ones that look worse."""
        return [
            f"{case.key.label}: {case.reason}"
            for case in self.cases
            if case.verdict == Verdict.FLAKY or case.looks_worse
        ]

    @property
    def suspicious(self) -> list[CaseChange]:
        """Cases that are unclear and look worse."""
        return [case for case in self.cases if case.looks_worse]

    @property
    def to_confirm(self) -> list[CaseChange]:
        """Cases that fell since the baseline, have not been repeated yet, and can be decided by repeating them."""
        return [case for case in self.cases if case.can_confirm and case.fresh is None]


def compare(
    before: Mapping[CaseKey, Outcomes],
    after: Mapping[CaseKey, Outcomes],
    history: Mapping[CaseKey, Sequence[Past]] | None = None,
    *,
    fresh: Mapping[CaseKey, Outcomes] | None = None,
    level: float = DEFAULT_LEVEL,
    one_currency: bool = True,
) -> Comparison:
    """Compare two runs.

    Args:
        before: the cases of the run that is compared with, such as the baseline.
        after: the cases of the run that is judged.
        history: stored outcomes of a case by earlier runs, without these two, the newest first.
        fresh: outcomes of repetitions of cases that looked worse in `after`; None if none were made. A case with a
            history then regresses only if its repetitions confirm it.
        level: chance that anything is called a regression although nothing has changed: half of it for the cases
            together, half of it for the run as a whole.
        one_currency: costs of both runs are in the same one; else they are not compared.

    Returns:
        Every case of both, the worst first; the whole; cost, tokens and seconds.
    """
    refusal = refuse_run(before.values(), "before") or refuse_run(after.values(), "after")
    keys = list(dict.fromkeys([*after, *before]))
    incomparable = {
        key: change
        for key in keys
        if (change := _incomparable(key, before.get(key), after.get(key), refusal))
    }
    pairs = {key: (before[key], after[key]) for key in keys if key not in incomparable}
    judged = {change.key: change for change in judge_cases(pairs, history or {}, fresh, level / 2)}
    cases = [incomparable.get(key) or judged[key] for key in keys]
    order = {verdict: place for place, verdict in enumerate(Verdict)}
    cases.sort(key=lambda case: order[case.verdict])
    if not pairs:
        refusal = refusal or _explain_no_pairs(cases)
    elif all(side.same == other.same for side, other in pairs.values()):
        refusal = SAME_AGENT
    comparable = [case for case in cases if case.is_comparable]
    return Comparison(
        cases, _judge_whole(comparable, level, refusal), list(_amounts(comparable, one_currency))
    )


def refuse_run(outcomes: Iterable[Outcomes], side: str) -> str:
    """Return why a run that lost too many attempts cannot be compared; "" if it can."""
    unavailable = attempts = 0
    for case in outcomes:
        unavailable += case.unavailable
        attempts += case.outcome_count + case.unjudged
    if unavailable <= attempts * MAX_UNAVAILABLE:
        return ""
    return (
        f"{unavailable} of {attempts} attempts of the run {side} have no outcome, because models, judges or the"
        " database failed. Try them again, then compare."
    )


def _explain_no_pairs(cases: Sequence[CaseChange]) -> str:
    """Return the refusal to compare runs without a comparable case, with the reason if all cases share it."""
    reasons = {case.because for case in cases}
    return f"No case can be compared. {reasons.pop() if len(reasons) == 1 else 'Each case says why.'}"


def _incomparable(
    key: CaseKey, before: Outcomes | None, after: Outcomes | None, refusal: str
) -> CaseChange | None:
    """Return the change of a case that cannot be compared; None if it can."""
    if before is None:
        return CaseChange(key, Verdict.NEW, "The run before does not have it.", None, after)
    if after is None:
        return CaseChange(key, Verdict.GONE, "The run does not have it any more.", before, None)
    because = _difference_of_conditions(before, after) or refusal
    return CaseChange(key, Verdict.NOT_COMPARABLE, because, before, after) if because else None


def _difference_of_conditions(before: Outcomes, after: Outcomes) -> str:
    if before.same.data != after.same.data:
        return "The case was changed between the two runs."
    if before.same.judged_by != after.same.judged_by:
        return "The runs were judged by different metrics, criteria or thresholds."
    sides = (("before", before), ("after", after))
    if absent := [name for name, side in sides if not side.ran]:
        return f"It did not run {' and '.join(absent)}."
    unjudged = [name for name, side in sides if not side.outcome_count]
    return f"No repetition was judged {' and '.join(unjudged)}." if unjudged else ""


def _judge_whole(cases: Sequence[CaseChange], level: float, refusal: str) -> Whole:
    """Judge all comparable cases together, each against its own earlier outcomes."""
    differences = [case.difference for case in cases if case.difference is not None]
    tables = [case.earlier.compare_with(case.after) for case in cases if case.earlier and case.after]
    fewer = probability_of_fewer_in_all(tables)
    more = probability_of_fewer_in_all([table.mirror for table in tables])
    return Whole(
        len(differences),
        sum(difference < 0 for difference in differences),
        sum(difference > 0 for difference in differences),
        min(1.0, 2 * min(fewer, more)),
        fewer < more,
        statistics.paired_effect(differences),
        level,
        refusal,
    )


def _amounts(cases: Sequence[CaseChange], one_currency: bool) -> Iterator[Amount]:
    for name in ("cost", "tokens", "seconds"):
        pairs = [(getattr(case.before, name), getattr(case.after, name)) for case in cases]
        complete_pairs = [pair for pair in pairs if None not in pair]
        if not complete_pairs or (name == "cost" and not one_currency):
            yield Amount(name, 0, None, None)
            continue
        before, after = (sum(side) / len(complete_pairs) for side in zip(*complete_pairs, strict=True))
        yield Amount(name, len(complete_pairs), before, after)
