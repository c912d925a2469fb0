"""The table that draws every list: columns as data, sort links, hidden columns, rows and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.loader import render_to_string
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from sessions_app import paths
from sessions_app.presentation import csv_cells, visible_text
from sessions_app.prices.costs import Cost
from sessions_app.store.database.pagination import MAX_COUNTED, PAGE_SIZE, Order, Page
from sessions_app.store.errors import BadInput
from sessions_app.tables.numbered_pages import number_pages
from sessions_app.templatetags import devui

R = TypeVar("R")

MAX_EXPORTED = 5_000
"""Maximum rows of a CSV file."""

POSITION_PARAMETERS = (
    *("before", "page", "scanned", "matches", "top", "rows", "since", "new_count"),
    *("case", "added", "saved"),
)
"""Parameters of a list's address that hold the position, what is on screen and what was just done.

The others are filters, order and columns.
"""

_PLACEHOLDER = "\0"
"""Delimiter of placeholders: a character that no template contains."""


ACTIONS_HEAD = '<span class="visually-hidden">Actions</span>'
"""Head of a column of buttons."""


def name_cell(value: object) -> SafeString:
    """Return a cell with a name: an id, an app, a user."""
    return SafeString(f"<bdi>{visible_text.name_html(str(value))}</bdi>" if value not in {"", None} else "")


def linked_name(url: str, name: str) -> SafeString:
    """Return a cell with a name that links to a page."""
    return format_html('<a class="soft" href="{}"><bdi>{}</bdi></a>', url, visible_text.name_html(name))


def tokens_cell(count: int, cost: Cost | None) -> SafeString:
    """Return a cell with a number of tokens, and their cost below if it is known."""
    if not count:
        return SafeString("")
    tokens = format_html('<span title="{}">{}</span>', f"{count:,}", devui.compact(count))
    if cost is None:
        return tokens
    return format_html('{}<br><span class="faint small">{}</span>', tokens, devui.render_cost(cost))


def template_cells(template: str) -> Callable[[str], Callable[[Any], SafeString]]:
    """Return a function from a partial of a template to the function that renders it with a row as `row`."""
    return lambda partial: lambda row: render_to_string(f"{template}#{partial}", {"row": row})


def fill_template(template: str, **fields: str) -> SafeString:
    """Return a template with its variables replaced by HTML.

    The template is rendered once, with placeholders: rendering it for every row would take most of a page's time.
    """
    pieces = list(_template_pieces(template, tuple(fields), settings.STATIC_URL))
    pieces[1::2] = [fields[name] for name in pieces[1::2]]
    return SafeString("".join(pieces))


@lru_cache(maxsize=32)
def _template_pieces(template: str, names: tuple[str, ...], static_url: str) -> list[str]:
    """Return a template's text, and at every second place the name of a variable. Icons depend on `static_url`."""
    placeholders = {name: SafeString(f"{_PLACEHOLDER}{name}{_PLACEHOLDER}") for name in names}
    return render_to_string(template, placeholders).split(_PLACEHOLDER)


class SortKey(NamedTuple):
    """Order of a list that is read whole: by what `key` returns of a row; rows with equal keys stay as they are.

    `is_descending` puts high values first.
    """

    key: Callable[[Any], Any]
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """Column of a list.

    Attributes:
        key: its name in addresses and CSV files.
        label: its head.
        value: returns a row's value, as CSV files have it; None: controls, which are neither exported nor hidden.
        show: returns a value as HTML; default: as a name.
        cell: returns a row's cell as HTML, if its value is not enough.
        order: order of its first click; None: rows cannot be sorted by it. An index must have an `Order`. The columns
            of a list that is read whole have a `SortKey`.
        css: classes of its cells: `number`; `fit`, if it needs no label where rows are cards; `cell-main`, if it
            names the row and cannot be hidden; `roomy-only` to hide it in narrow windows, `wide-only` in all but wide
            ones; `pick` for the boxes of a selection.
        head: HTML in place of the label.
        is_row_head: whether its cells are the heads of their rows.
    """

    key: str
    label: str
    _: KW_ONLY
    value: Callable[[R], Any] | None = None
    show: Callable[[Any], str] = name_cell
    cell: Callable[[R], str] | None = None
    order: Order | SortKey | None = None
    css: str = ""
    head: str = ""
    is_row_head: bool = False

    @property
    def can_hide(self) -> bool:
        """Tell whether a person can hide the column."""
        return self.value is not None and not self.is_main

    @property
    def is_main(self) -> bool:
        """Tell whether the cells of the column name their rows."""
        return "cell-main" in self.css.split()

    @property
    def first_sort(self) -> str:
        """Value of the parameter `sort` after its first click."""
        return f"-{self.key}" if self.order and _is_descending(self.order) else self.key

    def export(self, row: R) -> Any:
        """Return a row's value for a CSV file; a time in ISO 8601, in UTC, outside of the calendar as a number."""
        value = self.value(row) if self.value else ""
        if self.show is devui.moment and isinstance(value, float | int) and (date := devui.find_date(value)):
            return date.isoformat(timespec="milliseconds")
        return value

    def render(self, row: R) -> SafeString:
        """Return a row's cell as HTML; text that is not marked as safe is escaped."""
        if self.cell:
            return conditional_escape(self.cell(row))
        return conditional_escape(self.show(self.value(row))) if self.value else SafeString("")


