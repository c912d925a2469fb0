"""Preview of a planned run: its future baseline, and the size of change that a comparison can show. Read-only."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from evals_app.analysis import baselines, power
from evals_app.analysis.baselines import Reference
from evals_app.analysis.comparability import read_cases, read_sameness
from evals_app.analysis.comparison import collect_all_earlier, refuse_run
from evals_app.analysis.dependence import OutcomeCounts
from evals_app.analysis.outcomes import CaseKey, Outcomes
from evals_app.analysis.power import Power
from evals_app.models import EvalRun
from evals_app.runs.writes.runs import NewEvalRun


@dataclass(frozen=True)
class Plan:
    """Statistical power of a planned run. `reference`: what it will be compared with; None: nothing.

    `refusal` says why that cannot be compared with; "" if it can.
    """

    reference: Reference | None
    power: Power
    refusal: str = ""

    @property
    def advice(self) -> str:
        """Advice on what to do before or with the run, in a few sentences."""
        return self.refusal or self.power.advice


def plan_run(planned: NewEvalRun, *, baseline_name: str = "", drop: float = power.DEFAULT_DROP) -> Plan:
    """Return what a run can show that is planned with the code of now and the models of its baseline.

    Args:
        baseline_name: as in `baselines.find_reference`.
        drop: how much a pass rate falls.

    Raises:
        BadInput: the drop is out of range, or several runs have the name.
        NotFound: no run has the name.
    """
    power.check_drop(drop)
    run = EvalRun(
        evalset=planned.version.evalset,
        version=planned.version,
        case_ids=json.dumps(list(planned.case_ids)),
        source=planned.source,
        created_at=time.time(),
        config=json.dumps(dict(planned.config)),
    )
    reference = baselines.find_reference(run, baseline_name)
    cases = read_cases(planned.version)
    outcomes = {
        cases[index].key: Outcomes(read_sameness(run, cases[index].digest)) for index, _ in planned.cases
    }
    refusal = refuse_run(reference.outcomes.values(), "before") if reference else ""
    earlier: dict[CaseKey, OutcomeCounts | None] = dict.fromkeys(outcomes)
    correlation = 0.0
    if reference and not refusal:
        collected, correlation = _collect_earlier(run, reference, outcomes)
        earlier.update(collected)
    planned_power = power.plan_power(earlier, planned.num_runs, drop, baselines.read_level(), correlation)
    return Plan(reference, planned_power, refusal)


def _collect_earlier(
    run: EvalRun, reference: Reference, planned: dict[CaseKey, Outcomes]
) -> tuple[dict[CaseKey, OutcomeCounts], float]:
    """Return the outcomes that cases will be tested against, as independent ones, and the correlation in a run.

    Cases that the baseline does not have, or that were changed since, are left out.
    """
    before = {
        key: outcomes
        for key, outcomes in reference.outcomes.items()
        if key in planned and outcomes.outcome_count and _is_comparable(outcomes, planned[key])
    }
    history = baselines.read_history(run, {key: planned[key] for key in before}, reference)
    earlier, dependence = collect_all_earlier(before, history)
    return {key: case.effective for key, case in earlier.items()}, dependence.correlation


def _is_comparable(outcomes: Outcomes, planned: Outcomes) -> bool:
    return (outcomes.same.data, outcomes.same.judged_by) == (planned.same.data, planned.same.judged_by)
