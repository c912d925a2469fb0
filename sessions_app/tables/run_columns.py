"""Columns of the list of runs."""

from __future__ import annotations

from typing import Any

from sessions_app.presentation import visible_text
from sessions_app.store.database.pagination import Order
from sessions_app.store.short_texts import truncate
from sessions_app.tables.table import (
    ACTIONS_HEAD,
    Column,
    Table,
    pick_column,
    template_cells,
    tokens_cell,
)
from sessions_app.templatetags import devui

cell = template_cells("devui/runs/cells.html")

Row = dict[str, Any]
"""A row of `run_list.build_rows`, with the problems of its invocation."""


TABLE: Table[Row] = Table(
    name="runs",
    title="Runs",
    noun="run",
    icon="run",
    default_sort="-created",
    row_id="run",
    row_key=lambda row: row["run"].pk,
    css="run-table",
    csv_route="runs-csv",
    columns=(
        pick_column(
            "run-actions",
            "run",
            key=lambda row: row["run"].pk,
            label=lambda row: (
                f"the run of {visible_text.escape_name(truncate(row['run'].session.name, 200))}"
            ),
            applies=lambda row: row["is_active"],
            needs="runner",
        ),
        Column("status", "Status", cell=cell("status"), value=lambda row: row["run"].status, css="fit"),
        Column(
            "session",
            "Session",
            cell=cell("session"),
            value=lambda row: row["run"].session.name,
            css="cell-main session-cell",
        ),
        Column("app", "App", value=lambda row: row["run"].session.app_name, css="name-cell"),
        Column("user", "User", value=lambda row: row["run"].session.user_id, css="name-cell"),
        Column("source", "Source", cell=cell("source"), value=lambda row: row["run"].source),
        Column(
            "code",
            "Code",
            cell=cell("code"),
            value=lambda row: row["run"].git_revision or row["run"].code_version,
        ),
        Column("events", "Events", value=lambda row: row["events"], show=devui.count, css="number"),
        Column(
            "tokens",
            "Tokens",
            cell=lambda row: (
                tokens_cell(row["spending"].tokens, row["spending"].cost) if row["spending"] else ""
            ),
            value=lambda row: row["spending"] and row["spending"].tokens,
            css="number",
        ),
        Column(
            "duration",
            "Duration",
            value=lambda row: row["seconds"],
            show=devui.duration,
            order=Order("-duration"),
            css="number",
        ),
        Column(
            "created",
            "Created",
            value=lambda row: row["run"].created_at,
            show=devui.moment,
            order=Order("-created_at"),
            css="fit",
        ),
        Column("actions", "Actions", cell=cell("actions"), css="fit row-actions", head=ACTIONS_HEAD),
    ),
)
