"""Two runs of an evalset compared, case by case and as a whole. Pure: outcomes in, verdicts and their evidence out.

A case has one outcome a repetition: it passed, or it did not (failed, or the agent raised). What could not be judged
(incomplete, cancelled) is no outcome. `baselines.compare_runs` reads both runs and their history and calls `compare`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from evals_app.analysis import statistics
from evals_app.analysis.statistics import ALPHA, Effect


class CaseKey(NamedTuple):
    """Identity of a case in all versions of its file: its id and its position among cases with this id (from 1)."""

    id: str
    number: int = 1


class Verdict(StrEnum):
    """Verdict on a case between two runs, the worst first."""

    REGRESSED = "regressed"
    FLAKY = "flaky"
    UNCLEAR = "unclear"
    NOT_COMPARABLE = "not comparable"
    FIXED = "fixed"
    NEW = "new"
    GONE = "gone"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Sameness:
    """Everything that two outcomes must share to be repetitions of each other: code, models, data and judges."""

    code: str
    models: str
    data: str
    judged_by: str


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a case in one run.

    Tokens, seconds and cost are means of its repetitions; None is unknown. `attempt` is the attempt to open, the worst.
    """

    same: Sameness
    passed: int = 0
    failed: int = 0
    unjudged: int = 0
    attempt: int | None = None
    session: int | None = None
    tokens: float | None = None
    seconds: float | None = None
    cost: float | None = None

    @property
    def outcome_count(self) -> int:
        """Number of repetitions with an outcome."""
        return self.passed + self.failed

    @property
    def ran(self) -> bool:
        """Tell whether the run had it run at all: a run may choose among the cases."""
        return bool(self.outcome_count or self.unjudged)

    @property
    def rate(self) -> float:
        """Share of the outcomes that passed; ask only where there are outcomes."""
        return self.passed / self.outcome_count


@dataclass(frozen=True)
class Past:
    """Stored outcomes of a case that are repetitions of each other, of whichever runs."""

    passed: int
    failed: int

    @property
    def varies(self) -> bool:
        """Tell whether the same thing came to different outcomes."""
        return bool(self.passed and self.failed)


@dataclass(frozen=True)
class CaseChange:
    """One case in both runs, what became of it, and why that is said.

    `repetitions` is how many of both runs would tell, where they do not; None: more than anybody runs, or nothing
    to tell. `probability` is Fisher's, where it was asked.
    """

    key: CaseKey
    verdict: Verdict
    because: str
    before: Outcomes | None
    after: Outcomes | None
    repetitions: int | None = None
    probability: float | None = None

    @property
    def is_comparable(self) -> bool:
        """Tell whether the two runs' outcomes are about the same thing."""
        return self.verdict not in {Verdict.NOT_COMPARABLE, Verdict.NEW, Verdict.GONE}

    @property
    def difference(self) -> float | None:
        """Pass rate after minus before; None where they cannot be compared."""
        return (
            self.after.rate - self.before.rate if self.is_comparable and self.after and self.before else None
        )


@dataclass(frozen=True)
class Whole:
    """Comparison of the runs as a whole: a paired test over the comparable cases.

    `test` names the test; `worse` and `better` count the cases whose pass rate fell and rose.
    """

    cases: int
    worse: int
    better: int
    probability: float
    effect: Effect | None
    test: str

    @property
    def significant(self) -> bool:
        """Tell whether chance alone would seldom do this."""
        return self.probability <= ALPHA

    @property
    def is_worse(self) -> bool:
        """Tell whether the run as a whole is worse, and not by chance."""
        return self.significant and self.effect is not None and self.effect.mean < 0

    @property
    def is_better(self) -> bool:
        """Tell whether the run as a whole is better, and not by chance."""
        return self.significant and self.effect is not None and self.effect.mean > 0


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


@dataclass(frozen=True)
class Comparison:
    """Two runs compared."""

    cases: list[CaseChange]
    whole: Whole
    amounts: list[Amount] = field(default_factory=list)

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
        sentences = [f"{case.key.id}: {case.because}" for case in self.of(Verdict.REGRESSED)]
        if self.whole.is_worse and self.whole.effect:
            points = abs(100 * self.whole.effect.mean)
            fell = f"the pass rate fell by {points:.1f} points over {self.whole.cases} cases"
            sentences.append(
                f"The run as a whole: {fell} (p = {self.whole.probability:.2g}, {self.whole.test})."
            )
        return sentences

    @property
    def doubts(self) -> list[str]:
        """Reasons for doubt, one sentence each: flaky and unclear cases, and cases without a verdict."""
        return [
            f"{case.key.id}: {case.because}"
            for case in self.cases
            if case.verdict in {Verdict.UNCLEAR, Verdict.FLAKY}
        ]


