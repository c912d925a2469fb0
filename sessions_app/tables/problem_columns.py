"""Columns of the list of problems."""

from __future__ import annotations

from sessions_app import paths
from sessions_app.problems.problem_groups import ProblemGroup
from sessions_app.problems.registry import Severity
from sessions_app.tables.table import Column, SortKey, Table, linked_name, template_cells
from sessions_app.templatetags import devui

cell = template_cells("devui/problems/cells.html")

TABLE: Table[ProblemGroup] = Table(
    name="problems",
    title="Problems",
    noun="problem",
    icon="warn",
    default_sort="-recent",
    default_label="Most sessions of 7 days first",
    row_id="problem",
    row_key=lambda group: f"{group.detector.code}-{group.newest.pk}",
    csv_route="problems-csv",
    has_filters=False,
    columns=(
        Column(
            "problem",
            "Problem",
            value=lambda group: group.detector.title,
            cell=cell("problem"),
            order=SortKey(lambda group: group.detector.title.casefold()),
            css="cell-main",
            is_row_head=True,
        ),
        Column(
            "severity",
            "Severity",
            value=lambda group: str(group.detector.severity),
            order=SortKey(lambda group: list(Severity).index(group.detector.severity)),
            css="fit roomy-only",
        ),
        Column(
            "app",
            "App",
            value=lambda group: group.app,
            cell=lambda group: linked_name(paths.seg_reverse("agent", app_name=group.app), group.app),
            order=SortKey(lambda group: group.app.casefold()),
            css="name-cell",
        ),
        Column(
            "recent",
            "Last 7 days",
            value=lambda group: group.recent_sessions,
            show=devui.count,
            order=SortKey(lambda group: group.recent_sessions, is_descending=True),
            css="number",
        ),
        Column(
            "sessions",
            "Sessions",
            value=lambda group: group.sessions,
            cell=cell("sessions"),
            order=SortKey(lambda group: group.sessions, is_descending=True),
            css="number",
        ),
        Column(
            "count",
            "Problems",
            value=lambda group: group.problems,
            show=devui.count,
            order=SortKey(lambda group: group.problems, is_descending=True),
            css="number",
        ),
        Column(
            "newest",
            "Newest",
            value=lambda group: group.newest.session.updated_at,
            cell=cell("newest"),
            order=SortKey(lambda group: group.newest.session.updated_at, is_descending=True),
            css="fit when",
        ),
    ),
)
