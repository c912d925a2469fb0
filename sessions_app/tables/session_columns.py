"""Columns of the session list."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote_plus, urlencode

from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app import paths
from sessions_app.presentation import visible_text
from sessions_app.search.execution.session_queries import Hit
from sessions_app.search.query.terms import Field
from sessions_app.sessions import listing
from sessions_app.store import expiry
from sessions_app.store.database.pagination import Order
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.short_texts import truncate
from sessions_app.tables.table import (
    ACTIONS_HEAD,
    Column,
    Table,
    fill_template,
    linked_name,
    pick_column,
    tokens_cell,
)
from sessions_app.templatetags import devui

TITLE_SHOWN = 200
TAGS_SHOWN = 4
QUIET_STATUSES = {Run.Status.DONE, Run.Status.CANCELLED}
"""Statuses of the newest run that the row does not show."""

EMPTY = SafeString("")
CELLS = "devui/sessions/list/cells.html"


class SessionRow(NamedTuple):
    """A session, and its event that matches the query, if the query is about events."""

    session: AgentSession
    hit: Hit | None = None


def _session_cell(row: SessionRow) -> SafeString:
    session, url = row.session, visible_text.escape_html(paths.session_url(row.session))
    return fill_template(
        f"{CELLS}#session",
        pk=str(session.pk),
        url=url,
        title=visible_text.text_html(truncate(session.name, TITLE_SHOWN)),
        label=visible_text.escape_html(visible_text.escape_text(session.name)),
        marks=_pin_mark(session) + _status_badges(session),
        tags=_tag_links(session),
        last=_hit_link(row.hit, url)
        if row.hit
        else SafeString(f"<bdi>{visible_text.text_html(session.last_text)}</bdi>"),
    )


def _actions_cell(row: SessionRow) -> SafeString:
    is_pinned = row.session.pinned_at is not None
    return fill_template(
        f"{CELLS}#actions",
        pk=str(row.session.pk),
        title=visible_text.text_html(truncate(row.session.name, TITLE_SHOWN)),
        label=_plain_title(row.session),
        rename_url=paths.url_by_key("session-rename", row.session.pk),
        pin_act="unpin" if is_pinned else "pin",
        is_pinned="true" if is_pinned else "false",
    )


def _plain_title(session: AgentSession) -> SafeString:
    """Return the session's name for attributes."""
    return visible_text.escape_html(visible_text.escape_name(truncate(session.name, TITLE_SHOWN)))


def _id_cell(row: SessionRow) -> SafeString:
    plain = visible_text.escape_name(row.session.session_id)
    return format_html(
        '<bdi class="mono" title="{}">{}</bdi>', plain, visible_text.name_html(row.session.session_id)
    )


def _app_cell(row: SessionRow) -> SafeString:
    return linked_name(
        f"{paths.fixed_url('state')}?app={quote_plus(row.session.app_name)}", row.session.app_name
    )


def _user_cell(row: SessionRow) -> SafeString:
    app, user = row.session.app_name, row.session.user_id
    return linked_name(f"{paths.fixed_url('state')}?app={quote_plus(app)}&user={quote_plus(user)}", user)


def _pin_mark(session: AgentSession) -> SafeString:
    if session.pinned_at is None:
        return EMPTY
    person = visible_text.escape_name(session.pinned_person)
    label = f"pinned by {person}" if person else "pinned"
    return format_html('<span class="pin-mark">{}</span>', devui.icon("pin", label, css="icon-small"))


def _status_badges(session: AgentSession) -> SafeString:
    """Return badges for unchecked errors, a notable status of the newest run, and an idle or expired session."""
    badges = []
    if session.error_count and not session.problem_count:
        badges.append(
            format_html(
                '<span class="badge badge-danger" title="{}">{}{}</span>',
                devui.plural(session.error_count, "error,errors"),
                devui.icon("error"),
                f"{session.error_count:,}",
            )
        )
    run: str | None = getattr(session, "run_status", None)
    if run and run not in QUIET_STATUSES:
        badges.append(devui.status(run))
    if (age := expiry.find_age(session)) != expiry.Age.FRESH:
        badges.append(devui.status(age))
    return SafeString("".join(badges))


