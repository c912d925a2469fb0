"""Pages of evalsets: the list, and one evalset with its cases, run form and runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string

from evals_app.analysis import attempt_detail, planned_runs, power, run_checks
from evals_app.cases.case_list import CaseList
from evals_app.files import BadFile, library
from evals_app.files.fixtures import read_case_fixtures
from evals_app.metrics import config as configs
from evals_app.models import OPTIMISATION, EvalRun, EvalSet
from evals_app.runs import dispatch, progress, run_form, run_orders
from evals_app.runs.replay.recorded_runs import recorded_runs
from evals_app.runs.run_orders import RunOrder
from evals_app.tables import case_columns, evalset_columns, run_columns
from evals_app.tables.case_columns import CaseRow
from evals_app.tables.evalset_columns import EvalsetRow
from evals_app.views.case_editor import find_attempt
from sessions_app.agents.folder import configured_folder
from sessions_app.forms.query import PageQuery
from sessions_app.http import person_name, render_partial, wants_partial
from sessions_app.lookup import parse_number
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.tables.table import Arrangement

EVALSET = "devui/evals/evalset.html"
RUNS_SHOWN = 20
CHECKS = "run-checks"
"""Element that shows the checks of the run that the form describes."""
FILE = "evalset-file"
"""Element that shows what the file says, and follows it."""


async def index(request: HttpRequest) -> HttpResponse:
    """Show the evalsets of all apps, or of `?app=`, with the newest run of each."""
    app = request.GET.get("app", "")
    await units_of_work.write(library.refresh_known, app)
    return await units_of_work.read(_render_index, request, app)


def _render_index(request: HttpRequest, app: str) -> HttpResponse:
    table = evalset_columns.TABLE.arrange(request)
    context = {**table.all_rows_context(_read_evalset_rows(app)), "app": app, "is_filtered": bool(app)}
    return render_partial(request, "devui/evals/list.html", context, partial="evalsets")


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the evalsets as CSV, in the order and with the columns of the list."""
    table = evalset_columns.TABLE.arrange(request)
    return table.csv_response(table.sort_rows(_read_evalset_rows(request.GET.get("app", ""))))


def _read_evalset_rows(app: str) -> list[EvalsetRow]:
    """Return the evalsets of all apps, or of one, with their newest runs."""
    evalsets = EvalSet.objects.filter(gone=False, **({"app_name": app} if app else {}))
    newest = progress.newest_runs(evalsets)
    rows = evalsets.defer("cases").order_by("app_name", "evalset_id")
    return [EvalsetRow(row, library.file_problems(row), newest.get(row.pk)) for row in rows]


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
    order = replace(read_order(request, evalset_row), person=person_name(request))
    return run_orders.order_run(evalset_row, order, run_id)


def read_order(request: HttpRequest, evalset_row: EvalSet) -> RunOrder:
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

    For the element `run-checks`: what is known of that run before it starts.

    Raises:
        NotFound: no evalset has this app and id.
    """
    await units_of_work.write(library.refresh_known, app_name)
    return await units_of_work.read(_plan_page, request, app_name, evalset_id)


def _plan_page(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    evalset_row = library.find_evalset(app_name, evalset_id)
    if wants_partial(request, CHECKS):
        context = _check_context(evalset_row, partial(read_order, request, evalset_row))
        return render(request, "devui/evals/run_checks.html", context)
    context = {
        "evalset": evalset_row,
        "drop": request.POST.get("drop", power.DEFAULT_DROP),
    }
    status = 200
    try:
        order = (
            read_order(request, evalset_row)
            if request.method == "POST"
            else RunOrder(run_form.read_run_config(evalset_row))
        )
        planned = run_orders.prepare_run(evalset_row, order)
        context["plan"] = planned_runs.plan_run(planned, drop=power.parse_drop(str(context["drop"])))
    except DevUIError as error:
        context["error"], status = error, 422
    return render_partial(request, "devui/evals/plan.html", context, partial="plan", status=status)


def _check_context(evalset_row: EvalSet, read_order: Callable[[], RunOrder]) -> dict[str, Any]:
    """Return the template context of the checks of an order, or of why it is refused."""
    try:
        planned = run_orders.prepare_run(evalset_row, read_order())
        return {"evalset": evalset_row, "preview": run_checks.preview_run(planned)}
    except DevUIError as error:
        return {"evalset": evalset_row, "refusal": error}


def _matching_case_ids(evalset_row: EvalSet, text: str) -> list[str]:
    """Return the ids of the cases that have a text.

    Raises:
        BadInput: none has it.
    """
    listed = library.case_summaries(evalset_row)
    cases = CaseList.search(listed, _case_contents(evalset_row), text).cases
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
    listed, content = library.case_summaries(evalset_row), read_file_content(evalset_row)
    contents = content["eval_cases"]
    last_run = evalset_row.runs.filter(source="page").order_by("-created_at").first()
    context: dict[str, Any] = {
        "evalset": evalset_row,
        "problems": problems,
        "warnings": library.file_warnings(evalset_row),
        "cases": CaseList.search(listed, contents, request.GET.get("q", "")),
        **_opened_case_context(request.GET.get("case", ""), listed, content),
        "saved": request.GET.getlist("saved"),
        "attempt": find_attempt(evalset_row, request.GET.get("attempt", "")),
        "config": config,
        "choices": run_form.build_form(
            config,
            request.POST if error else None,
            cases=contents,
            runs=list_replayable_runs(evalset_row),
            last_run=last_run,
        ),
        "error": error,
        "runnable": not problems and not evalset_row.gone and evalset_row.app_name in runnable_apps(),
    }
    context |= {**_case_list_context(request, context), "run_table": _run_table_context(request, evalset_row)}
    targets = {"file": FILE, "cases": case_columns.TABLE.name, "runs": run_columns.TABLE.name, "case": "case"}
    part, target = next(
        (pair for pair in targets.items() if wants_partial(request, pair[1])), ("case", "case")
    )
    if context["runnable"] and not error and not wants_partial(request, target):
        context |= _check_context(evalset_row, partial(run_form.suggest_order, config, last_run))
    status = error.status if error else 200
    return render_partial(request, EVALSET, context, partial=part, target=target, status=status)


def _opened_case_context(
    opened: str, listed: Sequence[dict[str, Any]], content: dict[str, Any]
) -> dict[str, Any]:
    """Return the case that an address opens by its number, with the turns that it expects and its fixtures."""
    number, contents = parse_number(opened), content["eval_cases"]
    index = number if number is not None and number < len(listed) else None
    case = contents[index] if index is not None and index < len(contents) else {}
    return {
        "opened": index,
        "opened_id": "" if index is None else listed[index]["id"],
        "case": case,
        "expected_turns": attempt_detail.expected_turns(case),
        "case_fixtures": read_case_fixtures(content)[index] if index is not None and case else [],
    }


def _case_list_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the cases that match as a list, and the tags as links that search for them."""
    cases, opened, evalset_row = context["cases"], context["opened"], context["evalset"]
    table = replace(_arrange_cases(request, evalset_row), can_select=context["runnable"])
    content = render_to_string(f"{EVALSET}#case", context) if opened is not None else None
    rows = [
        CaseRow(
            case,
            table.query(case=str(case.place)),
            content if case.place == opened else None,
            case.id in context["choices"].cases,
        )
        for case in cases.cases
    ]
    is_opened = (lambda row: row.case.place == opened) if opened is not None else None
    return {
        "case_table": {
            **table.all_rows_context(rows, shown=is_opened, size=case_columns.PAGE_SIZE),
            "is_filtered": bool(cases.text),
            "hint": "Words are found in ids and in any text; tag:NAME finds the cases with a tag.",
        },
        "case_tags": [
            (tag, table.query(q=search), search == cases.text, count) for tag, search, count in cases.tags
        ],
    }


