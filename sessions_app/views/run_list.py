"""List of runs with filters and live updates."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from sessions_app.forms.lists import RunQuery, RunWatch
from sessions_app.http import local_address, note_object, redirect_to, render_partial
from sessions_app.lookup import find_run
from sessions_app.problems.problem_queries import read_run_problems
from sessions_app.runs import dispatch, run_list
from sessions_app.runs.run_list import RunRow
from sessions_app.sessions import list_updates, overview
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.ids import is_storable
from sessions_app.store.models import Run
from sessions_app.tables import run_columns

LIST = "devui/runs/list.html"
MAX_CANCELLED = 100
"""Runs that one request cancels."""


def index(request: HttpRequest) -> HttpResponse:
    """Show the runs of all apps."""
    query = RunQuery(request.GET).read()
    table = run_columns.TABLE.arrange(request)
    page = run_list.read_page(query, table.order, query["before"])
    newest = page.rows[0].created_at if page.rows else 0.0
    if page.rows and not table.is_default_order:
        newest = run_list.newest_time(query)
    watch_parameters = list_updates.next_poll(
        list_updates.shown_rows(page.rows, _row_mark), newest if page.is_first else None
    )
    context = {
        **table.page_context(page, _complete_rows(page.rows)),
        "watch": reverse("run-changes") + table.query(**watch_parameters),
        "is_filtered": any(query[name] for name in RunQuery.FILTERS),
        "query": query,
        "list_address": request.get_full_path(),
        "statuses": run_list.STATUSES,
        "errors": run_list.list_error_types(query["error"]),
        "apps": overview.app_names(),
    }
    return render_partial(request, LIST, context, partial="runs")


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the matching rows as CSV, in the order and with the columns of the list."""
    table = run_columns.TABLE.arrange(request)
    batches = run_list.read_batches(RunQuery(request.GET).read(), table.order)
    return table.csv_response(row for batch in batches for row in _complete_rows(batch))


TRACE_SORTS = {"started": "created", "-started": "-created"}
"""Orders of the former list of traces, as the list of runs has them."""


def former_traces(request: HttpRequest) -> HttpResponse:
    """Redirect from the former list of traces to the list of runs, with its filters."""
    query = request.GET.copy()
    query.pop("before", None)
    if sort := TRACE_SORTS.get(request.GET.get("sort", "")):
        query["sort"] = sort
    return HttpResponseRedirect(reverse("runs", query=query or None))


async def cancel(request: HttpRequest) -> HttpResponse:
    """Cancel the selected runs. Cancelling an ended run changes nothing, nor does one that was deleted meanwhile.

    Raises:
        BadInput: no run is selected, or too many are.
        NotFound: none of the runs exists.
    """
    run_ids = request.POST.getlist("run")
    if not 0 < len(run_ids) <= MAX_CANCELLED:
        raise BadInput(
            f"{len(run_ids)} runs are selected; 1 to {MAX_CANCELLED} can be cancelled at once.",
            hint="Select the runs in the list.",
        )
    note_object(request, *run_ids)
    for run in await units_of_work.read(_find_runs, run_ids):
        await dispatch.cancel_run(run)
    return redirect_to(request, local_address(request.POST.get("next"), reverse("runs")))


def _find_runs(run_ids: Sequence[str]) -> list[Run]:
    """Return the runs that exist; at least one must.

    Raises:
        NotFound: there is none.
    """
    stored_ids = Run.objects.filter(pk__in=[run_id for run_id in run_ids if is_storable(run_id)])
    found_ids = set(stored_ids.values_list("pk", flat=True))
    return [find_run(run_id) for run_id in run_ids if run_id in found_ids] or [find_run(run_ids[0])]


def changes(request: HttpRequest) -> HttpResponse:
    """Return changed rows of a list on screen and the number of new runs; 204 if nothing changed."""
    query = RunWatch(request.GET).read()
    shown_rows = list_updates.parse(query["rows"], str)
    rows = run_list.read_rows(shown_rows.marks)
    changed, gone_keys = shown_rows.changed_rows(rows, _row_mark), shown_rows.missing_keys(rows)
    arrived = list_updates.count_new_rows(run_list.list_unshown(query, shown_rows.marks), query["since"])
    if not changed and not gone_keys and arrived == (query["new_count"] or 0):
        return HttpResponse(status=204)
    watch_parameters = list_updates.next_poll(
        shown_rows.after(changed, gone_keys, _row_mark), query["since"], arrived
    )
    table = run_columns.TABLE.arrange(request)
    context = {
        "table": table,
        "changed": table.draw(_complete_rows(changed), in_place=True),
        "gone": gone_keys,
        "arrived": arrived,
        "many": list_updates.MAX_NEW,
        "is_first_row": bool(arrived and not shown_rows.marks),
        "watch": reverse("run-changes") + table.query(**watch_parameters),
        "list": (reverse("runs") + table.query()).removesuffix("?"),
    }
    return render(request, "devui/components/watch.html", context)


def _complete_rows(rows: Sequence[RunRow]) -> list[run_columns.Row]:
    """Return rows with tokens, costs and the problems of their invocations."""
    problems = read_run_problems([row.invocation for row in rows])
    return [run_columns.Row(row, problems.get(row.invocation, ())) for row in run_list.add_spending(rows)]


def _row_mark(row: RunRow) -> str:
    run = row.run
    is_cancelled, error = (bool(run.cancel_requested_at), run.error) if run else (False, "")
    return list_updates.row_mark(row.status, is_cancelled, error, row.session.problem_count, row.trace_pk)
