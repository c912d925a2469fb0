"""Page of a case with the original and each variant side by side."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from evals_app.analysis import run_summary, variant_matrix
from evals_app.analysis.run_differences import read_currency
from evals_app.analysis.variant_case import read_variant_case
from sessions_app.store.errors import NotFound

PAGE = "devui/evals/variant_case.html"


def show(request: HttpRequest, run_id: str, position: int) -> HttpResponse:
    """Show what the original and each variant did with a case of a run.

    Raises:
        NotFound: no such run, it has no variants, or no such case.
    """
    run = run_summary.find_run(run_id)
    matrix = variant_matrix.read_matrix(run)
    if matrix is None:
        raise NotFound(f"Run {run.pk} has no variants.", hint="Open the run of the original.")
    context = {
        "run": run,
        "matrix": matrix,
        "case": read_variant_case(matrix, position),
        "currency": read_currency(run),
    }
    return render(request, PAGE, context)
