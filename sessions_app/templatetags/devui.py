"""General template tags and filters: `{% load devui %}`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from sessions_app import paths
from sessions_app.agents.page.drawing import truncate_to_cells
from sessions_app.presentation import json_tree as jsontree
from sessions_app.presentation import markdown_html, terminal_colors, visible_text
from sessions_app.presentation.text_diff import DiffPiece
from sessions_app.prices.costs import Cost
from sessions_app.sessions import storage_location
from sessions_app.store import expiry, scopes
from sessions_app.store.events.kinds import kind_properties
from sessions_app.store.models import AgentSession, ChangeCause, Scope, StateChange

register = template.Library()

SCOPE_MARKS = {
    "session": ("S", "session: this session only"),
    "user": ("U", "user: every session of this user in this app"),
    "app": ("A", "app: everyone in this app"),
    "temp": ("T", "temp: this invocation only, never stored"),
}
BADGES = {
    "queued": ("", "clock"),
    "running": ("info", "working"),
    "waiting": ("warn", "waiting"),
    "paused": ("warn", "waiting"),
    "done": ("ok", "ok"),
    "passed": ("ok", "ok"),
    "ready": ("ok", "ok"),
    "failed": ("danger", "fail"),
    "error": ("danger", "error"),
    "crashed": ("danger", "error"),
    "cancelled": ("", "stop"),
    "pending": ("", "clock"),
    "incomplete": ("warn", "skip"),
    "not_evaluated": ("warn", "skip"),
    "unknown": ("", "dot"),
    "alive": ("ok", "ok"),
    "draining": ("warn", "stop"),
    "gone": ("danger", "error"),
    "idle": ("", "clock"),
    "expired": ("warn", "clock"),
}
"""Status -> (badge colour, icon). A status not listed gets the neutral badge."""

WRITER_ICONS = {
    ChangeCause.SEED: "session",
    ChangeCause.EDIT: "edit",
    ChangeCause.REWIND: "rewind",
    ChangeCause.FORK: "fork",
    "tool": "tool_call",
    "callback": "code",
    "user": "edit",
    "seed": "session",
}
"""Cause or kind of writer of a key's write -> icon. The default is the agent icon."""


@register.simple_tag
def icon(name: str, label: str = "", css: str = "") -> SafeString:
    """`{% icon "tool_call" %}`: an icon; hidden from screen readers without a label."""
    return _render_icon(settings.STATIC_URL, name, label, css)


@lru_cache(maxsize=1024)
def _render_icon(static_url: str, name: str, label: str, css: str) -> SafeString:
    """Build an icon, cached: a list shows the same few icons hundreds of times. `static_url` locates the sprite."""
    href = f"{static('devui/icons.svg')}#{name}"
    classes = f"icon {css}".strip()
    if label:
        return format_html(
            '<svg class="{}" role="img" aria-label="{}"><use href="{}"></use></svg>',
            classes,
            visible_text.escape_name(label),
            href,
        )
    return format_html('<svg class="{}" aria-hidden="true"><use href="{}"></use></svg>', classes, href)


def kind_mark(name: str) -> SafeString:
    """Return the mark of an event's kind, with its name for screen readers."""
    label = kind_label(name)
    return format_html('<span class="kind kind-{}" title="{}">{}</span>', name, label, kind_icon(name, label))


@register.simple_tag
def kind_icon(name: str, label: str = "", css: str = "") -> SafeString:
    """`{% kind_icon event.kind %}`: the icon of an event's kind."""
    return icon(kind_properties(name).icon, label, css)


@register.filter
def kind_label(name: str) -> str:
    """`{{ event.kind|kind_label }}`: the name of an event's kind."""
    return kind_properties(name).label


@register.simple_tag
def scope(name: str) -> SafeString:
    """`{% scope "user" %}`: the mark of a scope, a letter in its colour."""
    letter, meaning = SCOPE_MARKS[str(name)]
    return format_html(
        '<abbr class="scope scope-{0}" title="{1}" aria-label="{0} scope">{2}</abbr>',
        str(name),
        meaning,
        letter,
    )


@register.simple_tag
def writer_icon(change: StateChange) -> SafeString:
    """`{% writer_icon change %}`: the icon of a key's writer."""
    return icon(WRITER_ICONS.get(change.cause) or WRITER_ICONS.get(change.writer) or "agent")


@register.simple_tag
def status(name: str, text: str = "") -> SafeString:
    """`{% status run.status run.get_status_display %}`: a badge with the status's colour and icon."""
    colour, mark = BADGES.get(str(name), ("", "dot"))
    classes = f"badge badge-{colour}" if colour else "badge"
    spin = "spin" if str(name) == "running" else ""
    return format_html(
        '<span class="{}" data-status="{}">{}{}</span>',
        classes,
        str(name),
        icon(mark, css=spin),
        visible_text.name_html(text or str(name)),
    )