def _run_table_context(request: HttpRequest, evalset_row: EvalSet) -> dict[str, Any]:
    """Return the list of an evalset's runs."""
    table = _arrange_runs(request, evalset_row)
    page = pagination.paginate(
        _list_runs(evalset_row), table.order, _read_cursor(request), size=RUNS_SHOWN, is_counted=True
    )
    return table.page_context(page, page.rows)


def _read_cursor(request: HttpRequest) -> str:
    """Return the cursor of the list of runs."""
    name = f"{run_columns.TABLE.prefix}before"
    cursor: str = PageQuery({"before": request.GET.get(name, "")}).read()["before"]
    return cursor


def _list_runs(evalset_row: EvalSet) -> QuerySet[EvalRun]:
    """Return the runs of an evalset, without those of candidates, which the pages of optimisations list."""
    listed_runs = evalset_row.runs.exclude(source=OPTIMISATION)
    return progress.annotate_previous_config(progress.annotate_actions(listed_runs))


def _arrange_cases(request: HttpRequest, evalset_row: EvalSet) -> Arrangement[CaseRow]:
    names = {"app_name": evalset_row.app_name, "evalset_id": evalset_row.evalset_id}
    return case_columns.TABLE.arrange(request, **names)


def _arrange_runs(request: HttpRequest, evalset_row: EvalSet) -> Arrangement[EvalRun]:
    names = {"app_name": evalset_row.app_name, "evalset_id": evalset_row.evalset_id}
    return run_columns.TABLE.arrange(request, **names)


def cases_csv_file(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Download the matching cases of an evalset as CSV, in the order and with the columns of the list.

    Raises:
        NotFound: no evalset has this app and id.
    """
    evalset_row = library.find_evalset(app_name, evalset_id)
    table = _arrange_cases(request, evalset_row)
    listed, contents = library.case_summaries(evalset_row), _case_contents(evalset_row)
    cases = CaseList.search(listed, contents, request.GET.get("q", "")).cases
    return table.csv_response(table.sort_rows(CaseRow(case, "") for case in cases))


def runs_csv_file(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Download the runs of an evalset as CSV, in the order and with the columns of the list.

    Raises:
        NotFound: no evalset has this app and id.
    """
    evalset_row = library.find_evalset(app_name, evalset_id)
    table = _arrange_runs(request, evalset_row)
    batches = pagination.read_batches(_list_runs(evalset_row), table.order)
    return table.csv_response(run for batch in batches for run in batch)


def runnable_apps() -> list[str]:
    """Return the apps that this server can run."""
    folder = configured_folder()
    return folder.names() if folder else []


def _case_contents(evalset_row: EvalSet) -> list[dict[str, Any]]:
    """Return what the cases of the file say now, or said when it could be read last."""
    cases: list[dict[str, Any]] = read_file_content(evalset_row)["eval_cases"]
    return cases


def read_file_content(evalset_row: EvalSet) -> dict[str, Any]:
    """Return the content of the file now, or when it could be read last: ADK's evalset, snake case."""
    version = evalset_row.versions.filter(digest=evalset_row.digest).first()
    content: dict[str, Any] = json.loads(version.content) if version else {"eval_cases": []}
    return content


def list_replayable_runs(evalset_row: EvalSet) -> list[EvalRun]:
    """Return the newest runs whose recordings can be given again."""
    return list(recorded_runs(evalset_row).defer("config", "traceback")[:RUNS_SHOWN])
