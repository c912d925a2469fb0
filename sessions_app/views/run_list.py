"""List of runs with filters and live updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from sessions_app.forms.lists import RunQuery, RunWatch
from sessions_app.http import local_address, note_object, redirect_to, render_partial
from sessions_app.lookup import find_run
from sessions_app.problems.problem_queries import read_run_problems
from sessions_app.runs import dispatch, run_list
from sessions_app.sessions import list_updates, overview
from sessions_app.store.database import pagination, units_of_work
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
    page = pagination.paginate(run_list.filter_runs(query), table.order, query["before"], is_counted=True)
    newest = page.rows[0].created_at if page.rows else 0.0
    if page.rows and not table.is_default_order:
        newest = run_list.filter_runs(query).latest("created_at").created_at
    watch_parameters = list_updates.next_poll(
        list_updates.shown_rows(page.rows, _row_mark), newest if page.is_first else None
    )
    context = {
        **table.page_context(page, _list_rows(page.rows)),
        "watch": reverse("run-changes") + table.query(**watch_parameters),
        "is_filtered": any(query[name] for name in RunQuery.FILTERS),
        "query": query,
        "list_address": request.get_full_path(),
        "statuses": Run.Status.choices,
        "errors": run_list.error_types(query["error"]),
        "apps": overview.app_names(),
    }
    return render_partial(request, LIST, context, partial="runs")


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the matching runs as CSV, in the order and with the columns of the list."""
    table = run_columns.TABLE.arrange(request)
    batches = pagination.read_batches(run_list.filter_runs(RunQuery(request.GET).read()), table.order)
    return table.csv_response(row for batch in batches for row in _list_rows(batch))


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
    runs = list(run_list.all_runs().filter(pk__in=shown_rows.marks))
    changed, gone_ids = shown_rows.changed_rows(runs, _row_mark), shown_rows.missing_keys(runs)
    arrived = list_updates.count_new_rows(run_list.filter_runs(query), query["since"], shown_rows)
    if not changed and not gone_ids and arrived == (query["new_count"] or 0):
        return HttpResponse(status=204)
    watch_parameters = list_updates.next_poll(
        shown_rows.after(changed, gone_ids, _row_mark), query["since"], arrived
    )
    table = run_columns.TABLE.arrange(request)
    context = {
        "table": table,
        "changed": table.draw(_list_rows(changed), in_place=True),
        "gone": gone_ids,
        "arrived": arrived,
        "many": list_updates.MAX_NEW,
        "is_first_row": bool(arrived and not shown_rows.marks),
        "watch": reverse("run-changes") + table.query(**watch_parameters),
        "list": (reverse("runs") + table.query()).removesuffix("?"),
    }
    return render(request, "devui/components/watch.html", context)


def _list_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return runs as the list shows them, with the problems of their invocations."""
    problems = read_run_problems([(run.session_id, run.invocation_id) for run in runs])
    return [
        {**row, "problems": problems.get((row["run"].session_id, row["run"].invocation_id), ())}
        for row in run_list.build_rows(runs)
    ]


def _row_mark(run: Run) -> str:
    is_paused = run.is_paused  # type: ignore[attr-defined]  # annotated by `all_runs`
    return list_updates.row_mark(
        run.status, is_paused, bool(run.cancel_requested_at), run.error, run.session.problem_count
    )
