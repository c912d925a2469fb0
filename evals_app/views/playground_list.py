"""All playground runs, as a list and as CSV."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from evals_app.playground import runs
from evals_app.tables.playground_columns import TABLE
from sessions_app.http import render_partial
from sessions_app.sessions import overview
from sessions_app.store.database import pagination

LIST = "devui/playground/list.html"


def index(request: HttpRequest) -> HttpResponse:
    """Show the runs, those of one app if the address names it.

    Raises:
        BadInput: the list cannot be sorted as asked, or the position in it is invalid.
    """
    app = request.GET.get("app", "")
    table = TABLE.arrange(request)
    rows = runs.query_runs(app)
    page = pagination.paginate(rows, table.order, request.GET.get("before", ""), is_counted=True)
    context = {
        **table.page_context(page, page.rows),
        "apps": overview.app_names(),
        "app": app,
        "is_filtered": bool(app),
    }
    return render_partial(request, LIST, context, partial="runs", target=TABLE.name)


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the runs as CSV, in the order and with the columns of the list.

    Raises:
        BadInput: the list cannot be sorted as asked.
    """
    table = TABLE.arrange(request)
    batches = pagination.read_batches(runs.query_runs(request.GET.get("app", "")), table.order)
    return table.csv_response(run for batch in batches for run in batch)
