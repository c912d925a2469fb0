"""Page that compares two runs of an evalset."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse

from evals_app.analysis import agent_changes, baselines, run_summary, side_by_side
from evals_app.analysis.baselines import Reference
from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.ci_gate import REGRESSION, Gate, GateResult
from evals_app.analysis.code_diff import read_code_diff
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.exports import comparison_page
from evals_app.analysis.run_differences import read_currency, read_differences
from evals_app.analysis.side_by_side import ChosenAttempts, SideBySide
from evals_app.analysis.slices import read_slices
from evals_app.models import CONFIRMATION
from sessions_app.http import download_page, render_partial, wants_partial
from sessions_app.store.errors import NotFound

PAGE = 100


def compare(request: HttpRequest, run_id: str) -> HttpResponse:
    """Compare a run with `?with=`: a run's id, `baseline` or `previous`; else with the baseline, or the runs before.

    `?case=` (with `number=`, among cases with this id) opens a case with both sides; `before=` and `after=` choose the
    attempts.

    Raises:
        NotFound: no such run.
    """
    run = run_summary.find_run(run_id)
    reference = baselines.find_reference(run, request.GET.get("with", ""))
    context: dict[str, object] = {"run": run, "offered": baselines.list_comparable_runs(run)}
    if reference is not None:
        context |= _comparison_context(
            request, Gate(reference.name, REGRESSION).judge_against(run, reference)
        )
    return render_partial(request, "devui/evals/compare.html", context, partial="cases")


def export(request: HttpRequest, run_id: str) -> HttpResponse:
    """Download the comparison of a run with `?with=`, or the same run as on the page, as one HTML page.

    Raises:
        NotFound: no such run, or none to compare with.
    """
    run = run_summary.find_run(run_id)
    reference = baselines.find_reference(run, request.GET.get("with", ""))
    if reference is None:
        raise NotFound(
            f"{run.evalset.evalset_id} has no other finished run to compare with.",
            hint="Run the evalset again.",
        )
    page = comparison_page.comparison_html(Gate(reference.name, REGRESSION).judge_against(run, reference))
    return download_page(page, f"eval-compare-{reference.run.pk}-{run.pk}")


def _comparison_context(request: HttpRequest, result: GateResult) -> dict[str, object]:
    run, (reference, comparison) = result.run, result.require_comparison()
    opened = _find_case(request, comparison)
    confirmations = list(run.repeated_by.filter(source=CONFIRMATION).order_by("created_at"))
    verdict, text = request.GET.get("verdict", ""), request.GET.get("q", "").strip()
    cases = [
        case
        for case in comparison.cases
        if (not verdict or case.verdict == verdict) and text.casefold() in case.key.id.casefold()
    ]
    return {
        "result": result,
        "reference": reference,
        "comparison": comparison,
        "confirmations": confirmations,
        "may_confirm": not any(checked_run.active for checked_run in (run, *confirmations)),
        "differences": read_differences(reference.run, run),
        "currency": read_currency(run),
        "one_currency": baselines.has_one_currency(reference, run),
        "code_diff": None if wants_partial(request, "cases") else read_code_diff(reference.run, run),
        "agents": agent_changes.read_agent_changes(comparison),
        "cases": Paginator(cases, PAGE).get_page(request.GET.get("page") or _page_number(opened, cases)),
        "sides": _read_sides(request, result, reference, opened) if opened else None,
        "slices": read_slices(run, comparison),
        "verdict": verdict if verdict in list(Verdict) else "",
        "text": text,
    }


def _read_sides(
    request: HttpRequest, result: GateResult, reference: Reference, case: CaseChange
) -> SideBySide:
    chosen_attempts = ChosenAttempts.read(request.GET)
    return side_by_side.read_case(reference.find_run(case.key), result.run, case, chosen_attempts)


def _find_case(request: HttpRequest, comparison: Comparison) -> CaseChange | None:
    """Return the case that `?case=` and `number=` name, which is shown with both sides."""
    name = request.GET.get("case", ""), request.GET.get("number", "1")
    return next((case for case in comparison.cases if (case.key.id, str(case.key.number)) == name), None)


def _page_number(case: CaseChange | None, cases: Sequence[CaseChange]) -> int:
    return cases.index(case) // PAGE + 1 if case in cases else 1
