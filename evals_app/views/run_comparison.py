"""Page that compares two runs of an evalset."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from evals_app.analysis import agent_changes, baselines, run_summary, side_by_side
from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.exports import comparison_page
from evals_app.analysis.side_by_side import ChosenAttempts
from evals_app.analysis.slices import read_slices
from evals_app.models import CONFIRMATION, EvalRun
from sessions_app.errors import NotFound
from sessions_app.http import download_page, render_partial

PAGE = 100


@require_safe
def compare(request: HttpRequest, run_id: str) -> HttpResponse:
    """Compare a run with `?with=`: a run's id, `baseline` or `previous`; else with the baseline, or the run before.

    `?case=` (with `number=`, among cases with this id) opens a case with both sides; `before=` and `after=` choose the
    attempts.

    Raises:
        NotFound: no such run.
    """
    now = run_summary.find_run(run_id)
    then = _find_other_run(request, now)
    context: dict[str, object] = {"run": now, "then": then, "offered": baselines.comparable_runs(now)}
    if then is not None:
        context |= _comparison_context(request, then, now)
    return render_partial(request, "devui/evals/compare.html", context, partial="cases")


@require_safe
def export(request: HttpRequest, run_id: str) -> HttpResponse:
    """Download the comparison of a run with `?with=`, or the same run as on the page, as one HTML page.

    Raises:
        NotFound: no such run, or none to compare with.
    """
    now = run_summary.find_run(run_id)
    then = _find_other_run(request, now)
    if then is None:
        raise NotFound(
            f"{now.evalset.evalset_id} has no other finished run to compare with.",
            hint="Run the evalset again.",
        )
    return download_page(comparison_page.comparison_html(then, now), f"eval-compare-{then.pk}-{now.pk}")


def _find_other_run(request: HttpRequest, now: EvalRun) -> EvalRun | None:
    """Return the run that `?with=` names, else the baseline, else the run before; None if there is none."""
    if name := request.GET.get("with", ""):
        return baselines.find_baseline(now, name)
    return baselines.baseline_of(now) or baselines.before(now)


def _comparison_context(request: HttpRequest, then: EvalRun, now: EvalRun) -> dict[str, object]:
    comparison = baselines.compare_runs(then, now)
    opened = _find_case(request, comparison)
    confirmations = list(now.repeated_by.filter(source=CONFIRMATION).order_by("created_at"))
    verdict, text = request.GET.get("verdict", ""), request.GET.get("q", "").strip()
    cases = [
        case
        for case in comparison.cases
        if (not verdict or case.verdict == verdict) and text.casefold() in case.key.id.casefold()
    ]
    return {
        "comparison": comparison,
        "confirmations": confirmations,
        "may_confirm": not any(run.active for run in (now, *confirmations)),
        "changed": baselines.what_changed(then, now),
        "currency": baselines.currency_of(now),
        "one_currency": baselines.currency_of(then) == baselines.currency_of(now),
        "agents": agent_changes.read_agent_changes(comparison),
        "cases": Paginator(cases, PAGE).get_page(request.GET.get("page") or _page_of(opened, cases)),
        "sides": side_by_side.read_case(then, now, opened, ChosenAttempts.read(request.GET))
        if opened
        else None,
        "slices": read_slices(now, comparison),
        "verdict": verdict if verdict in list(Verdict) else "",
        "text": text,
    }


def _find_case(request: HttpRequest, comparison: Comparison) -> CaseChange | None:
    """Return the case that `?case=` and `number=` name, which is shown with both sides."""
    name = request.GET.get("case", ""), request.GET.get("number", "1")
    return next((case for case in comparison.cases if (case.key.id, str(case.key.number)) == name), None)


def _page_of(case: CaseChange | None, cases: Sequence[CaseChange]) -> int:
    return cases.index(case) // PAGE + 1 if case in cases else 1
