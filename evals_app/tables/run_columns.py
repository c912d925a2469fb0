"""Columns of the list of an evalset's runs."""

from __future__ import annotations

from evals_app.models import EvalRun
from evals_app.runs.progress import elapsed_seconds
from sessions_app.store.database.pagination import Order
from sessions_app.tables.table import ACTIONS_HEAD, Column, Table, template_cells
from sessions_app.templatetags import devui

cell = template_cells("devui/evals/run_cells.html")

TABLE: Table[EvalRun] = Table(
    name="evalset-runs",
    title="Runs of this evalset",
    noun="run",
    icon="run",
    default_sort="-created",
    row_id="run",
    row_key=lambda run: run.pk,
    csv_route="evalset-runs-csv",
    has_filters=False,
    prefix="runs-",
    columns=(
        Column("outcome", "Outcome", value=lambda run: run.status, cell=cell("outcome"), css="fit cell-main"),
        Column(
            "created",
            "When",
            value=lambda run: run.created_at,
            show=devui.moment,
            cell=cell("created"),
            order=Order("-created_at"),
        ),
        Column("duration", "Duration", value=elapsed_seconds, show=devui.duration, css="number"),
        Column("code", "Code", value=lambda run: run.code_version, cell=cell("code")),
        Column("actions", "Actions", cell=cell("actions"), css="fit row-actions", head=ACTIONS_HEAD),
    ),
)