@register.filter
def age(session: AgentSession) -> str:
    """`{% with age=session|age %}`: `idle` or `expired` by the app's TTL, else empty."""
    session_age = expiry.find_age(session)
    return "" if session_age == expiry.Age.FRESH else str(session_age)


register.filter("expires_at", expiry.expires_at)
register.filter("json_escapes", visible_text.escape_json)
register.filter("terminal", terminal_colors.terminal_html)
register.filter("markdown", markdown_html.render_markdown)
register.simple_tag(jsontree.render, name="json_tree")
register.simple_tag(paths.seg_reverse, name="seg_url")
register.simple_tag(paths.session_url)
register.simple_tag(storage_location.find_location, name="place_of")
register.filter("truncate_to_cells", truncate_to_cells)


@register.filter
def prefix(name: str) -> str:
    """`{{ change.scope|prefix }}`: the key prefix of a scope: `user:`, `app:`, `temp:` or empty."""
    return scopes.TEMP_PREFIX if name == "temp" else scopes.PREFIX[Scope(name)]


@register.filter
def key_name(change: StateChange) -> str:
    """`{{ change|key_name }}`: the key of a ledger row, with its prefix."""
    return scopes.PREFIX[Scope(change.scope)] + change.key


@register.filter("name")
def name_html(value: object) -> SafeString:
    """`{{ session.user_id|name }}`: a name (id, key, author, tool) with invisible characters as marked escapes."""
    return visible_text.name_html(str(value))


@register.filter
def reveal(value: object) -> SafeString:
    """`{{ run.error|reveal }}`: text with invisible characters, except line breaks, as marked escapes."""
    return visible_text.text_html(str(value))


@register.filter
def deletions(pieces: Iterable[DiffPiece]) -> SafeString:
    """`{{ turn.expected|deletions }}`: the old side of a text difference, with deletions marked."""
    return _mark_differences("del", "removed", pieces)


@register.filter
def insertions(pieces: Iterable[DiffPiece]) -> SafeString:
    """`{{ turn.actual|insertions }}`: the new side of a text difference, with insertions marked."""
    return _mark_differences("ins", "added", pieces)


def _mark_differences(tag: str, css: str, pieces: Iterable[DiffPiece]) -> SafeString:
    marked_pieces = ((piece.differs, reveal(piece.text)) for piece in pieces)
    return SafeString(
        "".join(
            f'<{tag} class="{css}">{text}</{tag}>' if differs else text for differs, text in marked_pieces
        )
    )


@register.filter
def plain(value: object, kind_of_text: str = "name") -> str:
    """`title="{{ key|plain }}"`: like `name` without markup, for attributes; `plain:"text"` is like `reveal`."""
    return (
        visible_text.escape_text(str(value))
        if kind_of_text == "text"
        else visible_text.escape_name(str(value))
    )


@register.filter
def query(value: object, name: str) -> str:
    """`?{{ app|query:"app" }}`: one parameter of a query string, encoded."""
    return urlencode({name: str(value)})


@register.filter
def dom_id(value: object, kind_of_thing: str) -> str:
    """`id="{{ app|dom_id:'agent' }}"`: an element id for a name with any characters."""
    return f"{kind_of_thing}-{sha256(str(value).encode(errors='replace')).hexdigest()[:12]}"


@register.filter
def moment(epoch: float | str | None, style: str = "short") -> SafeString:
    """`{{ t|moment }}`: epoch seconds as a time, which the page converts to the viewer's zone; exact on hover.

    `{{ t|moment:"clock" }}` always shows hours, minutes and seconds. None and missing variables give an empty text.
    """
    if epoch is None or isinstance(epoch, str):
        return SafeString("")
    date = find_date(epoch)
    if date is None:
        return _no_date(float(epoch))
    return format_html(
        '<time datetime="{}" data-epoch="{}" data-style="{}">{}</time>',
        date.isoformat(timespec="milliseconds"),
        repr(float(epoch)),
        style,
        f"{date:%H:%M:%S} UTC" if style == "clock" else f"{date.isoformat(' ', 'minutes')[:16]} UTC",
    )


