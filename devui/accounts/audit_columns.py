"""Columns of the audit log."""

from __future__ import annotations

from devui.accounts.models import AuditEntry
from sessions_app.store.database.pagination import Order
from sessions_app.tables.table import Column, Table, template_cells
from sessions_app.templatetags import devui

cell = template_cells("devui/accounts/audit_cells.html")

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
            css="fit cell-main",
        ),
        Column(
            "person",
            "Person",
            cell=cell("person"),
            value=lambda entry: entry.person,
            order=Order("person", "at"),
            css="name-cell",
        ),
        Column("action", "Action", value=lambda entry: entry.action),
        Column(
            "object", "Object", cell=cell("object"), value=lambda entry: f"{entry.kind} {entry.object_id}"
        ),
        Column("app", "App", value=lambda entry: entry.app, css="name-cell"),
        Column("address", "Address", value=lambda entry: entry.address),
        Column("outcome", "Outcome", cell=cell("outcome"), value=lambda entry: entry.outcome),
    ),
)
