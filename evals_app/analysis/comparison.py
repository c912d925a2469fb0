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

from evals_app.analysis.case_verdicts import CaseChange, Verdict, judge_cases
from evals_app.analysis.dependence import Dependence, estimate_dependence
from evals_app.analysis.outcomes import (
    CaseKey,
    EarlierOutcomes,
    Outcomes,
    PastRun,
    collect_earlier,
    keep_since_change,
    measure_deviations,
    split_at_run_change,
)
from evals_app.analysis.score_changes import ScoreChange
from evals_app.analysis.statistics import Rate, format_probability
from evals_app.analysis.whole_run import DEFAULT_LEVEL, Whole, judge_whole

MAX_UNAVAILABLE = 0.2
"""Share of attempts that models, judges or the database lost, above which a run is not comparable."""


@dataclass(frozen=True)
class RunDifference:
    """Something in which two runs differ. `is_of_agent`: it may change how the agent behaves."""

    what: str
    before: str
    after: str
    is_of_agent: bool = False


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
    """A run compared with earlier ones.

    `agent_differences` is what differs of the agent; None if nothing is worse, so that it was not looked up.
    `variant_count` is the number of variants that are compared with one run, and share the level of the tests.
    """

    cases: list[CaseChange]
    whole: Whole
    amounts: list[Amount] = field(default_factory=list)
    scores: list[ScoreChange] = field(default_factory=list)
    agent_differences: list[RunDifference] | None = None
    variant_count: int = 1

    def cases_with(self, verdict: Verdict) -> list[CaseChange]:
        """Return the cases with a verdict."""
        return [case for case in self.cases if case.verdict == verdict]

    @property
    def counts(self) -> dict[Verdict, int]:
        """Number of cases by verdict, the worst verdict first."""
        counted = Counter(case.verdict for case in self.cases)
        return {verdict: counted[verdict] for verdict in Verdict if counted[verdict]}

    @property
    def is_worse(self) -> bool:
        """Tell whether a case, the run as a whole or the scores of a metric fell, and not by chance."""
        return bool(self.regressions or self.fallen_scores)

    @property
    def regressions(self) -> list[str]:
        """Reasons for a regression, one sentence each; empty without one."""
        sentences = [f"{case.key.label}: {case.because}" for case in self.cases_with(Verdict.REGRESSED)]
        if self.whole.is_worse and self.whole.effect:
            points = abs(100 * self.whole.effect.mean)
            fallen = (
                "all of them" if self.whole.worse == self.whole.cases else f"{self.whole.worse:,} of them"
            )
            fell = f"the pass rate fell by {points:.1f} points over {count_cases(self.whole.cases)}, {fallen} fell"
            chance = format_probability(self.whole.probability)
            sentences.append(f"The run as a whole: {fell} ({chance}, {self.whole.test}).")
        return sentences

    @property
    def fallen_scores(self) -> list[ScoreChange]:
        """Metrics whose scores fell, and not by chance."""
        return [change for change in self.scores if change.is_worse]

    @property
    def cause(self) -> str:
        """Differences of the agent that may have made the run worse, as a sentence; "" if it is not worse."""
        if self.agent_differences is None:
            return ""
        if not self.agent_differences:
            return "The code is the same: an external cause."
        return f"What differs: {', '.join(difference.what for difference in self.agent_differences)}."

    @property
    def notes(self) -> list[str]:
        """Notes on the verdict on the whole run: the refusal to give one, and its assumptions."""
        adjusted = f"Tests are adjusted for {self.variant_count} variants." if self.variant_count > 1 else ""
        notes = (self.whole.refusal, self.whole.variation, self.whole.dependence.text, adjusted)
        return [note for note in notes if note]

    @property
    def advice(self) -> Advice:
        """The result in a sentence, and what to do next."""
        if self.regressions:
            cases = (
                "Open the regressed cases below: both sides and the first difference are shown."
                if self.cases_with(Verdict.REGRESSED)
                else "No single case is proven worse, but all of them together are. Open those that fell."
            )
            return Advice(
                "danger",
                "This run is worse than the earlier ones.",
                f"{self.cause} {cases} If the change is intended, make this run the baseline.".strip(),
            )
        if not any(case.is_comparable for case in self.cases):
            return Advice(
                "warn",
                self.whole.refusal,
                "Compare with another run, or run the evalset again.",
            )
        if self.fallen_scores:
            metrics = ", ".join(change.metric for change in self.fallen_scores)
            return Advice(
                "warn",
                f"Scores fell: {metrics}.",
                f"{self.cause} No case is worse by its threshold. Open the cases whose scores fell.".strip(),
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
        if self.whole.refusal:
            return Advice("info", self.whole.refusal, "No case is reported as regressed or fixed.")
        if self.failing_as_before:
            return Advice(
                "info",
                f"{self._summary_start}, but some fail as before.",
                "Open the one that fails."
                if self.failing_as_before == 1
                else f"Open the {self.failing_as_before} that fail.",
            )
        if any(case.after and (case.after.failed or case.after.unjudged) for case in self.cases):
            return Advice(
                "info",
                f"{self._summary_start}, but not all attempts pass.",
                "Open those that do not pass.",
            )
        return Advice("ok", f"{self._summary_start}.", "You need not do anything.")

    @property
    def _summary_start(self) -> str:
        """Start of the summary of a comparison in which nothing is worse."""
        if fixed := self.cases_with(Verdict.FIXED):
            return f"Better: {count_cases(len(fixed))} fixed, none worse"
        return (
            "Better overall, no case worse"
            if self.whole.is_better
            else "No case is worse than chance explains"
        )

    @property
    def failing_as_before(self) -> int:
        """Number of compared cases of which an attempt failed, and that are not worse than before."""
        return sum(
            bool(case.after and case.after.failed) and not case.looks_worse
            for case in self.cases
            if case.is_comparable and case.verdict != Verdict.REGRESSED
        )

    @property
    def before_rate(self) -> Rate:
        """Pass rate of the run before."""
        return self._mean_pass_rate(lambda case: case.before)

    @property
    def after_rate(self) -> Rate:
        """Pass rate of the run after."""
        return self._mean_pass_rate(lambda case: case.after)

    def _mean_pass_rate(self, side: Callable[[CaseChange], Outcomes | None]) -> Rate:
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


def count_cases(number: int) -> str:
    """Return a number of cases in words."""
    return f"{number:,} case{'s' * (number != 1)}"


def compare(
    before: Mapping[CaseKey, Outcomes],
    after: Mapping[CaseKey, Outcomes],
    history: Mapping[CaseKey, Sequence[PastRun]] | None = None,
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
        if (change := _find_incomparable(key, before.get(key), after.get(key), refusal))
    }
    pairs = {key: (before[key], after[key]) for key in keys if key not in incomparable}
    earlier, dependence = collect_all_earlier({key: side for key, (side, _) in pairs.items()}, history or {})
    judged = {change.key: change for change in judge_cases(pairs, earlier, fresh, level / 2)}
    cases = [incomparable.get(key) or judged[key] for key in keys]
    order = {verdict: rank for rank, verdict in enumerate(Verdict)}
    cases.sort(key=lambda case: order[case.verdict])
    if not pairs:
        refusal = refusal or _explain_no_pairs(cases)
    comparable = [case for case in cases if case.is_comparable]
    counts = [(case.after.counts, case.earlier) for case in comparable if case.after and case.earlier]
    whole_run = judge_whole(counts, level, refusal, dependence)
    return Comparison(cases, whole_run, list(_compare_amounts(comparable, one_currency)))


def collect_all_earlier(
    before: Mapping[CaseKey, Outcomes], history: Mapping[CaseKey, Sequence[PastRun]]
) -> tuple[dict[CaseKey, EarlierOutcomes], Dependence]:
    """Return the outcomes that each case is tested against, and how outcomes of one run depend on each other.

    Args:
        before: outcomes of the cases in the run that is compared with.
        history: those in earlier runs.
    """
    earlier = {key: collect_earlier(outcomes, history.get(key, ())) for key, outcomes in before.items()}
    parts = split_at_run_change(list(earlier.values()))
    series = [part.by_run for both in parts for part in both if part.by_run]
    dependence = estimate_dependence(series, len(measure_deviations(list(earlier.values()))))
    newest_parts = (newest for newest, _ in parts)
    return {
        key: keep_since_change(newest, dependence.correlation)
        for key, newest in zip(earlier, newest_parts, strict=True)
    }, dependence


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


def _find_incomparable(
    key: CaseKey, before: Outcomes | None, after: Outcomes | None, refusal: str
) -> CaseChange | None:
    """Return the change of a case that cannot be compared; None if it can."""
    if before is None:
        return CaseChange(key, Verdict.NEW, "The run before does not have it.", None, after)
    if after is None:
        return CaseChange(key, Verdict.GONE, "The run does not have it any more.", before, None)
    because = after.incomparable or _explain_difference(before, after) or refusal
    return CaseChange(key, Verdict.NOT_COMPARABLE, because, before, after) if because else None


def _explain_difference(before: Outcomes, after: Outcomes) -> str:
    if before.same.data != after.same.data:
        return "The case was changed between the two runs."
    if before.same.judged_by != after.same.judged_by:
        return "The runs were judged by different metrics, criteria or thresholds."
    sides = (("before", before), ("after", after))
    if absent := [name for name, side in sides if not side.ran]:
        return f"It did not run {' and '.join(absent)}."
    unjudged = [name for name, side in sides if not side.outcome_count]
    return f"No repetition was judged {' and '.join(unjudged)}." if unjudged else ""


def _compare_amounts(cases: Sequence[CaseChange], one_currency: bool) -> Iterator[Amount]:
    for name in ("cost", "tokens", "seconds"):
        pairs = [(getattr(case.before, name), getattr(case.after, name)) for case in cases]
        complete_pairs = [pair for pair in pairs if None not in pair]
        if not complete_pairs or (name == "cost" and not one_currency):
            yield Amount(name, 0, None, None)
            continue
        before, after = (sum(side) / len(complete_pairs) for side in zip(*complete_pairs, strict=True))
        yield Amount(name, len(complete_pairs), before, after)
