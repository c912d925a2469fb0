"""Report of a run as a page and as downloads."""

from __future__ import annotations

import json
from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse

from evals_app.analysis import (
    adk_result_json,
    attempt_detail,
    baselines,
    case_matrix,
    run_summary,
    variant_matrix,
)
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports import html_page, junit, markdown, run_csv, run_json
from evals_app.analysis.slices import read_slices
from evals_app.models import EvalRun
from evals_app.runs import rerun
from evals_app.variants.variant import read_run_variant
from sessions_app import prices
from sessions_app.http import download_page, download_text, render_partial, wants_partial
from sessions_app.lookup import parse_number
from sessions_app.store.errors import NotFound

KEPT = ("status", "cause", "mixed", "order")
"""Filters of the query string that are kept when the filter form is submitted."""


def run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a run: counts, the matrix, and the attempt `?attempt=` in full.

    Raises:
        NotFound: no such run, or no such attempt in it.
    """
    eval_run = run_summary.find_run(run_id)
    filters = case_matrix.Filters.read(request.GET, order="file" if eval_run.active else "worst")
    baseline = None if eval_run.active else baselines.find_marked_run(eval_run)
    against = baselines.compare_runs(baseline, eval_run) if baseline else None
    context = {
        **case_matrix.run_context(eval_run),
        "matrix": case_matrix.matrix(eval_run, filters),
        "filters": filters,
        "kept": [(name, request.GET[name]) for name in KEPT if request.GET.get(name)],
        "baseline": baseline,
        "against": against,
        "slices": [] if eval_run.active else read_slices(eval_run, against),
        "changes": baselines.map_changes_to_positions(eval_run, against) if against else {},
        "detail": _find_detail(eval_run, request.GET.get("attempt", "")),
        "models": json.loads(eval_run.agent_models),
        "policy": json.loads(eval_run.policy),
        "limits": json.loads(eval_run.limits),
        "table": prices.prices_from_json(json.loads(eval_run.prices)),
        "warnings": json.loads(eval_run.warnings),
        "variant": read_run_variant(eval_run),
        "variants": variant_matrix.read_matrix(eval_run),
    }
    partial = next(
        (name for name in ("filters", "matrix", "variants") if wants_partial(request, name)), "attempt"
    )
    return render_partial(request, "devui/evals/run.html", context, partial=partial)


def _find_detail(eval_run: EvalRun, attempt: str) -> attempt_detail.Detail | None:
    if not attempt:
        return None
    key = parse_number(attempt)
    row = eval_run.attempts.filter(pk=key).first() if key is not None else None
    if row is None:
        raise NotFound(f"The run has no attempt {attempt[:40]!r}.", hint="Open the run without it.")
    return attempt_detail.detail(row)


EXPORTS: dict[str, tuple[str, str, Callable[[list[EvalRun]], str]]] = {
    "json": ("json", "application/json", run_json.as_json),
    "junit": ("xml", "application/xml", lambda runs: junit.as_junit([Gate().judge(run) for run in runs])),
    "csv": ("csv", "text/csv; charset=utf-8", run_csv.as_csv),
    "html": ("html", "text/html; charset=utf-8", html_page.as_html),
    "markdown": (
        "md",
        "text/markdown; charset=utf-8",
        lambda runs: markdown.as_markdown([Gate().judge(run) for run in runs]),
    ),
    "adk": ("evalset_result.json", "application/json", lambda runs: adk_result_json.result_file(runs[0])),
}
"""kind → (file extension, content type, writer)"""


def export(request: HttpRequest, run_id: str, kind: str) -> HttpResponse:
    """Download a run as JSON, JUnit XML, CSV, one HTML page, Markdown, or the file that ADK keeps of a run."""
    if kind not in EXPORTS:
        raise Http404
    eval_run = run_summary.find_run(run_id)
    ending, content_type, render = EXPORTS[kind]
    name = adk_result_json.adk_result_id(eval_run) if kind == "adk" else f"eval-{eval_run.id}"
    return download_text(render([eval_run]), f"{name}.{ending}", content_type)


def export_case(request: HttpRequest, run_id: str, attempt: int) -> HttpResponse:
    """Download the case of an attempt with its repetitions as one HTML page.

    Raises:
        NotFound: no such run, or no such attempt in it.
    """
    row = rerun.find_attempt(run_summary.find_run(run_id), attempt)
    return download_page(html_page.case_html(row), f"eval-case-{row.pk}")
