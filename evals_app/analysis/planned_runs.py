"""Preview of a planned run: its future baseline, and the size of change that a comparison can show. Read-only."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from evals_app.analysis import baselines, power
from evals_app.analysis.comparison import refuse_run
from evals_app.analysis.outcomes import CaseKey, Earlier, Outcomes, Sameness, pool_earlier
from evals_app.analysis.power import Power
from evals_app.models import EvalRun
from evals_app.runs.writes.runs import NewRun


@dataclass(frozen=True)
class Plan:
    """Statistical power of a planned run. `then`: the run to compare with; None: there is none.

    `refusal` says why that run cannot be compared with; "" if it can.
    """

    then: EvalRun | None
    power: Power
    refusal: str = ""

    @property
    def advice(self) -> str:
        """Advice on what to do before or with the run, in a few sentences."""
        return self.refusal or self.power.advice


def plan_run(planned: NewRun, *, baseline_name: str = "", drop: float = power.DEFAULT_DROP) -> Plan:
    """Return what a run can show that is planned with the code of now and the models of its baseline.

    Args:
        baseline_name: as in `baselines.find_baseline`; "": the marked one, else the newest run with outcomes.
        drop: how much a pass rate falls.

    Raises:
        BadInput: the drop is out of range, or several runs have the name.
        NotFound: no run has the name.
    """
    power.check_drop(drop)
    run = EvalRun(
        evalset=planned.version.evalset, created_at=time.time(), config=json.dumps(dict(planned.config))
    )
    then = (
        baselines.find_baseline(run, baseline_name)
        if baseline_name
        else baselines.baseline_of(run) or baselines.before(run)
    )
    cases = baselines.cases_of(planned.version)
    same = {cases[index].key: baselines.sameness_of(run, cases[index].digest) for index, _ in planned.cases}
    before = baselines.outcomes_of(then) if then else {}
    refusal = refuse_run(before.values(), "before")
    earlier = dict.fromkeys(same) if refusal or then is None else _read_earlier(run, then, before, same)
    return Plan(then, power.plan_power(earlier, planned.num_runs, drop, baselines.level()), refusal)


def _read_earlier(
    run: EvalRun, then: EvalRun, before: Mapping[CaseKey, Outcomes], same: Mapping[CaseKey, Sameness]
) -> dict[CaseKey, Earlier | None]:
    """Return the outcomes that cases will be tested against; None where the baseline has none of the same case."""
    history = baselines.history(run, same, then=then)

    def earlier_of(key: CaseKey, planned: Sameness) -> Earlier | None:
        outcomes = before.get(key)
        if outcomes is None or not outcomes.outcome_count:
            return None
        if (outcomes.same.data, outcomes.same.judged_by) != (planned.data, planned.judged_by):
            return None
        return pool_earlier(outcomes, Outcomes(planned), history.get(key, ()))

    return {key: earlier_of(key, planned) for key, planned in same.items()}
