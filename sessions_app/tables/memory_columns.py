"""Columns of the list of memory entries."""

from __future__ import annotations

from sessions_app.memory.memory_list import MemoryRow
from sessions_app.presentation import visible_text
from sessions_app.store.database.pagination import Order
from sessions_app.store.short_texts import truncate
from sessions_app.tables.table import ACTIONS_HEAD, Column, Table, pick_column, template_cells
from sessions_app.templatetags import devui

cell = template_cells("devui/memory/cells.html")

TABLE: Table[MemoryRow] = Table(
    name="memory",
    title="Memory entries",
    noun="entry",
    icon="thought",
    default_sort="-time",
    row_id="memory",
    row_key=lambda row: row.entry.pk,
    css="memory-table",
    csv_route="memory-csv",
    columns=(
        pick_column(
            "memory-actions",
            "entry",
            key=lambda row: row.entry.pk,
            label=lambda row: visible_text.escape_name(truncate(row.text, 40)) or "the entry",
            needs="admin",
        ),
        Column("memory", "Memory", value=lambda row: row.whole_text, cell=cell("memory"), css="cell-main"),
        Column("author", "Author", value=lambda row: row.entry.author, css="name-cell"),
        Column("app", "App", value=lambda row: row.entry.app_name, cell=cell("app"), css="name-cell"),
        Column(
            "user",
            "User",
            value=lambda row: row.entry.user_id,
            cell=cell("user"),
            css="name-cell memory-owner",
        ),
        Column(
            "session", "From", value=lambda row: row.entry.session_id, cell=cell("session"), css="name-cell"
        ),
        Column(
            "time",
            "Time",
            value=lambda row: row.entry.timestamp,
            show=devui.moment,
            cell=cell("time"),
            order=Order("-timestamp"),
            css="fit",
        ),
        Column("actions", "Actions", cell=cell("actions"), css="fit row-actions", head=ACTIONS_HEAD),
    ),
)
