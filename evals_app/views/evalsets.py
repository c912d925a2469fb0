"""Pages of evalsets: the list, and one evalset with its cases, run form and runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from evals_app.analysis import attempt_detail, planned_runs, power
from evals_app.cases.case_list import CaseList
from evals_app.files import BadFile, library
from evals_app.metrics import config as configs
from evals_app.models import EvalRun, EvalSet
from evals_app.runs import dispatch, progress, run_form, run_orders
from evals_app.runs.replay.recorded_runs import recorded_runs
from evals_app.runs.run_orders import RunOrder
from evals_app.tables import evalset_columns, run_columns
from evals_app.tables.evalset_columns import EvalsetRow
from sessions_app.agents.folder import configured_folder
from sessions_app.forms.query import PageQuery
from sessions_app.http import person_name, render_partial, wants_partial
from sessions_app.lookup import parse_number
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.errors import BadInput, DevUIError

RUNS_SHOWN = 20
FILE = "evalset-file"
"""Element that shows what the file says, and follows it."""


async def index(request: HttpRequest) -> HttpResponse:
    """Show the evalsets of all apps, or of `?app=`, with the newest run of each."""
    app = request.GET.get("app", "")
    await units_of_work.write(library.refresh_known, app)
    return await units_of_work.read(_render_index, request, app)


def _render_index(request: HttpRequest, app: str) -> HttpResponse:
    table = evalset_columns.TABLE.arrange(request)
    page = pagination.paginate(_listed_evalsets(app), table.order, PageQuery(request.GET).read()["before"])
    context = {**table.page_context(page, _evalset_rows(page.rows)), "app": app}
    return render_partial(request, "devui/evals/list.html", context, partial="evalsets")


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the evalsets as CSV, in the order and with the columns of the list."""
    table = evalset_columns.TABLE.arrange(request)
    batches = pagination.read_batches(_listed_evalsets(request.GET.get("app", "")), table.order)
    return table.csv_response(row for batch in batches for row in _evalset_rows(batch))


def _listed_evalsets(app: str) -> QuerySet[EvalSet]:
    return EvalSet.objects.filter(gone=False, **({"app_name": app} if app else {})).defer("cases")


def _evalset_rows(evalsets: Sequence[EvalSet]) -> list[EvalsetRow]:
    newest = progress.newest_runs(EvalSet.objects.filter(pk__in=[evalset.pk for evalset in evalsets]))
    return [EvalsetRow(row, library.file_problems(row), newest.get(row.pk)) for row in evalsets]