def _is_descending(order: Order | SortKey) -> bool:
    """Tell whether an order puts high values first."""
    return order.is_descending if isinstance(order, SortKey) else order.names[0].startswith("-")


def pick_column(
    form: str,
    name: str,
    *,
    key: Callable[[R], object],
    label: Callable[[R], str],
    is_ticked: Callable[[R], bool] = lambda row: False,
    applies: Callable[[R], bool] = lambda row: True,
    needs: str = "",
) -> Column[R]:
    """Return a column of boxes that select rows for the buttons of a form.

    Args:
        form: id of the form.
        name: name of the field, whose values are the keys of the ticked rows.
        key: returns the key of a row.
        label: returns what a row is called, as text for attributes.
        is_ticked: tells whether the box of a row is ticked at first.
        applies: tells whether a row can be selected.
        needs: the role that the actions of the form need.
    """
    role = format_html(' data-needs="{}"', needs) if needs else ""
    start = format_html('<input type="checkbox" form="{}" name="{}"{}', form, name, role)
    checked = (SafeString(""), SafeString(" checked"))

    def render_box(row: R) -> str:
        if not applies(row):
            return ""
        marks = checked[is_ticked(row)]
        return format_html('{} value="{}" aria-label="Select {}"{}>', start, key(row), label(row), marks)

    head = '<input type="checkbox" data-tick-all aria-label="Tick all" title="Tick all"{}>'
    return Column("pick", "", cell=render_box, css="pick", head=format_html(head, role))


class Head(NamedTuple):
    """Head of a column: `url` sorts by it, in the other direction if the rows are; `sorted` is aria-sort."""

    column: Column[Any]
    url: str
    sorted: str


class ColumnChoice(NamedTuple):
    """A column that can be hidden, or shown again, by following `url`."""

    column: Column[Any]
    url: str
    is_shown: bool


@dataclass(frozen=True)
class Table(Generic[R]):
    """A list.

    Attributes:
        name: id of the element that shows it.
        title: what its rows are, as its caption says.
        columns: its columns.
        default_sort: value of the parameter `sort` that addresses leave out.
        noun: what one of its rows is.
        icon: icon that is shown when no row matches.
        default_label: words for this order.
        row_id: prefix of the ids of row elements, before the row's key.
        row_key: returns the key of a row.
        css: class of its table.
        csv_route: route of its rows as CSV; empty: none.
        has_filters: whether a filter form is above it, which sends the order and the columns along.
        prefix: begins the names of its parameters, where another list has them on the same page.
    """

    name: str
    title: str
    columns: tuple[Column[R], ...]
    default_sort: str
    row_id: str
    row_key: Callable[[R], object]
    noun: str = "entry"
    icon: str = "search"
    default_label: str = "Newest first"
    css: str = ""
    csv_route: str = ""
    has_filters: bool = True
    prefix: str = ""

    def arrange(self, request: HttpRequest, **csv_path: str) -> Arrangement[R]:
        """Return the table as the parameters of the address want it: `sort` and `hide`.

        Args:
            csv_path: the parts of the path to the list's rows as CSV.

        Raises:
            BadInput: the table cannot be sorted like this.
        """
        sort = request.GET.get(f"{self.prefix}sort") or self.default_sort
        column = next((column for column in self.columns if column.key == sort.removeprefix("-")), None)
        if column is None or column.order is None:
            keys = ", ".join(column.key for column in self.columns if column.order)
            raise BadInput(
                f"This list cannot be sorted by {sort!r}.",
                hint=f"Sort by one of {keys}; a minus sign in front means descending.",
            )
        hidden = frozenset(request.GET.get(f"{self.prefix}hide", "").split(","))
        control = request.headers.get("HX-Trigger", "").partition("-")[0]
        return Arrangement(self, request.GET, sort, column, hidden, control, csv_path)


