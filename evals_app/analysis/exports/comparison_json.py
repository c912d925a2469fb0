"""Comparison of two runs, and the trend of an evalset, in JSON. Read-only."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.ci_gate import GateResult
from evals_app.analysis.exports.run_json import variant_json
from evals_app.analysis.outcomes import Outcomes
from evals_app.analysis.run_differences import read_differences
from evals_app.analysis.slices import read_slices
from evals_app.analysis.trends import EvalsetTrend


def comparison_facts(result: GateResult) -> dict[str, Any]:
    """Return a compared run as JSON values: what the gate says, cases, verdict of the whole, amounts, and differences.

    `before` is the run that most cases are compared with, `before_runs` names all of them.
    """
    reference, comparison = result.require_comparison()
    whole_run = comparison.whole
    return {
        "before": reference.run.pk,
        "before_runs": [run.pk for run in reference.runs],
        "after": result.run.pk,
        "variant": variant_json(result.run),
        "status": str(result.status),
        "title": result.title,
        "reasons": result.reasons,
        "exit_code": result.exit_code,
        "differences": [asdict(difference) for difference in read_differences(reference.run, result.run)],
        "counts": {str(verdict): count for verdict, count in comparison.counts.items()},
        "whole": {
            **_select_fields(whole_run, "cases", "worse", "better", "probability", "test"),
            "refusal": whole_run.refusal,
            "variation": whole_run.variation,
            "dependence": asdict(whole_run.dependence),
            "regressed": whole_run.is_worse,
            "fixed": whole_run.is_better,
            "effect": whole_run.effect.mean if whole_run.effect else None,
            "interval": [whole_run.effect.interval.low, whole_run.effect.interval.high]
            if whole_run.effect
            else None,
        },
        "amounts": {
            amount.name: _select_fields(amount, "before", "after", "cases") for amount in comparison.amounts
        },
        "scores": [
            _select_fields(
                score, "metric", "cases", "before", "after", "probability", "is_worse", "is_better"
            )
            for score in comparison.scores
        ],
        "slices": [tagged.as_json() for tagged in read_slices(result.run, comparison)],
        "regressions": comparison.regressions,
        "cause": comparison.cause,
        "cases": [_case_json(case) for case in comparison.cases],
    }


def _case_json(case: CaseChange) -> dict[str, Any]:
    return {
        "case": case.key.id,
        "number": case.key.number,
        "verdict": str(case.verdict),
        **_select_fields(
            case, "because", "looks_worse", "repetitions", "of_both_runs", "probability", "can_confirm"
        ),
        "before": _side_json(case.before),
        "after": _side_json(case.after),
        "fresh": _side_json(case.fresh),
        "earlier": _select_fields(case.earlier, "passed", "total", "history_passed", "history_total", "runs")
        if case.earlier
        else None,
    }


def _side_json(side: Outcomes | None) -> dict[str, Any] | None:
    if side is None:
        return None
    names = ("run", "passed", "failed", "unjudged", "attempt", "session", "tokens", "seconds", "cost")
    return _select_fields(side, *names)


def _select_fields(values: object, *names: str) -> dict[str, Any]:
    return {name: getattr(values, name) for name in names}


def trend_facts(trend: EvalsetTrend) -> list[dict[str, Any]]:
    """Return the runs of a trend as JSON values, the oldest first."""
    return [
        {
            "run": point.run.pk,
            **_select_fields(point.run, "created_at", "baseline", "note"),
            **_select_fields(point, "seconds", "tokens", "cost", "currency"),
            "rate": point.rate.value,
            "interval": [point.rate.interval.low, point.rate.interval.high],
            "cases": point.rate.total,
            "changes": [asdict(change) for change in point.changes],
        }
        for point in trend.points
    ]