def find_date(epoch: float) -> datetime | None:
    """Return epoch seconds as a date, or None outside the years 1 to 9999."""
    try:
        return datetime.fromtimestamp(float(epoch), UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _no_date(epoch: float) -> SafeString:
    """Render a time outside the calendar as a number."""
    if not math.isfinite(epoch):
        return format_html('<span title="Invalid time: {}">no time</span>', str(epoch))
    hint = "No date: the year is not between 1 and 9999. Are these seconds since 1970?"
    return format_html('<span title="{}">{} s</span>', hint, f"{epoch:.4g}")


@register.filter
def count(number: int | None) -> str:
    """`{{ 12345|count }}`: 12,345."""
    return "" if number is None else f"{number:,}"


@register.filter
def compact(number: float | None) -> str:
    """`{{ 12345|compact }}`: 12.3k, at most three digits."""
    if number is None:
        return ""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit * 0.9995:
            return f"{_three_digits(number / limit)}{unit}"
    return str(number)


@register.filter
def money(value: float | None, currency: str = "") -> str:
    """`{{ 0.0123|money:"USD" }}`: USD 0.0123; unknown for none, which is not 0.

    Two decimals from 1, and for 0; four below 1, or two significant digits if four decimals have fewer.
    """
    if value is None:
        return "unknown"
    decimals = 2 if value >= 1 or not value else max(4, 1 - math.floor(math.log10(value)))
    return f"{currency} {value:,.{decimals}f}".strip()


@register.filter
def cost(amount: Cost | None) -> str:
    """`{{ session_cost|cost }}`: USD 0.0120, ≥ USD 0.0120 or cost unknown; empty for None."""
    if amount is None:
        return ""
    if amount.is_unknown:
        return "cost unknown"
    return f"{'≥ ' if amount.unpriced else ''}{money(amount.amount, amount.currency)}"


def render_cost(amount: Cost) -> SafeString:
    """Return the cost, with the date of list prices as its title."""
    if not amount.list_date:
        return SafeString(escape(cost(amount)))
    return format_html('<span title="By list prices of {}">{}</span>', amount.list_date, cost(amount))


@register.simple_tag
def cost_fact(amount: Cost | None) -> SafeString:
    """`{% cost_fact session_cost %}`: the cost, with the date of list prices as its title.

    If it is a minimum or unknown, it is a link to the prices.
    """
    if amount is not None and not amount.unpriced:
        return render_cost(amount)
    text = cost(amount) or "cost unknown"
    if amount is not None and not amount.is_unknown:
        text += f", {plural(amount.unpriced, 'call')} without a price"
    return format_html('<a class="in-text" href="{}">{}</a>', paths.fixed_url("prices"), text)


@register.filter
def duration(seconds: float | None) -> str:
    """`{{ 0.812|duration }}`: 812 ms, 1.24 s, 2 min 3 s, 1 h 2 min."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds < 0.9995:
        return f"{max(0, seconds) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{_three_digits(seconds)} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remaining_seconds} s" if remaining_seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


@register.filter(name="bytes")
def byte_size(size: int | None) -> str:
    """`{{ 2048|bytes }}`: 2.00 kB. Powers of ten."""
    if size is None:
        return ""
    return f"{size} B" if size < 1000 else f"{compact(size).rstrip('kMG')} {compact(size)[-1]}B"


@register.filter
def code_spans(text: str) -> SafeString:
    """`{{ hint|code_spans }}`: text in which `backticks` mark code."""
    spans = enumerate(str(text).split("`"))
    escaped = ((n, visible_text.text_html(span)) for n, span in spans)
    return SafeString("".join(f"<code>{span}</code>" if n % 2 else span for n, span in escaped))


@register.filter
def plural(number: int, words: str) -> str:
    """`{{ n|plural:"event,events" }}`: 1 event, 2 events, 12,345 events."""
    singular, _, plural_form = words.partition(",")
    return f"{number:,} {singular if number == 1 else plural_form or singular + 's'}"


@register.simple_tag
def json_text_tree(text: str | None, url: str = "", depth: int = 2) -> SafeString:
    """`{% json_text_tree row.value %}`: like `json_tree` for JSON text."""
    return jsontree.render(json.loads(text or "null"), url=url, depth=depth)


@register.filter
def json_entries(text: str) -> SafeString:
    """`<ul>{{ entry.value|json_entries }}</ul>`: the entries of a short JSON object or array as list items."""
    return jsontree.render_piece(json.loads(text), "")


@register.simple_block_tag
def squeeze(content: str) -> SafeString:
    """`{% squeeze %}…{% endsqueeze %}`: removes line breaks between tags, of which a list has thousands.

    Unlike `spaceless` it keeps spaces, which separate words when text is copied or read aloud. After an `include`,
    whose file ends with a line break, write a space as `&#32;`.
    """
    return SafeString(_BREAKS.sub("><", content))


_BREAKS = re.compile(r">\s*\n\s*<")


def _three_digits(number: float) -> str:
    if abs(number) >= 99.95:
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 9.995 else f"{number:.2f}"
