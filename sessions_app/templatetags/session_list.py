"""Rows of the session list: `{% load session_list %}`.

The template of a row is rendered once with placeholders, which are replaced for each session: rendering fifty rows with
thirty tags and filters each would take most of the page's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote_plus, urlencode

from django import template
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app import paths
from sessions_app.presentation import visible_text
from sessions_app.search.execution.hits import Hit
from sessions_app.search.query.terms import Field
from sessions_app.sessions import listing
from sessions_app.store import expiry
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.short_texts import truncate
from sessions_app.templatetags import devui

register = template.Library()

TITLE_SHOWN = 200
TAGS_SHOWN = 4
QUIET_STATUSES = {Run.Status.DONE, Run.Status.CANCELLED}
"""Statuses of the newest run that the row does not show."""

EMPTY = SafeString("")

FORM = "devui/sessions/list/row_template.html"
"""Template of a row."""

PLACE = "\0"
"""Delimiter of placeholders: a character that no template contains."""


FIELDS = (
    *(
        "pk",
        "url",
        "title",
        "label",
        "marks",
        "tags",
        "last",
        "id",
        "id_plain",
        "app",
        "app_url",
        "user",
        "user_url",
    ),
    *(
        "rename_url",
        "events",
        "duration",
        "tokens",
        "problems",
        "updated",
        "pin_mark",
        "pin_act",
        "is_pinned",
    ),
)
"""Fields of a row."""


@register.simple_tag
def session_rows(
    sessions: Iterable[AgentSession], hits: Mapping[int, Hit] | str = "", in_place: bool | str = ""
) -> SafeString:
    """`{% session_rows page.rows hits %}`: rows of sessions.

    `hits` are the events that match the query, by session; rows `in_place` replace those on screen.
    """
    places = {name: SafeString(f"{PLACE}{name}{PLACE}") for name in FIELDS}
    form = render_to_string(FORM, {"row": places, "in_place": in_place}).split(PLACE)
    return SafeString("".join(_fill_template(form, session_row(session, hits)) for session in sessions))


@register.simple_tag(name="session_row")
def row_of(
    session: AgentSession, hits: Mapping[int, Hit] | str = "", in_place: bool | str = ""
) -> SafeString:
    """`{% session_row session hits %}`: the row of one session."""
    return session_rows([session], hits, in_place)


def _fill_template(template: list[str], row: dict[str, str]) -> str:
    """Return the row's template with its placeholders replaced by the row's fields."""
    filled = template.copy()
    filled[1::2] = [row[name] for name in template[1::2]]
    return "".join(filled)


def session_row(session: AgentSession, hits: Mapping[int, Hit] | str = "") -> dict[str, str]:
    """Return the fields of a session's row, escaped for HTML."""
    title = truncate(session.name, TITLE_SHOWN)
    app, user, state = session.app_name, session.user_id, paths.fixed_url("state")
    url = visible_text.escape_html(paths.session_url(session))
    hit = hits.get(session.pk) if isinstance(hits, Mapping) else None
    return {
        "pk": str(session.pk),
        "url": url,
        "title": visible_text.text_html(title),
        "label": visible_text.escape_html(visible_text.escape_name(title)),
        "marks": _marks(session),
        "tags": _tags(session),
        "last": _hit(hit, url)
        if hit
        else SafeString(f"<bdi>{visible_text.text_html(session.last_text)}</bdi>"),
        "id": visible_text.name_html(session.session_id),
        "id_plain": visible_text.escape_html(visible_text.escape_name(session.session_id)),
        "app": visible_text.name_html(app),
        "app_url": SafeString(f"{state}?app={quote_plus(app)}"),
        "user": visible_text.name_html(user),
        "user_url": SafeString(f"{state}?app={quote_plus(app)}&amp;user={quote_plus(user)}"),
        "rename_url": SafeString(paths.url_by_key("session-rename", session.pk)),
        "events": f"{session.last_seq:,}",
        "duration": devui.duration(duration)
        if (duration := session.updated_at - session.created_at) > 0
        else "",
        "tokens": _tokens(session),
        "problems": _problems(session),
        "updated": devui.moment(session.updated_at),
        **_pin_fields(session),
    }


def _pin_fields(session: AgentSession) -> dict[str, str]:
    if session.pinned_at is None:
        return {"pin_mark": EMPTY, "pin_act": "pin", "is_pinned": "false"}
    person = visible_text.escape_name(session.pinned_person)
    label = f"pinned by {person}" if person else "pinned"
    mark = format_html('<span class="pin-mark">{}</span>', devui.icon("pin", label, css="icon-small"))
    return {"pin_mark": mark, "pin_act": "unpin", "is_pinned": "true"}


def _marks(session: AgentSession) -> SafeString:
    """Return badges for a notable status of the newest run, and for an idle or expired session."""
    badges = []
    run: str | None = getattr(session, "run_status", None)
    if run and run not in QUIET_STATUSES:
        badges.append(devui.status(run))
    if (age := expiry.age_of(session)) != expiry.Age.FRESH:
        badges.append(devui.status(age))
    return SafeString("".join(badges))


def _hit(hit: Hit, url: str) -> SafeString:
    """Return a link to the matching event, with its matches highlighted."""
    pieces = ((visible_text.text_html(text), matches) for text, matches in hit.snippet)
    text = SafeString("".join(f"<mark>{piece}</mark>" if matches else piece for piece, matches in pieces))
    return format_html(
        '{} <a href="{}?seq={}"><bdi>{}</bdi></a>', devui.kind_mark(hit.kind), url, hit.seq, text
    )


def _tags(session: AgentSession) -> SafeString:
    names = listing.tag_names(session)
    if not names:
        return EMPTY
    persons = listing.tag_persons(session)
    chips = [_tag(name, persons.get(name, "")) for name in names[:TAGS_SHOWN]]
    if len(names) > TAGS_SHOWN:
        more = ", ".join(visible_text.escape_name(name) for name in names[TAGS_SHOWN:])
        chips.append(
            format_html('<span class="faint small" title="{}">+{}</span>', more, len(names) - TAGS_SHOWN)
        )
    return SafeString("".join(chips))


def _tag(name: str, person: str) -> SafeString:
    query = urlencode({"q": str(Field("tag", name))})
    return format_html(
        '<a class="tag" href="{}?{}"{}><bdi>{}</bdi></a>',
        paths.fixed_url("sessions"),
        query,
        format_html(' title="By {}"', visible_text.escape_name(person)) if person else "",
        visible_text.name_html(name),
    )


def _tokens(session: AgentSession) -> SafeString:
    """Return the number of tokens, with their cost below if there is a price list."""
    count, cost = session.total_tokens, listing.cost_of(session)
    if not count:
        return EMPTY
    tokens = format_html('<span title="{}">{}</span>', f"{count:,}", devui.compact(count))
    if cost is None:
        return tokens
    return format_html('{}<br><span class="faint small">{}</span>', tokens, devui.cost(cost))


def _problems(session: AgentSession) -> SafeString:
    """Return the number of problems, linked to their list; the number of errors if they were not checked yet."""
    if session.problem_count:
        return format_html(
            '<a class="badge badge-warn" href="{0}" hx-get="{0}" hx-target="#dialog-content" title="{1}">{2}{3}</a>',
            paths.url_by_key("session-problems", session.pk),
            devui.plural(session.problem_count, "problem,problems"),
            devui.icon("warn", "problems"),
            f"{session.problem_count:,}",
        )
    if not session.error_count:
        return EMPTY
    return format_html(
        '<span class="badge badge-danger">{}{}</span>', devui.icon("error"), f"{session.error_count:,}"
    )
