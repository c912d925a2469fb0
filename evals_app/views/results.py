"""A run as people read it, and as files for others."""

from __future__ import annotations

import json

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from devui.http import render_partial, wants_partial
from evals_app import attempts, exports, report
from evals_app.models import EvalAttempt, EvalRun
from sessions_app.errors import NotFound

FILTERS = ("failed", "error", "incomplete", "running", "pending", "cancelled", "passed")


@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a run: counts, the matrix, and the attempt `?attempt=` in full.

    Raises:
        NotFound: no such run, or no such attempt in it.
    """
    found = report.find_run(run_id)
    status = request.GET.get("status", "")
    order = request.GET.get("order", "file" if found.active else "worst")
    page = request.GET.get("page", "1")
    matrix = report.matrix(
        found,
        failures_first=order != "file",
        status=status if status in FILTERS else "",
        page=int(page) if page.isdecimal() else 1,
    )
    context = {
        **report.run_context(found),
        "matrix": matrix,
        "order": order,
        "status": status,
        "filters": report.case_counts(found),
        "detail": _detail(found, request.GET.get("attempt", "")),
        "models": json.loads(found.agent_models),
        "warnings": json.loads(found.warnings),
    }
    partial = "filters" if wants_partial(request, "filters") else "attempt"
    return render_partial(request, "devui/evals/run.html", context, partial=partial)


def _detail(found: EvalRun, attempt: str) -> attempts.Detail | None:
    if not attempt:
        return None
    rows = EvalAttempt.objects.select_related("run", "run__version", "run__evalset")
    row = rows.filter(run=found, pk=int(attempt)).first() if attempt.isdecimal() else None
    if row is None:
        raise NotFound(f"The run has no attempt {attempt!r}.", hint="Open the run without it.")
    return attempts.detail(row)


EXPORTS = {
    "json": ("application/json", exports.as_json),
    "junit": ("application/xml", exports.as_junit),
    "html": ("text/html; charset=utf-8", exports.as_html),
}


@require_safe
def export(request: HttpRequest, run_id: str, kind: str) -> HttpResponse:
    """Download a run as JSON, JUnit XML or one HTML page."""
    if kind not in EXPORTS:
        raise Http404
    found = report.find_run(run_id)
    content_type, render = EXPORTS[kind]
    ending = "xml" if kind == "junit" else kind
    answer = HttpResponse(render([found]), content_type=content_type)
    answer.headers["Content-Disposition"] = f'attachment; filename="eval-{found.id}.{ending}"'
    return answer
