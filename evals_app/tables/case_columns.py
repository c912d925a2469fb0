"""Columns of the list of an evalset's cases."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from evals_app.cases.case_list import ListedCase
from sessions_app.presentation import visible_text
from sessions_app.tables.table import Column, SortKey, Table, pick_column, template_cells
from sessions_app.templatetags import devui

PAGE_SIZE = 100
"""Cases per page."""

cell = template_cells("devui/evals/case_cells.html")


class CaseRow(NamedTuple):
    """A case of the list.

    Attributes:
        case: the case.
        url: address of the page with this case open, for browsers without scripts.
        content: HTML of the case if it is open; None: it is loaded when a reader opens it.
        is_ticked: whether the run form that was sent names it.
    """

    case: ListedCase
    url: str
    content: SafeString | None = None
    is_ticked: bool = False


def _tags_cell(row: CaseRow) -> SafeString:
    names = ((visible_text.name_html(tag),) for tag in row.case.tags)
    return format_html_join(" ", '<span class="badge"><bdi>{}</bdi></span>', names)


def _show_turns(turns: int | str) -> str:
    return devui.count(turns) if isinstance(turns, int) else turns


TABLE: Table[CaseRow] = Table(
    name="cases",
    title="Cases",
    noun="case",
    icon="eval",
    default_sort="position",
    default_label="As in the file",
    row_id="case",
    row_key=lambda row: row.case.place,
    css="case-table",
    csv_route="evalset-cases-csv",
    columns=(
        pick_column(
            "run-form",
            "case",
            key=lambda row: row.case.id,
            label=lambda row: visible_text.escape_name(row.case.id),
            is_ticked=lambda row: row.is_ticked,
        ),
        Column(
            "position",
            "No.",
            value=lambda row: row.case.place + 1,
            show=devui.count,
            order=SortKey(lambda row: row.case.place),
            css="number position-cell",
        ),
        Column(
            "case",
            "Case",
            value=lambda row: row.case.id,
            cell=cell("case"),
            order=SortKey(lambda row: row.case.id.casefold()),
            css="cell-main",
        ),
        Column(
            "tags",
            "Tags",
            value=lambda row: ", ".join(row.case.tags),
            cell=_tags_cell,
            order=SortKey(lambda row: (not row.case.tags, row.case.tags)),
            css="tags-cell",
        ),
        Column(
            "turns",
            "Turns",
            value=lambda row: "scenario" if row.case.scenario else row.case.turns,
            show=_show_turns,
            order=SortKey(lambda row: (row.case.scenario, row.case.turns), is_descending=True),
            css="number turns-cell",
        ),
    ),
)