async def evalset(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show an evalset and its runs; a POST starts a run.

    Raises:
        NotFound: no evalset has this app and id.
    """
    await units_of_work.write(library.refresh_known, app_name)
    if request.method != "POST":
        return await units_of_work.read(_evalset_page, request, app_name, evalset_id)
    try:
        run = await dispatch.create_and_deliver(partial(_order_run, request, app_name, evalset_id))
    except DevUIError as error:
        return await units_of_work.read(_evalset_page, request, app_name, evalset_id, error)
    return redirect("eval-run", run_id=run.id)


def _order_run(request: HttpRequest, app_name: str, evalset_id: str, run_id: str) -> EvalRun:
    evalset_row = library.find_evalset(app_name, evalset_id)
    order = replace(_read_order(request, evalset_row), person=person_name(request))
    return run_orders.order_run(evalset_row, order, run_id)


def _read_order(request: HttpRequest, evalset_row: EvalSet) -> RunOrder:
    """Return the order of a submitted run form.

    Raises:
        BadInput: a field is invalid.
    """
    order = run_form.order_from_form(request.POST, run_form.read_run_config(evalset_row))
    if (text := request.POST.get("cases_with", "")) and not order.case_ids:
        order = replace(order, case_ids=_matching_case_ids(evalset_row, text))
    return order


async def plan(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show the chance to see a drop in the run of a submitted form; by GET, of all cases with one repetition.

    Raises:
        NotFound: no evalset has this app and id.
    """
    await units_of_work.write(library.refresh_known, app_name)
    return await units_of_work.read(_plan_page, request, app_name, evalset_id)


def _plan_page(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    evalset_row = library.find_evalset(app_name, evalset_id)
    context: dict[str, object] = {
        "evalset": evalset_row,
        "drop": request.POST.get("drop", power.DEFAULT_DROP),
    }
    status = 200
    try:
        order = (
            _read_order(request, evalset_row)
            if request.method == "POST"
            else RunOrder(run_form.read_run_config(evalset_row))
        )
        planned = run_orders.prepare_run(evalset_row, order)
        context["plan"] = planned_runs.plan_run(planned, drop=power.parse_drop(str(context["drop"])))
    except DevUIError as error:
        context["error"], status = error, 422
    return render_partial(request, "devui/evals/plan.html", context, partial="plan", status=status)


def _matching_case_ids(evalset_row: EvalSet, text: str) -> list[str]:
    """Return the ids of the cases that have a text.

    Raises:
        BadInput: none has it.
    """
    listed = library.case_summaries(evalset_row)
    cases = CaseList.of(listed, _case_contents(evalset_row), text, size=len(listed)).page
    if not cases:
        raise BadInput(f"No case has {text!r} any more.", hint="Look for other cases, or run all.")
    return [case.id for case in cases]


def _evalset_page(
    request: HttpRequest, app_name: str, evalset_id: str, error: DevUIError | None = None
) -> HttpResponse:
    evalset_row = library.find_evalset(app_name, evalset_id)
    problems = library.file_problems(evalset_row)
    try:
        config = run_form.read_run_config(evalset_row)
    except BadFile as broken:
        config, problems = configs.default_config(), [*problems, *broken.problems]
    opened = request.GET.get("case", "")
    listed, contents = library.case_summaries(evalset_row), _case_contents(evalset_row)
    index = number if (number := parse_number(opened)) is not None and number < len(listed) else None
    case = contents[index] if index is not None and index < len(contents) else {}
    query = request.GET
    cases = CaseList.of(listed, contents, query.get("q", ""), query.get("page", ""), opened=index)
    table = run_columns.TABLE.arrange(request)
    runs = progress.annotate_actions(evalset_row.runs.all())
    page = pagination.paginate(runs, table.order, PageQuery(request.GET).read()["before"], size=RUNS_SHOWN)
    context = {
        **table.page_context(page, page.rows),
        "evalset": evalset_row,
        "problems": problems,
        "warnings": library.file_warnings(evalset_row),
        "cases": cases,
        "opened": index,
        "opened_id": "" if index is None else listed[index]["id"],
        "saved": request.GET.getlist("saved"),
        "case": case,
        "expected_turns": attempt_detail.expected_turns(case),
        "config": config,
        "choices": run_form.build_form(
            config, request.POST if error else None, cases=contents, runs=_replayable_runs(evalset_row)
        ),
        "error": error,
        "runnable": not problems and not evalset_row.gone and evalset_row.app_name in runnable_apps(),
    }
    targets = {"file": FILE, "runs": run_columns.TABLE.name, "case": "case"}
    part, target = next(
        (pair for pair in targets.items() if wants_partial(request, pair[1])), ("case", "case")
    )
    return render_partial(
        request,
        "devui/evals/evalset.html",
        context,
        partial=part,
        target=target,
        status=error.status if error else 200,
    )


def runnable_apps() -> list[str]:
    """Return the apps that this server can run."""
    folder = configured_folder()
    return folder.names() if folder else []


def _case_contents(evalset_row: EvalSet) -> list[dict[str, Any]]:
    """Return what the cases of the file say now, or said when it could be read last."""
    version = evalset_row.versions.filter(digest=evalset_row.digest).first()
    cases: list[dict[str, Any]] = json.loads(version.content)["eval_cases"] if version else []
    return cases


def _replayable_runs(evalset_row: EvalSet) -> list[EvalRun]:
    """Return the newest runs whose recordings can be given again."""
    return list(recorded_runs(evalset_row).defer("config", "traceback")[:RUNS_SHOWN])
