"""Columns of the list of an evalset's runs."""

from __future__ import annotations

from evals_app.models import EvalRun
from evals_app.runs.progress import elapsed_seconds
from sessions_app.store.database.pagination import Order
from sessions_app.tables.table import ACTIONS_HEAD, Column, Table, template_cell
from sessions_app.templatetags import devui

CELLS = "devui/evals/run_cells.html"

TABLE: Table[EvalRun] = Table(
    name="evalset-runs",
    title="Runs of this evalset",
    default_sort="-created",
    row_id="run",
    row_key=lambda run: run.pk,
    columns=(
        Column(
            "outcome",
            "Outcome",
            value=lambda run: run.status,
            cell=template_cell(f"{CELLS}#outcome"),
            css="fit",
            is_main=True,
        ),
        Column(
            "created",
            "When",
            value=lambda run: run.created_at,
            cell=template_cell(f"{CELLS}#created"),
            order=Order("-created_at"),
        ),
        Column("duration", "Duration", value=elapsed_seconds, show=devui.duration, css="number"),
        Column("code", "Code", value=lambda run: run.code_version, cell=template_cell(f"{CELLS}#code")),
        Column(
            "actions",
            "Actions",
            cell=template_cell(f"{CELLS}#actions"),
            css="fit row-actions",
            head=ACTIONS_HEAD,
        ),
    ),
)
