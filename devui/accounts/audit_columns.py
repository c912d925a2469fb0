"""Columns of the audit log."""

from __future__ import annotations

from devui.accounts.models import AuditEntry
from sessions_app.store.database.pagination import Order
from sessions_app.tables.table import Column, Table, template_cell
from sessions_app.templatetags import devui

CELLS = "devui/accounts/audit_cells.html"

TABLE: Table[AuditEntry] = Table(
    name="audit",
    title="Audit entries",
    default_sort="-time",
    row_id="entry",
    row_key=lambda entry: entry.pk,
    columns=(
        Column(
            "time",
            "Time",
            value=lambda entry: entry.at,
            show=devui.moment,
            order=Order("-at"),
            css="fit",
            is_main=True,
        ),
        Column(
            "person",
            "Person",
            cell=template_cell(f"{CELLS}#person"),
            value=lambda entry: entry.person,
            order=Order("person", "at"),
            css="name-cell",
        ),
        Column("action", "Action", value=lambda entry: entry.action),
        Column(
            "object",
            "Object",
            cell=template_cell(f"{CELLS}#object"),
            value=lambda entry: f"{entry.kind} {entry.object_id}",
        ),
        Column("app", "App", value=lambda entry: entry.app, css="name-cell"),
        Column("address", "Address", value=lambda entry: entry.address),
        Column(
            "outcome", "Outcome", cell=template_cell(f"{CELLS}#outcome"), value=lambda entry: entry.outcome
        ),
    ),
)
