"""What a row of the session list shows: `{% load session_list %}`.

A row is made in one go: fifty rows of a page, each of thirty tags and filters, would take most of its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict
from urllib.parse import quote_plus, urlencode

from django import template
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from sessions_app import expiry, paths
from sessions_app.finding import Hit
from sessions_app.models import AgentSession, Run
from sessions_app.presentation import visible
from sessions_app.query import Field
from sessions_app.templatetags import devui

register = template.Library()

TITLE_SHOWN = 200
TAGS_SHOWN = 4
UNREMARKABLE = {Run.Status.DONE, Run.Status.CANCELLED}
"""How a newest run stands when nobody needs to be told."""

NOTHING = SafeString("")


class Row(TypedDict):
    """A session as its row shows it; everything is fit for HTML."""

    pk: int
    url: str
    title: SafeString
    label: SafeString
    marks: SafeString
    tags: SafeString
    last: SafeString
    id: SafeString
    id_plain: SafeString
    app: SafeString
    app_url: SafeString
    user: SafeString
    user_url: SafeString
    rename_url: SafeString
    events: str
    duration: str
    tokens: SafeString
    errors: SafeString
    updated: SafeString
    is_pinned: bool


@register.simple_tag
def session_row(session: AgentSession, hits: Mapping[int, Hit] | str = "") -> Row:
    """`{% session_row session hits as row %}`: what a row shows of a session that `listing` has read.

    `hits` are those of `finding`, where a query has any.
    """
    title = (session.title or session.first_text or session.session_id)[:TITLE_SHOWN]
    app, user, state = session.app_name, session.user_id, paths.fixed("state")
    url = escape(paths.session_url(session))
    hit = hits.get(session.pk) if isinstance(hits, Mapping) else None
    return {
        "pk": session.pk,
        "url": url,
        "title": visible.text_html(title),
        "label": escape(visible.name(title)),
        "marks": _marks(session),
        "tags": _tags(session),
        "last": _hit(hit, url) if hit else format_html("<bdi>{}</bdi>", visible.text_html(session.last_text)),
        "id": visible.name_html(session.session_id),
        "id_plain": escape(visible.name(session.session_id)),
        "app": visible.name_html(app),
        "app_url": SafeString(f"{state}?app={quote_plus(app)}"),
        "user": visible.name_html(user),
        "user_url": SafeString(f"{state}?app={quote_plus(app)}&amp;user={quote_plus(user)}"),
        "rename_url": SafeString(reverse("session-rename", kwargs={"pk": session.pk})),
        "events": f"{session.last_seq:,}",
        "duration": devui.duration(duration)
        if (duration := session.updated_at - session.created_at) > 0
        else "",
        "tokens": _tokens(session.total_tokens),
        "errors": _errors(session.error_count),
        "updated": devui.moment(session.updated_at),
        "is_pinned": session.pinned_at is not None,
    }


def _marks(session: AgentSession) -> SafeString:
    """Return how the newest run stands, when it matters, and that the session is idle or has expired."""
    shown = []
    run: str | None = getattr(session, "run_status", None)
    if run and run not in UNREMARKABLE:
        shown.append(devui.status(run))
    if (age := expiry.age_of(session)) != expiry.Age.FRESH:
        shown.append(devui.status(age))
    return SafeString("".join(shown))


def _hit(hit: Hit, url: str) -> SafeString:
    """Return the event that a session was found by, linked, with what matches marked."""
    pieces = ((visible.text_html(text), matches) for text, matches in hit.snippet)
    text = SafeString("".join(f"<mark>{piece}</mark>" if matches else piece for piece, matches in pieces))
    return format_html('{} <a href="{}?seq={}"><bdi>{}</bdi></a>', devui.kind(hit.kind), url, hit.seq, text)


def _tags(session: AgentSession) -> SafeString:
    names = [tag.name for tag in session.tags.all()]
    if not names:
        return NOTHING
    chips = [_tag(name) for name in names[:TAGS_SHOWN]]
    if len(names) > TAGS_SHOWN:
        more = ", ".join(visible.name(name) for name in names[TAGS_SHOWN:])
        chips.append(
            format_html('<span class="faint small" title="{}">+{}</span>', more, len(names) - TAGS_SHOWN)
        )
    return SafeString("".join(chips))


def _tag(name: str) -> SafeString:
    query = urlencode({"q": str(Field("tag", name))})
    return format_html(
        '<a class="tag" href="{}?{}"><bdi>{}</bdi></a>',
        paths.fixed("sessions"),
        query,
        visible.name_html(name),
    )


def _tokens(count: int) -> SafeString:
    return format_html('<span title="{}">{}</span>', f"{count:,}", devui.compact(count)) if count else NOTHING


def _errors(count: int) -> SafeString:
    if not count:
        return NOTHING
    return format_html('<span class="badge badge-danger">{}{}</span>', devui.icon("error"), f"{count:,}")
