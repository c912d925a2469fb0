"""Columns of the list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.utils.safestring import SafeString

from sessions_app import paths
from sessions_app.presentation import visible_text
from sessions_app.problems.problem_queries import ShownProblem
from sessions_app.runs.run_list import RunRow
from sessions_app.store.database.pagination import Order
from sessions_app.store.short_texts import truncate
from sessions_app.tables.table import (
    ACTIONS_HEAD,
    Column,
    Table,
    linked_name,
    pick_column,
    template_cells,
    tokens_cell,
)
from sessions_app.templatetags import devui

cell = template_cells("devui/runs/cells.html")

PROGRAM = "program"
"""Source of an invocation that another program ran."""


class Row(NamedTuple):
    """A row of the list with its spending, and the problems of its invocation."""

    entry: RunRow
    problems: Sequence[ShownProblem]


def session_link(row: Row) -> SafeString:
    """Return a link to the session."""
    session = row.entry.session
    return linked_name(paths.session_url(session), session.name)


def code(row: Row) -> str:
    """Return the commit of the code that ran, or its hash; empty: unknown."""
    run = row.entry.run
    return (run.git_revision or run.code_version) if run else ""


TABLE: Table[Row] = Table(
    name="runs",
    title="Runs",
    noun="run",
    icon="run",
    default_sort="-created",
    row_id="run",
    row_key=lambda row: row.entry.pk,
    css="run-table",
    csv_route="runs-csv",
    columns=(
        pick_column(
            "run-actions",
            "run",
            key=lambda row: row.entry.pk,
            label=lambda row: f"the run of {visible_text.escape_name(truncate(row.entry.session.name, 200))}",
            applies=lambda row: row.entry.is_active,
            needs="runner",
        ),
        Column("status", "Status", cell=cell("status"), value=lambda row: row.entry.status, css="fit"),
        Column(
            "turn",
            "Turn",
            cell=cell("turn"),
            value=lambda row: row.entry.message,
            css="cell-main session-cell",
        ),
        Column(
            "session",
            "Session",
            cell=session_link,
            value=lambda row: row.entry.session.name,
            css="name-cell",
        ),
        Column("app", "App", value=lambda row: row.entry.session.app_name, css="name-cell"),
        Column("user", "User", value=lambda row: row.entry.session.user_id, css="name-cell"),
        Column(
            "source",
            "Source",
            cell=cell("source"),
            value=lambda row: row.entry.run.source if row.entry.run else PROGRAM,
        ),
        Column("code", "Code", cell=cell("code"), value=code, css="wide-only"),
        Column(
            "calls",
            "Calls",
            cell=cell("calls"),
            value=lambda row: row.entry.calls,
            css="number roomy-only",
        ),
        Column(
            "tokens",
            "Tokens",
            cell=lambda row: (
                tokens_cell(row.entry.spending.tokens, row.entry.spending.cost) if row.entry.spending else ""
            ),
            value=lambda row: row.entry.spending and row.entry.spending.tokens,
            css="number",
        ),
        Column(
            "duration",
            "Duration",
            value=lambda row: row.entry.seconds,
            show=devui.duration,
            order=Order("-duration"),
            css="number",
        ),
        Column(
            "created",
            "Created",
            value=lambda row: row.entry.created_at,
            show=devui.moment,
            order=Order("-created_at"),
            css="fit",
        ),
        Column("actions", "Actions", cell=cell("actions"), css="fit row-actions", head=ACTIONS_HEAD),
    ),
)