def compare(
    before: Mapping[CaseKey, Outcomes],
    after: Mapping[CaseKey, Outcomes],
    history: Mapping[CaseKey, Sequence[Past]] | None = None,
    *,
    one_currency: bool = True,
) -> Comparison:
    """Compare two runs.

    Args:
        before: the cases of the run that is compared with, such as the baseline.
        after: the cases of the run that is judged.
        history: stored outcomes of a case on its present data, grouped by sameness, these two runs' among them. They
            tell whether one repetition is enough, and which cases are flaky.
        one_currency: costs of both runs are in the same one; else they are not compared.

    Returns:
        Every case of both, the worst first; the whole judged by a paired test; cost, tokens and seconds.
    """
    outcomes_by_case = history or {}
    keys = list(dict.fromkeys([*after, *before]))
    cases = [_case(key, before.get(key), after.get(key), outcomes_by_case.get(key, ())) for key in keys]
    order = {verdict: place for place, verdict in enumerate(Verdict)}
    cases.sort(key=lambda case: order[case.verdict])
    return Comparison(cases, whole_of(cases), list(_amounts(cases, one_currency)))


def _case(
    key: CaseKey, before: Outcomes | None, after: Outcomes | None, history: Sequence[Past]
) -> CaseChange:
    if before is None:
        return CaseChange(key, Verdict.NEW, "The run before does not have it.", None, after)
    if after is None:
        return CaseChange(key, Verdict.GONE, "The run does not have it any more.", before, None)
    if why := _incomparable(before, after):
        return CaseChange(key, Verdict.NOT_COMPARABLE, why, before, after)
    return _judge_case(key, before, after, history)


def _incomparable(before: Outcomes, after: Outcomes) -> str:
    if before.same.data != after.same.data:
        return "The case was changed between the two runs."
    if before.same.judged_by != after.same.judged_by:
        return "Other metrics, criteria or thresholds judged it."
    sides = (("before", before), ("after", after))
    if absent := [name for name, side in sides if not side.ran]:
        return f"It did not run {' and '.join(absent)}."
    unjudged = [name for name, side in sides if not side.outcome_count]
    return f"No repetition was judged {' and '.join(unjudged)}." if unjudged else ""


def _judge_case(key: CaseKey, before: Outcomes, after: Outcomes, history: Sequence[Past]) -> CaseChange:
    split = (after.passed, after.failed, before.passed, before.failed)
    counts = f"{before.passed} of {before.outcome_count} passed before, {after.passed} of {after.outcome_count} after"
    moved = Verdict.REGRESSED if after.rate < before.rate else Verdict.FIXED
    varied = any(past.varies for past in history)
    own = before.same == after.same and before.rate != after.rate

    def change(verdict: Verdict, why: str, probability: float | None = None) -> CaseChange:
        needed = None
        if verdict in {Verdict.FLAKY, Verdict.UNCLEAR}:
            needed = statistics.repetitions_to_tell(
                after.passed, after.outcome_count, before.passed, before.outcome_count
            )
        return CaseChange(key, verdict, why, before, after, needed, probability)

    if statistics.separate(*split):
        if min(before.outcome_count, after.outcome_count) > 1:
            return change(moved, f"{counts}: the outcomes separate.")
        if not varied and not own:
            return change(moved, f"{counts}, and no stored outcome of it varied.")
    probability = statistics.fisher_exact(*split)
    if after.rate != before.rate and probability <= ALPHA:
        return change(moved, f"{counts} (Fisher's exact test, p = {probability:.2g}).", probability)
    if own or any(Past(side.passed, side.failed).varies for side in (before, after)):
        return change(
            Verdict.FLAKY,
            f"{counts}: the same code, data and models came to different outcomes.",
            probability,
        )
    if after.rate == before.rate:
        return change(Verdict.UNCHANGED, f"{counts}.")
    why = f"{counts}, but stored repetitions of it have varied, so one repetition proves nothing."
    return change(Verdict.UNCLEAR, why, probability)


def whole_of(cases: Sequence[CaseChange]) -> Whole:
    """Judge the cases that can be compared by a paired test: each case is its own control."""
    differences = [case.difference for case in cases if case.difference is not None]
    worse, better = (
        sum(difference < 0 for difference in differences),
        sum(difference > 0 for difference in differences),
    )
    if all(difference in (-1.0, 0.0, 1.0) for difference in differences):
        probability, test = statistics.mcnemar_exact(worse, better), "exact McNemar test"
    else:
        probability, test = statistics.sign_flip(differences), "exact paired permutation test"
    return Whole(len(differences), worse, better, probability, statistics.paired_effect(differences), test)


def _amounts(cases: Sequence[CaseChange], one_currency: bool) -> Iterator[Amount]:
    for name in ("cost", "tokens", "seconds"):
        pairs = [
            (getattr(case.before, name), getattr(case.after, name)) for case in cases if case.is_comparable
        ]
        complete_pairs = [pair for pair in pairs if None not in pair]
        if not complete_pairs or (name == "cost" and not one_currency):
            yield Amount(name, 0, None, None)
            continue
        before, after = (sum(side) / len(complete_pairs) for side in zip(*complete_pairs, strict=True))
        yield Amount(name, len(complete_pairs), before, after)
