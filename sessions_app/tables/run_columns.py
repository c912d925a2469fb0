"""Columns of the list of runs."""

from __future__ import annotations

from typing import Any

from sessions_app.store.database.pagination import Order
from sessions_app.tables.table import ACTIONS_HEAD, Column, Table, count_cell, template_cell, tokens_cell
from sessions_app.templatetags import devui

CELLS = "devui/runs/cells.html"

Row = dict[str, Any]
"""A row of `run_list.build_rows`, with the problems of its invocation."""


TABLE: Table[Row] = Table(
    name="runs",
    title="Runs",
    default_sort="-created",
    row_id="run",
    row_key=lambda row: row["run"].pk,
    css="run-table",
    csv_route="runs-csv",
    columns=(
        Column(
            key="status",
            label="Status",
            cell=template_cell(f"{CELLS}#status"),
            value=lambda row: row["run"].status,
            css="fit",
            is_labelled=False,
        ),
        Column(
            key="session",
            label="Session",
            cell=template_cell(f"{CELLS}#session"),
            value=lambda row: row["run"].session.name,
            css="cell-main session-cell",
            is_main=True,
            is_labelled=False,
        ),
        Column(key="app", label="App", value=lambda row: row["run"].session.app_name, css="name-cell"),
        Column(key="user", label="User", value=lambda row: row["run"].session.user_id, css="name-cell"),
        Column(
            key="source",
            label="Source",
            cell=template_cell(f"{CELLS}#source"),
            value=lambda row: row["run"].source,
        ),
        Column(
            key="code",
            label="Code",
            cell=template_cell(f"{CELLS}#code"),
            value=lambda row: row["run"].git_revision or row["run"].code_version,
            css="fit",
        ),
        Column(
            key="events",
            label="Events",
            cell=lambda row: count_cell(row["events"]),
            value=lambda row: row["events"],
            css="number",
        ),
        Column(
            key="tokens",
            label="Tokens",
            cell=lambda row: (
                tokens_cell(row["spending"].tokens, row["spending"].cost) if row["spending"] else ""
            ),
            value=lambda row: row["spending"] and row["spending"].tokens,
            css="number",
        ),
        Column(
            key="duration",
            label="Duration",
            cell=lambda row: devui.duration(row["seconds"]),
            value=lambda row: row["seconds"],
            css="number",
        ),
        Column(
            key="created",
            label="Created",
            cell=lambda row: devui.moment(row["run"].created_at),
            value=lambda row: row["run"].created_at,
            order=Order("-created_at"),
            css="fit",
            is_labelled=False,
        ),
        Column(
            key="actions",
            label="Actions",
            cell=template_cell(f"{CELLS}#actions"),
            css="fit row-actions",
            head=ACTIONS_HEAD,
        ),
    ),
)
