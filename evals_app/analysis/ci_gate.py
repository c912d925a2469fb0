"""CI gate: decides whether runs fail a build, also by comparison with earlier runs, and says what happened."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from evals_app.analysis import baselines
from evals_app.analysis.baselines import MARKED_BASELINE, PREVIOUS_RUNS, Reference
from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.comparison import Comparison, count_cases
from evals_app.analysis.gate_settings import GateSettings, describe_exceeded_limits, describe_score_falls
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs.attempt_status import NO_OUTCOME_TYPES
from sessions_app.presentation.visible_text import escape_name
from sessions_app.store.errors import NotFound
from sessions_app.store.short_texts import join_names

REGRESSION, SCORES, ANY = "regression", "scores", "any"
"""Conditions of failure of a gate."""
COMPARING_CONDITIONS = {REGRESSION, SCORES}
"""Conditions that accept attempts which fail as before, so that they need earlier runs."""
MAX_NAMED = 3
"""Cases that a title names."""
MAX_NAME_LENGTH = 80
"""Characters of the name of a case in a title."""

NOT_ALL_PASSED, COULD_NOT_RUN, NOT_COMPARED = 1, 2, 3
"""Exit codes beside 0."""

NOT_RUN = {EvalRun.Status.FAILED, EvalRun.Status.CRASHED}
"""Statuses of runs that could not run."""


class GateStatus(StrEnum):
    """Status that a gate gives to a run, the worst first."""

    COULD_NOT_RUN = "could not run"
    STOPPED = "stopped"
    FAILED = "failed"
    NOT_COMPARED = "not compared"
    NO_REGRESSION = "no regression"
    PASSED = "passed"


EXIT_CODES = {
    GateStatus.COULD_NOT_RUN: COULD_NOT_RUN,
    GateStatus.STOPPED: NOT_ALL_PASSED,
    GateStatus.FAILED: NOT_ALL_PASSED,
    GateStatus.NOT_COMPARED: NOT_COMPARED,
}


HEADLINES = {
    GateStatus.COULD_NOT_RUN: "Evals could not run",
    GateStatus.STOPPED: "Evals stopped",
    GateStatus.FAILED: "Evals failed",
    GateStatus.NOT_COMPARED: "Evals not compared",
    GateStatus.NO_REGRESSION: "No regression, but not all attempts pass",
    GateStatus.PASSED: "Evals passed",
}
"""Headlines, also of several runs by the worst status of them. That of one run without a regression has numbers."""


@dataclass(frozen=True)
class GateResult:
    """A run checked by the gate.

    Attributes:
        reference: what the run was compared with; None: nothing.
        fails: the reasons why it fails, one sentence each.
        not_compared: why it could not be compared, with the way out; "": it was, or had not to be.
    """

    run: EvalRun
    reference: Reference | None = None
    comparison: Comparison | None = None
    fails: list[str] = field(default_factory=list)
    not_compared: str = ""

    def require_comparison(self) -> tuple[Reference, Comparison]:
        """Return what the run was compared with, and the comparison.

        Raises:
            ValueError: the run was not compared.
        """
        if self.reference is None or self.comparison is None:
            raise ValueError(f"Eval run {self.run.pk} was not compared.")
        return self.reference, self.comparison

    @property
    def status(self) -> GateStatus:
        """Status of the run."""
        if self.run.status in NOT_RUN:
            return GateStatus.COULD_NOT_RUN
        if self.run.status == EvalRun.Status.CANCELLED:
            return GateStatus.STOPPED
        if self.fails:
            return GateStatus.FAILED
        if self.not_compared:
            return GateStatus.NOT_COMPARED
        return GateStatus.PASSED if self.run.passed == self.run.total else GateStatus.NO_REGRESSION

    @property
    def exit_code(self) -> int:
        """Exit code of a command that checks only this run."""
        return EXIT_CODES.get(self.status, 0)

    @property
    def headline(self) -> str:
        """Title without the names of cases."""
        if self.status != GateStatus.NO_REGRESSION:
            return HEADLINES[self.status]
        run = self.run
        verb = "fail" if run.failed + run.errors == run.total - run.passed else "do not pass"
        not_passed = f"{run.total - run.passed:,} of {run.total:,} attempts {verb}"
        if self.comparison is None:
            return f"No earlier run: {not_passed}"
        if suspicious := len(self.comparison.suspicious):
            looks = "1 case looks" if suspicious == 1 else f"{suspicious:,} cases look"
            return f"No proven regression: {not_passed}, {looks} worse"
        if self.failing_new_cases or verb != "fail":
            return f"No regression: {not_passed}"
        return f"No regression: {not_passed}, as before"

    @property
    def failing_new_cases(self) -> list[CaseChange]:
        """Cases that do not pass and have no comparable earlier outcome: new, renamed or edited ones."""
        if self.comparison is None:
            return []
        return [
            case
            for case in self.comparison.cases
            if case.verdict in {Verdict.NEW, Verdict.NOT_COMPARABLE} and case.after and case.after.failed
        ]

    @property
    def title(self) -> str:
        """Title in one line: the same on pages, in the terminal, in comments and files."""
        return self.format_title(lambda name: f"“{name}”")

    def format_title(self, quote: Callable[[str], str]) -> str:
        """Return the title, with names of cases quoted by a function."""
        cases = self.failing_new_cases
        if not cases:
            return self.headline
        word = "new" if all(case.verdict == Verdict.NEW for case in cases) else "new or changed"
        introduction = f"{word} case{'s' * (len(cases) > 1)} that fail{'s' * (len(cases) == 1)}"
        names = join_names([quote(_shorten_name(case.key.label)) for case in cases], MAX_NAMED)
        return f"{self.headline}; {introduction}: {names}"

    @property
    def reasons(self) -> list[str]:
        """Reasons why the run fails or was not compared, one sentence each."""
        return [*self.fails, *self.not_compared.splitlines()]

    @property
    def mark(self) -> str:
        """Severity of the status: "danger", "warn", "info" or "ok"."""
        if self.status in {GateStatus.COULD_NOT_RUN, GateStatus.STOPPED, GateStatus.FAILED}:
            return "danger"
        if self.status == GateStatus.NOT_COMPARED:
            return "warn"
        return self.comparison.advice.mark if self.comparison else "info"

    @property
    def explanation(self) -> str:
        """Reasons of the status, and the next step."""
        parts = [self.not_compared]
        if self.comparison is not None:
            parts += [self.comparison.advice.title, self.comparison.advice.text]
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Gate:
    """Conditions of failure: `regression`, `scores` (also falls of scores), `any` (also what did not pass or is
    unclear), or "" (not passed).

    Attributes:
        name: what to compare with, as in `baselines.require_reference`; "": the marked run.
        is_optional: an evalset that has no earlier run is not compared.
        settings: override those of the runs' configurations.
        not_compared: why earlier runs cannot be used, in lines; "": they can.
    """

    name: str = ""
    fail_on: str = ""
    is_optional: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    not_compared: str = ""

    def read_settings(self, run: EvalRun) -> GateSettings:
        """Return the settings of a run: those of its configuration, overridden by those of the gate.

        Raises:
            BadInput: a tolerance is for a metric that is unknown to the run.
        """
        return GateSettings.read(json.loads(run.config), self.settings)

    def check(self, evalset: EvalSet, case_ids: Sequence[str] = (), source: str = baselines.COMMAND) -> None:
        """Require the baseline of chosen cases of an evalset (none: all), before anything runs.

        Raises:
            NotFound, BadInput: see `check_run`.
        """
        chosen = json.dumps(list(case_ids))
        self.check_run(EvalRun(evalset=evalset, case_ids=chosen, created_at=time.time(), source=source))

    def check_run(self, run: EvalRun) -> None:
        """Require the baseline of a run, before it continues or is retried.

        Raises:
            NotFound: no such run.
            BadInput: the name matches several runs, or the run repeats a part of another one.
        """
        if self._needs_baseline:
            baselines.check_reference(run, self.name or MARKED_BASELINE)

    def judge(self, run: EvalRun) -> GateResult:
        """Compare an ended run with the earlier ones that the gate names; return what the gate says of the run."""
        if run.status in NOT_RUN:
            return GateResult(run, fails=[f"The run {run.get_status_display().lower()}. {run.error}".strip()])
        try:
            return self.judge_against(run, self._find_reference(run))
        except NotFound as missing:  # deleted since it was checked: the run has been paid for
            reason = " ".join(filter(None, (missing.message, missing.hint)))
            return replace(self, not_compared=reason).judge_against(run, None)

    def judge_against(self, run: EvalRun, reference: Reference | None) -> GateResult:
        """Compare an ended run with a reference, or with nothing; return what the gate says of the run."""
        comparison = baselines.compare_with(reference, run) if reference else None
        fails = self._find_failures(run, comparison)
        not_compared = self.not_compared or ("" if fails else self._explain_not_compared(run, comparison))
        return GateResult(run, reference, comparison, fails, not_compared)

    def cases_to_confirm(self, run: EvalRun) -> list[int]:
        """Return the positions of an ended run's cases that fell since the baseline and that repetitions can decide."""
        reference = self._find_reference(run) if run.status == EvalRun.Status.DONE else None
        return baselines.cases_to_confirm(reference, run) if reference else []

    def _find_reference(self, run: EvalRun) -> Reference | None:
        try:
            return baselines.require_reference(run, self.name or MARKED_BASELINE)
        except NotFound:
            if self._needs_baseline:
                raise
            return None

    @property
    def _needs_baseline(self) -> bool:
        may_be_missing = self.is_optional and self.name in {"", MARKED_BASELINE, PREVIOUS_RUNS}
        needs_runs = bool(self.name or self.fail_on in COMPARING_CONDITIONS)
        return needs_runs and not may_be_missing and not self.not_compared

    def _find_failures(self, run: EvalRun, comparison: Comparison | None) -> list[str]:
        fails = []
        if run.status != EvalRun.Status.DONE:
            status = run.get_status_display().lower()
            fails.append(f"The run is {status}. {run.stopped_because or run.error}".strip())
        if self.fail_on in COMPARING_CONDITIONS:
            fails += _explain_lost_attempts(run)
        elif run.passed < run.total:
            fails.append(f"{run.total - run.passed} of {run.total} attempts did not pass.")
        settings = self.read_settings(run)
        if self.fail_on and comparison:
            falls = list(comparison.regressions)
            if self.fail_on in {SCORES, ANY}:
                falls += describe_score_falls(comparison.scores, settings)
            fails += [*falls, *([comparison.cause] if falls else [])]
        if self.fail_on == ANY and comparison:
            fails += comparison.doubts
        return fails + describe_exceeded_limits(run, settings)

    def _explain_not_compared(self, run: EvalRun, comparison: Comparison | None) -> str:
        """Return why a run that is judged by comparison could not be compared; "" if it could, or need not."""
        if self.fail_on not in COMPARING_CONDITIONS:
            return ""
        settings = self.read_settings(run)
        if run.incomplete > settings.max_incomplete * run.total:
            return (
                f"{run.incomplete:,} of {run.total:,} attempts are incomplete: {_name_incomplete_cause(run)} Repair"
                " that, and run the evalset again."
            )
        if comparison is None:
            if run.passed:
                return ""
            return (
                "No attempt passes, and there is no earlier run to compare with. Run the evalset once with the code"
                " before the change."
            )
        return _explain_few_compared(comparison, settings.min_compared)


