"""Pages of the evals room."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from devui.http import render_partial, wants_partial
from evals_app import attempts, choices, configs, dispatch, exports, launch, library, report
from evals_app.configs import Config
from evals_app.evalsets import BadFile, Problem
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from sessions_app import db, overview
from sessions_app.errors import DevUIError, NotFound

RUNS_SHOWN = 20
FILTERS = ("failed", "error", "incomplete", "running", "pending", "cancelled", "passed")


@dataclass(frozen=True)
class Row:
    """An evalset in the list."""

    evalset: EvalSet
    problems: list[Problem]
    run: EvalRun | None


@require_safe
async def index(request: HttpRequest) -> HttpResponse:
    """Show the evalsets of all apps, or of `?app=`, with the newest run of each."""
    app = request.GET.get("app", "")
    await db.write(library.refresh_known, app)
    return await db.read(_index, request, app)


def _index(request: HttpRequest, app: str) -> HttpResponse:
    found = EvalSet.objects.filter(gone=False)
    if app:
        found = found.filter(app_name=app)
    newest = report.newest_runs(found)
    groups: dict[str, list[Row]] = {name: [] for name in ([app] if app else overview.app_names())}
    for evalset in found.order_by("app_name", "evalset_id").defer("cases"):
        row = Row(evalset, library.problems_of(evalset), newest.get(evalset.pk))
        groups.setdefault(evalset.app_name, []).append(row)
    context = {"groups": groups, "has_any": any(groups.values()), "app": app}
    return render_partial(request, "devui/evals/list.html", context, partial="evalsets")


@require_http_methods(["GET", "HEAD", "POST"])
async def evalset(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show an evalset and its runs; a POST starts a run.

    Raises:
        NotFound: no evalset has this app and id.
    """
    await db.write(library.refresh_known, app_name)
    if request.method != "POST":
        return await db.read(_evalset_page, request, app_name, evalset_id)
    try:
        run = await db.write(_order, request, app_name, evalset_id)
    except DevUIError as error:
        return await db.read(_evalset_page, request, app_name, evalset_id, error)
    await dispatch.hand_over(run)
    return redirect("eval-run", run_id=run.id)


def _order(request: HttpRequest, app_name: str, evalset_id: str) -> EvalRun:
    found = library.find(app_name, evalset_id)
    return launch.order_run(found, choices.order_of(request.POST, _config(found)))


def _evalset_page(
    request: HttpRequest, app_name: str, evalset_id: str, error: DevUIError | None = None
) -> HttpResponse:
    found = library.find(app_name, evalset_id)
    problems = library.problems_of(found)
    try:
        config = _config(found)
    except BadFile as broken:
        config, problems = configs.default(), [*problems, *broken.problems]
    opened = request.GET.get("case", "")
    context = {
        "evalset": found,
        "problems": problems,
        "warnings": library.warnings_of(found),
        "cases": library.cases_of(found),
        "opened": int(opened) if opened.isdecimal() else None,
        "case": _case(found, opened),
        "config": config,
        "choices": choices.offered(config, request.POST if error else None),
        "match_types": choices.MATCH_TYPES,
        "error": error,
        "runs": found.runs.order_by("-created_at").defer("config", "traceback")[:RUNS_SHOWN],
        "runnable": not problems and not found.gone and found.app_name in _runnable_apps(),
    }
    return render_partial(
        request, "devui/evals/evalset.html", context, partial="case", status=error.status if error else 200
    )


def _runnable_apps() -> list[str]:
    """Return the apps that this server can run."""
    folder = overview.folder()
    return folder.names() if folder else []


def _case(found: EvalSet, opened: str) -> attempts.Expectation | None:
    """Return the case that is opened, as the file says it."""
    version = found.versions.filter(digest=found.digest).first()
    if version is None or not opened.isdecimal():
        return None
    cases = json.loads(version.content)["eval_cases"]
    return attempts.expected_of(cases[int(opened)]) if int(opened) < len(cases) else None


def _config(found: EvalSet) -> Config:
    folder = overview.folder()
    if folder is None:
        return configs.default()
    return configs.beside(library.path_of(folder, found), found.path)


@require_safe
def run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a run: counts, the matrix, and the attempt `?attempt=` in full.

    Raises:
        NotFound: no such run, or no such attempt in it.
    """
    found = find_run(run_id)
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


def find_run(run_id: str) -> EvalRun:
    """Return a run with its evalset and version.

    Raises:
        NotFound: no such run.
    """
    found = EvalRun.objects.select_related("evalset", "version").filter(pk=run_id).first()
    if found is None:
        raise NotFound(f"No eval run {run_id!r}.", hint="It was deleted; the evalset's page lists its runs.")
    return found


def _detail(found: EvalRun, attempt: str) -> attempts.Detail | None:
    if not attempt:
        return None
    rows = EvalAttempt.objects.select_related("run", "run__version", "run__evalset")
    row = rows.filter(run=found, pk=int(attempt)).first() if attempt.isdecimal() else None
    if row is None:
        raise NotFound(f"The run has no attempt {attempt!r}.", hint="Open the run without it.")
    return attempts.detail(row)


@require_POST
async def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Ask a run to stop. Its process hears of it within a second; one that does not react is ended."""
    await db.read(find_run, run_id)
    await dispatch.cancel(run_id)
    return redirect("eval-run", run_id=run_id)


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
    found = find_run(run_id)
    content_type, render = EXPORTS[kind]
    ending = "xml" if kind == "junit" else kind
    answer = HttpResponse(render([found]), content_type=content_type)
    answer.headers["Content-Disposition"] = f'attachment; filename="eval-{found.id}.{ending}"'
    return answer
