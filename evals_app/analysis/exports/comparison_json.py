"""Comparison of two runs, and the trend of an evalset, in JSON. Read-only."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evals_app.analysis import baselines
from evals_app.analysis.comparison import CaseChange, Comparison, Outcomes
from evals_app.analysis.trends import Trend
from evals_app.models import EvalRun


def comparison_facts(then: EvalRun, now: EvalRun, comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values: cases, verdict of the whole, amounts, and differences of the runs."""
    whole = comparison.whole
    return {
        "before": then.pk,
        "after": now.pk,
        "differences": [asdict(difference) for difference in baselines.what_changed(then, now)],
        "counts": {str(verdict): count for verdict, count in comparison.counts.items()},
        "whole": {
            "cases": whole.cases,
            "worse": whole.worse,
            "better": whole.better,
            "effect": whole.effect.mean if whole.effect else None,
            "interval": [whole.effect.interval.low, whole.effect.interval.high] if whole.effect else None,
            "probability": whole.probability,
            "test": whole.test,
            "regressed": whole.regressed,
            "fixed": whole.fixed,
        },
        "amounts": {
            difference.name: {
                "before": difference.before,
                "after": difference.after,
                "cases": difference.cases,
            }
            for difference in comparison.amounts
        },
        "regressions": comparison.regressions,
        "cases": [_case(case) for case in comparison.cases],
    }


def _case(case: CaseChange) -> dict[str, Any]:
    return {
        "case": case.key.id,
        "number": case.key.number,
        "verdict": str(case.verdict),
        "because": case.because,
        "repetitions": case.repetitions,
        "probability": case.probability,
        "before": _side(case.before),
        "after": _side(case.after),
    }


def _side(side: Outcomes | None) -> dict[str, Any] | None:
    if side is None:
        return None
    names = ("passed", "failed", "unjudged", "attempt", "session", "tokens", "seconds", "cost")
    return {name: getattr(side, name) for name in names}


def trend_facts(trend: Trend) -> list[dict[str, Any]]:
    """Return the runs of a trend as JSON values, the oldest first."""
    return [
        {
            "run": point.run.pk,
            "created_at": point.run.created_at,
            "baseline": point.run.baseline,
            "note": point.run.note,
            "rate": point.rate.value,
            "interval": [point.rate.interval.low, point.rate.interval.high],
            "cases": point.rate.total,
            "seconds": point.seconds,
            "tokens": point.tokens,
            "cost": point.cost,
            "currency": point.currency,
            "changes": [asdict(change) for change in point.changes],
        }
        for point in trend.points
    ]