def _hit_link(hit: Hit, url: str) -> SafeString:
    """Return a link to the matching event, with its matches highlighted."""
    pieces = ((visible_text.text_html(text), matches) for text, matches in hit.snippet)
    text = SafeString("".join(f"<mark>{piece}</mark>" if matches else piece for piece, matches in pieces))
    return format_html(
        '{} <a href="{}?seq={}"><bdi>{}</bdi></a>', devui.kind_mark(hit.kind), url, hit.seq, text
    )


def _tag_links(session: AgentSession) -> SafeString:
    names = listing.tag_names(session)
    if not names:
        return EMPTY
    persons = listing.tag_persons(session)
    chips = [_tag_link(name, persons.get(name, "")) for name in names[:TAGS_SHOWN]]
    if len(names) > TAGS_SHOWN:
        more = ", ".join(visible_text.escape_name(name) for name in names[TAGS_SHOWN:])
        chips.append(
            format_html('<span class="faint small" title="{}">+{}</span>', more, len(names) - TAGS_SHOWN)
        )
    return SafeString("".join(chips))


def _tag_link(name: str, person: str) -> SafeString:
    query = urlencode({"q": str(Field("tag", name))})
    return format_html(
        '<a class="tag" href="{}?{}"{}><bdi>{}</bdi></a>',
        paths.fixed_url("sessions"),
        query,
        format_html(' title="By {}"', visible_text.escape_name(person)) if person else "",
        visible_text.name_html(name),
    )


def _problems_cell(row: SessionRow) -> SafeString:
    """Return the number of problems, linked to their list."""
    session = row.session
    if not session.problem_count:
        return EMPTY
    return format_html(
        '<a class="badge badge-warn" href="{0}" hx-get="{0}" hx-target="#dialog-content" title="{1}">{2}{3}</a>',
        paths.url_by_key("session-problems", session.pk),
        devui.plural(session.problem_count, "problem,problems"),
        devui.icon("warn", "problems"),
        f"{session.problem_count:,}",
    )


TABLE: Table[SessionRow] = Table(
    name="sessions",
    title="Sessions",
    noun="session",
    icon="search",
    default_sort="-updated",
    row_id="session-row",
    row_key=lambda row: row.session.pk,
    css="session-table",
    csv_route="sessions-csv",
    columns=(
        pick_column(
            "session-actions",
            "session",
            key=lambda row: row.session.pk,
            label=lambda row: _plain_title(row.session),
        ),
        Column(
            "session",
            "Session",
            cell=_session_cell,
            value=lambda row: row.session.name,
            css="cell-main session-cell",
        ),
        Column("id", "Id", cell=_id_cell, value=lambda row: row.session.session_id, css="id-cell roomy-only"),
        Column(
            "app",
            "App",
            cell=_app_cell,
            value=lambda row: row.session.app_name,
            order=Order("app_name", "-updated_at"),
            css="name-cell",
        ),
        Column(
            "user",
            "User",
            cell=_user_cell,
            value=lambda row: row.session.user_id,
            order=Order("user_id", "-pk"),
            css="name-cell",
        ),
        Column(
            "events",
            "Events",
            value=lambda row: row.session.last_seq,
            show=devui.count,
            order=Order("-last_seq"),
            css="number",
        ),
        Column(
            "duration",
            "Duration",
            value=lambda row: row.session.updated_at - row.session.created_at,
            show=lambda seconds: devui.duration(seconds) if seconds > 0 else "",
            order=Order("-duration"),
            css="number duration roomy-only",
        ),
        Column(
            "tokens",
            "Tokens",
            cell=lambda row: tokens_cell(row.session.total_tokens, listing.session_cost(row.session)),
            value=lambda row: row.session.total_tokens,
            order=Order("-total_tokens"),
            css="number tokens",
        ),
        Column(
            "problems",
            "Problems",
            cell=_problems_cell,
            value=lambda row: row.session.problem_count,
            order=Order("-problem_count"),
            css="number problems",
        ),
        Column(
            "updated",
            "Updated",
            value=lambda row: row.session.updated_at,
            show=devui.moment,
            order=Order("-updated_at"),
            css="fit when",
        ),
        Column("actions", "Actions", cell=_actions_cell, css="fit row-actions", head=ACTIONS_HEAD),
    ),
)
