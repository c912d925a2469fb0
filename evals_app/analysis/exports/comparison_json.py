"""Comparison of two runs, and the trend of an evalset, in JSON. Read-only."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evals_app.analysis import baselines
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.outcomes import Outcomes
from evals_app.analysis.slices import read_slices
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
            **_select(whole, "cases", "worse", "better", "probability", "test"),
            "refusal": whole.refusal,
            "regressed": whole.is_worse,
            "fixed": whole.is_better,
            "effect": whole.effect.mean if whole.effect else None,
            "interval": [whole.effect.interval.low, whole.effect.interval.high] if whole.effect else None,
        },
        "amounts": {
            amount.name: _select(amount, "before", "after", "cases") for amount in comparison.amounts
        },
        "scores": [
            _select(score, "metric", "cases", "before", "after", "probability", "is_worse", "is_better")
            for score in comparison.scores
        ],
        "slices": [tagged.as_json() for tagged in read_slices(now, comparison)],
        "regressions": comparison.regressions,
        "cases": [_case(case) for case in comparison.cases],
    }


def _case(case: CaseChange) -> dict[str, Any]:
    return {
        "case": case.key.id,
        "number": case.key.number,
        "verdict": str(case.verdict),
        **_select(
            case, "because", "looks_worse", "repetitions", "of_both_runs", "probability", "can_confirm"
        ),
        "before": _side(case.before),
        "after": _side(case.after),
        "fresh": _side(case.fresh),
        "earlier": asdict(case.earlier) if case.earlier else None,
    }


def _side(side: Outcomes | None) -> dict[str, Any] | None:
    if side is None:
        return None
    names = ("passed", "failed", "unjudged", "attempt", "session", "tokens", "seconds", "cost")
    return _select(side, *names)


def _select(values: object, *names: str) -> dict[str, Any]:
    return {name: getattr(values, name) for name in names}


def trend_facts(trend: Trend) -> list[dict[str, Any]]:
    """Return the runs of a trend as JSON values, the oldest first."""
    return [
        {
            "run": point.run.pk,
            **_select(point.run, "created_at", "baseline", "note"),
            **_select(point, "seconds", "tokens", "cost", "currency"),
            "rate": point.rate.value,
            "interval": [point.rate.interval.low, point.rate.interval.high],
            "cases": point.rate.total,
            "changes": [asdict(change) for change in point.changes],
        }
        for point in trend.points
    ]
