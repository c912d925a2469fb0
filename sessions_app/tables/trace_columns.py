"""Columns of the list of traces."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app import paths
from sessions_app.presentation import visible_text
from sessions_app.prices.costs import Cost
from sessions_app.store.database.pagination import Order
from sessions_app.store.events.event_text import parse_object
from sessions_app.store.models import Trace
from sessions_app.tables.table import Column, Table, template_cells, tokens_cell
from sessions_app.templatetags import devui
from sessions_app.traces import waterfall

cell = template_cells("devui/traces/cells.html")


class TraceRow(NamedTuple):
    """A trace of `waterfall.with_call_totals` and `with_messages`, and the cost of its model calls."""

    trace: Trace
    cost: Cost | None

    @property
    def tokens(self) -> int:
        """The tokens of its model calls."""
        return getattr(self.trace, "tokens", None) or 0

    @property
    def message(self) -> str:
        """Text of the message that began the invocation."""
        summary = parse_object(getattr(self.trace, "message_summary", None) or "{}")
        return str(summary.get("text") or "").strip()


def session_link(row: TraceRow) -> SafeString:
    """Return a link to the turn in its session."""
    session, seq = row.trace.session, getattr(row.trace, "message_seq", None)
    query = f"?seq={seq}" if seq else ""
    return format_html(
        '<a class="soft" href="{}{}" title="{}"><bdi>{}</bdi></a>',
        paths.session_url(session),
        query,
        visible_text.escape_text(session.name),
        visible_text.text_html(session.name),
    )


TABLE: Table[TraceRow] = Table(
    name="traces",
    title="Traces",
    noun="trace",
    icon="clock",
    default_sort="-started",
    row_id="trace",
    row_key=lambda row: row.trace.pk,
    css="trace-table",
    csv_route="traces-csv",
    columns=(
        Column(
            "turn", "Turn", cell=cell("turn"), value=lambda row: row.message, css="cell-main session-cell"
        ),
        Column(
            "started",
            "Started",
            value=lambda row: row.trace.started_at,
            show=devui.moment,
            order=Order("-started_at"),
            css="fit",
        ),
        Column("agent", "Agent", value=lambda row: row.trace.root_agent, css="name-cell"),
        Column(
            "session",
            "Session",
            cell=session_link,
            value=lambda row: row.trace.session.name,
            css="name-cell",
        ),
        Column("app", "App", value=lambda row: row.trace.session.app_name, css="name-cell"),
        Column("user", "User", value=lambda row: row.trace.session.user_id, css="name-cell"),
        Column(
            "calls",
            "Model calls",
            cell=cell("calls"),
            value=lambda row: getattr(row.trace, "calls_count", None) or 0,
            css="number",
        ),
        Column(
            "tokens",
            "Tokens",
            cell=lambda row: tokens_cell(row.tokens, row.cost) or "0",
            value=lambda row: row.tokens,
            css="number",
        ),
        Column(
            "duration",
            "Duration",
            cell=cell("duration"),
            value=lambda row: waterfall.working_seconds(row.trace),
            css="number",
        ),
    ),
)