def _shorten_name(name: str) -> str:
    """Return the name of a case for a title: in one line, without invisible characters."""
    line = escape_name(" ".join(name.split())) or "(empty)"
    return line if len(line) <= MAX_NAME_LENGTH else f"{line[:MAX_NAME_LENGTH]}…"


def _explain_few_compared(comparison: Comparison, min_compared: float) -> str:
    """Return why too few cases have a comparable earlier outcome; "" if enough have one."""
    cases = [case for case in comparison.cases if case.after and case.after.ran]
    compared = sum(case.is_comparable for case in cases)
    if not cases or compared >= min_compared * len(cases):
        return ""
    share = f"{100 * min_compared:g} %"
    unjudged = sum(case.after is None or not case.after.outcome_count for case in cases)
    way_out = (
        "Run the evalset again"
        if compared + unjudged >= min_compared * len(cases)
        else "Run the evalset as it is now with the code before the change"
    )
    return (
        f"{compared:,} of {len(cases):,} cases have a comparable earlier outcome, and {share} need one."
        f" {_explain_incomparable(cases)} {way_out}, or accept fewer cases with --min-compared."
    )


def _explain_lost_attempts(run: EvalRun) -> list[str]:
    """Return that attempts of a run have no outcome because a model, a judge or the database failed, if so."""
    lost = run.attempts.filter(status=EvalAttempt.Status.ERROR, error_type__in=NO_OUTCOME_TYPES)
    errors = list(lost.order_by("case_index", "repetition").values_list("error", flat=True))
    if not errors:
        return []
    first_line = next(iter(errors[0].splitlines()), "").rstrip(".")
    example = f" The first: {first_line}." if first_line else ""
    return [
        f"{len(errors):,} of {run.total:,} attempts have no outcome: a model, a judge or the database failed.{example}"
    ]


def _name_incomplete_cause(run: EvalRun) -> str:
    """Return the cause of most incomplete attempts, as a sentence."""
    causes = run.attempts.filter(status=EvalAttempt.Status.INCOMPLETE).values_list("cause", flat=True)
    [(most_frequent, _)] = Counter(causes).most_common(1) or [("", 0)]
    return f"{most_frequent.rstrip('.') or 'a metric could not run'}."


def _explain_incomparable(cases: Sequence[CaseChange]) -> str:
    """Return why cases could not be compared, each reason with the number of cases."""
    counted = Counter(case.because for case in cases if not case.is_comparable)
    return " ".join(f"{count_cases(count)}: {reason}" for reason, count in counted.items())


def find_worst_result(results: Sequence[GateResult]) -> GateResult:
    """Return the worst of some results: it decides about heading and exit code."""
    order = list(GateStatus)
    return min(results, key=lambda result: order.index(result.status))
