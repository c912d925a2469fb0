"""Page that compares two runs of an evalset."""

from __future__ import annotations

from collections.abc import Callable

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from evals_app.analysis import baselines, run_summary
from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.outcomes import Outcomes
from evals_app.analysis.statistics import Rate
from evals_app.models import EvalRun
from sessions_app.http import render_partial

PAGE = 100


@require_safe
def compare(request: HttpRequest, run_id: str) -> HttpResponse:
    """Compare a run with `?with=`: a run's id, `baseline` or `previous`; else with the baseline, or the run before.

    Raises:
        NotFound: no such run.
    """
    now = run_summary.find_run(run_id)
    baseline_name = request.GET.get("with", "")
    then = (
        baselines.find_baseline(now, baseline_name)
        if baseline_name
        else baselines.baseline_of(now) or baselines.before(now)
    )
    context: dict[str, object] = {"run": now, "then": then, "offered": baselines.comparable_runs(now)}
    if then is not None:
        context |= _comparison_context(request, then, now)
    return render_partial(request, "devui/evals/compare.html", context, partial="cases")


def _comparison_context(request: HttpRequest, then: EvalRun, now: EvalRun) -> dict[str, object]:
    comparison = baselines.compare_runs(then, now)
    verdict, text = request.GET.get("verdict", ""), request.GET.get("q", "").strip()
    cases = [
        case
        for case in comparison.cases
        if (not verdict or case.verdict == verdict) and text.casefold() in case.key.id.casefold()
    ]
    return {
        "comparison": comparison,
        "before_rate": _rate(comparison, lambda case: case.before),
        "after_rate": _rate(comparison, lambda case: case.after),
        "changed": baselines.what_changed(then, now),
        "currency": baselines.currency_of(now),
        "one_currency": baselines.currency_of(then) == baselines.currency_of(now),
        "cases": Paginator(cases, PAGE).get_page(request.GET.get("page")),
        "verdict": verdict if verdict in list(Verdict) else "",
        "text": text,
    }


def _rate(comparison: Comparison, side: Callable[[CaseChange], Outcomes | None]) -> Rate:
    """Return the pass rate of one side over the cases that can be compared, each with the same weight."""
    outcomes = [side(case) for case in comparison.cases if case.is_comparable]
    rates = [side_outcomes.rate for side_outcomes in outcomes if side_outcomes is not None]
    return Rate(sum(rates), len(rates))
