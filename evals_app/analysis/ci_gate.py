"""CI gate: decides whether runs fail a build, also by comparison with a baseline."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evals_app.analysis import baselines
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.gate_settings import GateSettings, describe_score_falls, exceeded_limits
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs.attempt_status import NO_OUTCOME_TYPES
from sessions_app.errors import NotFound

MARKED_BASELINE, PREVIOUS_RUN = "baseline", "previous"
FALLS = {"regression", "scores"}
"""Conditions that need a baseline: failures as before are accepted."""


@dataclass(frozen=True)
class GateResult:
    """A run checked by the gate. `fails`: the reasons why it fails, one sentence each."""

    run: EvalRun
    then: EvalRun | None = None
    comparison: Comparison | None = None
    fails: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Gate:
    """Conditions of failure: `regression`, `scores` (also falls of scores), `any` (also what did not pass or is
    unclear), or "" (not passed).

    `name` is the run to compare with, as in `baselines.find_baseline`; "": the marked one. If it `is_optional`, an
    evalset without such a run is not compared. `settings` override those of the runs' configurations.
    """

    name: str = ""
    fail_on: str = ""
    is_optional: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def settings_for(self, run: EvalRun) -> GateSettings:
        """Return the settings of a run: those of its configuration, overridden by those of the gate.

        Raises:
            BadInput: a tolerance is for a metric that is unknown to the run.
        """
        return GateSettings.read(json.loads(run.config), self.settings)

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
        return bool(self.name or self.fail_on in FALLS) and not may_be_missing

    def _fails(self, run: EvalRun, comparison: Comparison | None) -> list[str]:
        fails = []
        if run.status != EvalRun.Status.DONE:
            status = run.get_status_display().lower()
            fails.append(f"The run is {status}. {run.stopped_because or run.error}".strip())
        unavailable = run.attempts.filter(
            status=EvalAttempt.Status.ERROR, error_type__in=NO_OUTCOME_TYPES
        ).count()
        if self.fail_on in FALLS and unavailable:
            fails.append(f"{unavailable} of {run.total} attempts have no outcome: what they ran on failed.")
        elif self.fail_on in FALLS and not fails and not run.passed + run.failed + run.errors:
            fails.append("No attempt could be judged, so there is nothing to compare.")
        if self.fail_on not in FALLS and run.passed < run.total:
            fails.append(f"{run.total - run.passed} of {run.total} attempts did not pass.")
        if self.fail_on and comparison:
            fails += comparison.regressions
        if self.fail_on == "any" and comparison:
            fails += comparison.doubts
        settings = self.settings_for(run)
        if self.fail_on in {"scores", "any"} and comparison:
            fails += describe_score_falls(comparison.scores, settings)
        return fails + exceeded_limits(run, settings)
