"""Columns of the list of evalsets."""

from __future__ import annotations

from typing import NamedTuple

from evals_app.files import FileProblem
from evals_app.models import EvalRun, EvalSet
from sessions_app import paths
from sessions_app.tables.table import Column, SortKey, Table, linked_name, template_cells
from sessions_app.templatetags import devui

cell = template_cells("devui/evals/evalset_cells.html")


class EvalsetRow(NamedTuple):
    """An evalset, the problems of its file, and its newest run."""

    evalset: EvalSet
    problems: list[FileProblem]
    run: EvalRun | None


TABLE: Table[EvalsetRow] = Table(
    name="evalsets",
    title="Evalsets",
    noun="evalset",
    icon="eval",
    default_sort="app",
    default_label="By app and name",
    row_id="evalset",
    row_key=lambda row: row.evalset.pk,
    css="evalset-table",
    csv_route="evalsets-csv",
    has_filters=False,
    columns=(
        Column(
            "name",
            "Evalset",
            value=lambda row: row.evalset.evalset_id,
            cell=cell("name"),
            order=SortKey(lambda row: row.evalset.evalset_id.casefold()),
            css="cell-main",
            is_row_head=True,
        ),
        Column(
            "app",
            "App",
            value=lambda row: row.evalset.app_name,
            cell=lambda row: linked_name(
                paths.seg_reverse("agent", app_name=row.evalset.app_name), row.evalset.app_name
            ),
            order=SortKey(lambda row: row.evalset.app_name.casefold()),
            css="name-cell",
        ),
        Column(
            "cases",
            "Cases",
            value=lambda row: None if row.problems else row.evalset.case_count,
            show=lambda count: devui.count(count) or "–",
            order=SortKey(lambda row: row.evalset.case_count, is_descending=True),
            css="number",
        ),
        Column(
            "run",
            "Newest run",
            value=lambda row: row.run and row.run.status,
            cell=cell("run"),
            order=SortKey(lambda row: row.run.status if row.run else ""),
            css="run-cell",
        ),
        Column(
            "ran",
            "When",
            value=lambda row: row.run and row.run.created_at,
            show=devui.moment,
            order=SortKey(lambda row: row.run.created_at if row.run else 0.0, is_descending=True),
            css="fit when",
        ),
    ),
)