@dataclass(frozen=True)
class Arrangement(Generic[R]):
    """A table in one order and with some columns.

    `control` is the kind of the link that asked for it: `sort`, or in the menu `order` or `column`. Rows that a search
    has ranked (`is_ranked`) keep their order, and there is no CSV of them. Without `can_select`, rows have no boxes.
    """

    table: Table[R]
    parameters: QueryDict
    sort: str
    sorted_by: Column[R]
    hidden: frozenset[str]
    control: str
    csv_path: Mapping[str, str] = field(default_factory=dict)
    is_ranked: bool = False
    can_select: bool = True

    @cached_property
    def order(self) -> Order:
        """Order of the rows of a query."""
        order = self.sorted_by.order
        if not isinstance(order, Order):
            raise TypeError(f"{self.table.title} are read whole: call sort_rows.")
        return order if self.sort == self.sorted_by.first_sort else order.reverse()

    def sort_rows(self, rows: Iterable[R]) -> list[R]:
        """Return all rows of a list that is read whole, in order."""
        order = self.sorted_by.order
        if not isinstance(order, SortKey):
            raise TypeError(f"{self.table.title} are sorted by an index: use order.")
        return sorted(rows, key=order.key, reverse=self.is_descending)

    @property
    def is_default_order(self) -> bool:
        """Tell whether the rows are in the default order."""
        return self.sort == self.table.default_sort

    @property
    def is_descending(self) -> bool:
        """Tell whether high values come first."""
        return self.sort.startswith("-")

    @property
    def caption(self) -> str:
        """The rows and their order in words."""
        return f"{self.table.title}, {self.order_label[0].lower()}{self.order_label[1:]}"

    @property
    def order_label(self) -> str:
        """The order in words."""
        if self.is_ranked:
            return "Best first"
        if self.is_default_order:
            return self.table.default_label
        return f"By {self.sorted_by.label.lower()}, {'descending' if self.is_descending else 'ascending'}"

    @cached_property
    def columns(self) -> list[Column[R]]:
        """The visible columns."""
        columns = [column for column in self.table.columns if self.can_select or column.css != "pick"]
        return [column for column in columns if column.key not in self.hidden or not column.can_hide]

    @property
    def heads(self) -> list[Head]:
        """The heads of the visible columns."""
        return [self._make_head(column) for column in self.columns]

    @property
    def orders(self) -> list[Head]:
        """The columns by which rows can be sorted."""
        heads = map(self._make_head, self.table.columns)
        return [head for head in heads if head.url]

    def _make_head(self, column: Column[R]) -> Head:
        if column.order is None or self.is_ranked:
            return Head(column, "", "")
        if column.key != self.sorted_by.key:
            return Head(column, self.sort_url(column.first_sort), "")
        opposite = column.key if self.is_descending else f"-{column.key}"
        return Head(column, self.sort_url(opposite), "descending" if self.is_descending else "ascending")

    @property
    def choices(self) -> list[ColumnChoice]:
        """The columns that can be hidden or shown again."""
        columns = [column for column in self.table.columns if column.can_hide]
        hidden = self.hidden & {column.key for column in columns}
        return [
            ColumnChoice(
                column, self.query(hide=",".join(sorted(hidden ^ {column.key}))), column.key not in hidden
            )
            for column in columns
        ]

    @property
    def inputs(self) -> dict[str, str]:
        """The parameters that the filter form of the list must send along."""
        if not self.table.has_filters:
            return {}
        return self._read_arrangement()

    def _read_arrangement(self) -> dict[str, str]:
        """Return the parameters of the order and the columns."""
        names = (f"{self.table.prefix}{name}" for name in ("sort", "hide"))
        values = ((name, self.parameters.get(name)) for name in names)
        return {name: value for name, value in values if value}

    @property
    def unfiltered_url(self) -> str:
        """Address of all rows, with this order and these columns."""
        return f"?{urlencode(self._read_arrangement(), safe=',')}"

    @property
    def most_exported(self) -> int:
        """Maximum rows of the CSV."""
        return MAX_EXPORTED

    @property
    def csv_url(self) -> str:
        """Address of the list's rows as CSV; empty: there is none."""
        has_csv = self.table.csv_route and not self.is_ranked
        return paths.seg_reverse(self.table.csv_route, **self.csv_path) + self.query() if has_csv else ""

    def sort_url(self, sort: str) -> str:
        """Return the address of the first page in another order."""
        return self.query(sort="" if sort == self.table.default_sort else sort)

    def query(self, **more: str) -> str:
        """Return the query string of the list with its filters, order and columns, and further parameters."""
        named = {f"{self.table.prefix}{name}": [value] for name, value in more.items()}
        values = {**self._chosen_parameters, **named}
        set_values = {name: value for name, value in values.items() if value != [""]}
        return f"?{urlencode(set_values, doseq=True, safe=',')}"

    @cached_property
    def _chosen_parameters(self) -> dict[str, list[str]]:
        """The parameters for filters, order and columns, and those of another list on the page."""
        dropped = {f"{self.table.prefix}{name}" for name in POSITION_PARAMETERS}
        return {name: values for name, values in self.parameters.lists() if name not in dropped}

    def page_context(self, page: Page[Any], rows: Iterable[R]) -> dict[str, Any]:
        """Return what the templates of a table and of its pager need."""
        return {
            "table": self,
            "rows": self.draw(rows),
            "count_label": self.count_label(page.total),
            "first_url": "" if page.is_first else self.query(),
            "next_url": self.query(before=page.next) if page.next else "",
            "first_label": "" if self.is_default_order else "First page",
            "next_label": "" if self.is_default_order else "Next page",
        }

    def count_label(self, total: int | None) -> str:
        """Return how many rows the list has, such as "5,043 sessions"; empty: they are not counted."""
        if total is None:
            return ""
        noun = self.table.noun if total == 1 else self.table.title.lower()
        return f"more than {MAX_COUNTED:,} {noun}" if total > MAX_COUNTED else f"{total:,} {noun}"

    def all_rows_context(
        self, rows: Iterable[R], *, shown: Callable[[R], bool] | None = None, size: int = PAGE_SIZE
    ) -> dict[str, Any]:
        """Return what the templates need of a list that is read whole: the page that the address names.

        Args:
            rows: all rows.
            shown: tells which row to show if the address names no page.
            size: rows per page.
        """
        rows = self.sort_rows(rows)
        number = self.parameters.get(f"{self.table.prefix}page", "")
        if not number and shown:
            number = str(next((index // size + 1 for index, row in enumerate(rows) if shown(row)), 1))
        page = Paginator(rows, size).get_page(number)
        return {
            "table": self,
            "rows": self.draw(page.object_list),
            "count_label": self.count_label(len(rows)),
            **number_pages(page, lambda number: self.query(page=str(number))),
        }

    def draw(self, rows: Iterable[R], *, in_place: bool = False) -> list[SafeString]:
        """Return rows as HTML; rows `in_place` replace those on screen."""
        cells = [self._cell_start(column) for column in self.columns]
        return [self._draw_row(row, cells, in_place=in_place) for row in rows]

    def _cell_start(self, column: Column[R]) -> tuple[Column[R], str, str]:
        is_labelled = not (column.is_main or column.head or "fit" in column.css.split())
        label = format_html(' data-label="{}"', column.label) if is_labelled else ""
        css = format_html(' class="{}"', column.css) if column.css else ""
        if column.is_row_head:
            return column, f'<th scope="row"{css}>', "</th>"
        return column, f"<td{css}{label}>", "</td>"

    def _draw_row(self, row: R, cells: list[tuple[Column[R], str, str]], *, in_place: bool) -> SafeString:
        swap = ' class="is-changed" hx-swap-oob="true"' if in_place else ""
        row_id = format_html("{}-{}", self.table.row_id, self.table.row_key(row))
        start = f'<tr id="{row_id}"{swap}>'
        content = "\n".join(f"{opening}{column.render(row)}{closing}" for column, opening, closing in cells)
        return SafeString(f"{start}{content}</tr>")

    def csv_response(self, rows: Iterable[R]) -> HttpResponse:
        """Return a download of the first `MAX_EXPORTED` rows with the values of the visible columns."""
        columns = [column for column in self.columns if column.value]
        exported = list(islice(rows, MAX_EXPORTED + 1))
        text = io.StringIO()
        lines = csv.writer(text)
        lines.writerow(column.key for column in columns)
        for row in exported[:MAX_EXPORTED]:
            lines.writerow(csv_cells.csv_cell(column.export(row)) for column in columns)
        part = f"-first-{MAX_EXPORTED}" if len(exported) > MAX_EXPORTED else ""
        headers = {"Content-Disposition": f'attachment; filename="{self.table.name}{part}.csv"'}
        return HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)
