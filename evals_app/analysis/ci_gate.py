"""CI gate: decides whether runs fail a build, also by comparison with a baseline."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from evals_app.analysis import baselines
from evals_app.analysis.comparison import Comparison
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs.attempt_status import NO_OUTCOME_TYPES
from sessions_app.errors import NotFound

MARKED_BASELINE, PREVIOUS_RUN = "baseline", "previous"


@dataclass(frozen=True)
class GateResult:
    """A run checked by the gate. `fails`: the reasons why it fails, one sentence each."""

    run: EvalRun
    then: EvalRun | None = None
    comparison: Comparison | None = None
    fails: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Gate:
    """Conditions of failure: `regression`, `any` (also attempts that did not pass or are unclear), or "" (not passed).

    `name` is the run to compare with, as in `baselines.find_baseline`; "": the marked one. If it `is_optional`, an
    evalset without such a run is not compared.
    """

    name: str = ""
    fail_on: str = ""
    is_optional: bool = False

    def check(self, evalset: EvalSet) -> None:
        """Require the baseline of an evalset, before anything runs.

        Raises:
            NotFound: no such run.
            BadInput: the name matches several runs.
        """
        if self._needs_baseline:
            future_run = EvalRun(evalset=evalset, created_at=time.time())
            baselines.find_baseline(future_run, self.name or MARKED_BASELINE)

    def hold(self, run: EvalRun) -> GateResult:
        """Compare an ended run with its baseline; return why it fails."""
        then = self._baseline_of(run)
        comparison = baselines.compare_runs(then, run) if then else None
        return GateResult(run, then, comparison, self._fails(run, comparison))

    def cases_to_confirm(self, run: EvalRun) -> list[int]:
        """Return the positions of an ended run's cases that fell since the baseline and that repetitions can decide."""
        then = self._baseline_of(run)
        return baselines.cases_to_confirm(then, run) if then and run.status == EvalRun.Status.DONE else []

    def _baseline_of(self, run: EvalRun) -> EvalRun | None:
        try:
            return baselines.find_baseline(run, self.name or MARKED_BASELINE)
        except NotFound:
            if self._needs_baseline:
                raise
            return None

    @property
    def _needs_baseline(self) -> bool:
        may_be_missing = self.is_optional and self.name in {"", MARKED_BASELINE, PREVIOUS_RUN}
        return bool(self.name or self.fail_on == "regression") and not may_be_missing

    def _fails(self, run: EvalRun, comparison: Comparison | None) -> list[str]:
        fails = []
        if run.status != EvalRun.Status.DONE:
            status = run.get_status_display().lower()
            fails.append(f"The run is {status}. {run.stopped_because or run.error}".strip())
        unavailable = run.attempts.filter(
            status=EvalAttempt.Status.ERROR, error_type__in=NO_OUTCOME_TYPES
        ).count()
        if self.fail_on == "regression" and unavailable:
            fails.append(f"{unavailable} of {run.total} attempts have no outcome: what they ran on failed.")
        elif self.fail_on == "regression" and not fails and not run.passed + run.failed + run.errors:
            fails.append("No attempt could be judged, so there is nothing to compare.")
        if self.fail_on != "regression" and run.passed < run.total:
            fails.append(f"{run.total - run.passed} of {run.total} attempts did not pass.")
        if self.fail_on and comparison:
            fails += comparison.regressions
        if self.fail_on == "any" and comparison:
            fails += comparison.doubts
        return fails
