"""Render a JSON value as a collapsible HTML tree, in parts that are loaded on demand.

A tree shows at most `BUDGET` values at once. With a URL, closed branches, long strings and the rest of long lists are
fetched from it on demand, by `?pointer=` (RFC 6901) and `?offset=`. Without a URL, a note says what was left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.presentation import visible_text
from sessions_app.presentation.json_pointer import escape, unescape
from sessions_app.store import scopes
from sessions_app.store.errors import NotFound
from sessions_app.store.short_texts import truncate

BUDGET = 400
"""Most values in one response."""

PAGE = 100
"""Most entries of one object or array in one response."""

OPEN_ENTRIES = 12
"""An object or array longer than this starts closed."""

TEXT_LIMIT = 1200
"""A longer string starts closed."""

TEXT_CHUNK = 20_000
"""Characters of an open string in one response."""

PREVIEW_LIMIT = 80
"""Characters of a closed branch or string that are shown."""

PREVIEW_ENTRIES = 8

ALL_BUDGET = 1_000
"""Most values of a fully opened tree."""

ALL_DEPTH = 24
"""Depth of a fully opened tree."""


def render(value: Any, *, url: str = "", depth: int = 2) -> SafeString:
    """Return a JSON value as HTML; objects and arrays down to `depth` start open.

    Args:
        value: any JSON value.
        url: serves the parts that are not rendered at first.
        depth: number of levels that start open.
    """
    return _frame_tree(_TreeRenderer(url, depth).value(value, "", SafeString()), url)


def render_all(value: Any, *, url: str = "") -> SafeString:
    """Return a JSON value with all branches open, up to `ALL_BUDGET` values and `ALL_DEPTH` levels."""
    tree = _TreeRenderer(url, ALL_DEPTH, budget=ALL_BUDGET)
    return _frame_tree(tree.value(value, "", SafeString()), url)


def render_piece(value: Any, pointer: str, *, offset: int = 0, url: str = "") -> SafeString:
    """Return the content of a closed branch or string at `pointer`, from the entry or character `offset` on.

    A branch is returned as list items; a string as a list item, or with an offset as the next chunk.

    Raises:
        NotFound: the value has nothing at `pointer`.
    """
    branch = resolve_pointer(value, pointer)
    tree = _TreeRenderer(url, pointer.count("/") + 1)
    if isinstance(branch, dict | list):
        return tree.entries(branch, pointer, offset)
    if not isinstance(branch, str):
        return format_html("<li>{}</li>", tree.leaf(branch))
    stretch = tree.stretch(branch, pointer, offset)
    return stretch if offset else format_html("<li>{}</li>", stretch)


def render_text_chunk(value: Any, pointer: str, *, offset: int, url: str) -> SafeString:
    """Return a chunk of the string at `pointer` as plain text, with a button that fetches the next.

    Raises:
        NotFound: the value has no string at `pointer`.
    """
    text = resolve_pointer(value, pointer)
    if not isinstance(text, str):
        raise NotFound(f"The value has no text at {pointer!r}.", hint="Ask for it as a tree.")
    return _TreeRenderer(url, 0).stretch(text, pointer, offset, '<span class="pre">{}{}{}</span>', "")


def resolve_pointer(value: Any, pointer: str) -> Any:
    """Return the value at an RFC 6901 pointer.

    Raises:
        NotFound: the value has nothing at `pointer`.
    """
    for part in pointer.split("/")[1:]:
        name = unescape(part)
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise NotFound(f"The value has nothing at {pointer!r}.", hint="Reload the page.") from error
    return value


_STRING = '<bdi class="json-string">{}{}{}</bdi>'


class _TreeRenderer:
    """Renders one tree and counts its values."""

    def __init__(self, url: str, depth: int, *, budget: int = BUDGET) -> None:
        self.url = url
        self.depth = depth
        self.left = budget
        self.longest_open = OPEN_ENTRIES if budget == BUDGET else sys.maxsize

    def value(self, value: Any, pointer: str, label: SafeString) -> SafeString:
        """Return the value at `pointer`, after its label."""
        self.left -= 1
        if isinstance(value, dict | list) and value:
            return self._render_branch(value, pointer, label)
        if isinstance(value, str) and len(value) > TEXT_LIMIT:
            return self._long_text(value, pointer, label)
        return format_html("{}{}", label, self.leaf(value))

    def entries(self, branch: Any, pointer: str, offset: int = 0) -> SafeString:
        """Return a page of an object's or array's entries as list items, and a button that fetches the next."""
        end = offset + PAGE
        items = [
            self._render_entry(self.value(value, entry_pointer, _render_label(name)), entry_pointer)
            for name, entry_pointer, value in _iter_entries(branch, pointer, offset, end)
        ]
        unshown_count = len(branch) - end
        if unshown_count > 0 and self.url:
            button = _render_button(self._piece_url(pointer, end), "closest li", f"{unshown_count:,} more")
            items.append(format_html("<li>{}</li>", button))
        elif unshown_count > 0:
            items.append(_left_out(f"{unshown_count:,} more, "))
        return SafeString("".join(items))

    def leaf(self, value: Any) -> SafeString:
        """Return a value that has no entries."""
        if isinstance(value, str):
            return format_html('<bdi class="json-string">"{}"</bdi>', visible_text.text_html(value))
        if value is None or isinstance(value, bool):
            return format_html(
                '<span class="json-word">{}</span>', visible_text.text_html(scopes.dumps(value))
            )
        if isinstance(value, int | float):
            return format_html(
                '<span class="json-number">{}</span>', visible_text.text_html(scopes.dumps(value))
            )
        return format_html('<span class="json-note">{}</span>', "{}" if isinstance(value, dict) else "[]")

    def stretch(
        self, text: str, pointer: str, offset: int, form: str = _STRING, quote: str = '"'
    ) -> SafeString:
        """Return a chunk of a long string, with a button that fetches the next."""
        end = offset + TEXT_CHUNK
        unshown_count = len(text) - end
        piece_html = format_html(
            form,
            "" if offset else quote,
            visible_text.text_html(text[offset:end]),
            "" if unshown_count > 0 else quote,
        )
        if unshown_count <= 0:
            return piece_html
        if not self.url:
            return format_html(
                '{} <span class="json-note">{} characters left out</span>', piece_html, f"{unshown_count:,}"
            )
        return format_html(
            "{} {}",
            piece_html,
            _render_button(self._piece_url(pointer, end), "this", f"{unshown_count:,} more characters"),
        )

    def _render_entry(self, piece_html: SafeString, pointer: str) -> SafeString:
        if not self.url:
            return format_html("<li>{}</li>", piece_html)
        return format_html('<li data-pointer="{}">{}</li>', pointer, piece_html)

    def _render_branch(self, branch: Any, pointer: str, label: SafeString) -> SafeString:
        summary = format_html('{}<span class="json-note">{}</span>', label, _render_preview(branch))
        level = pointer.count("/")
        if level < self.depth and (level == 0 or (len(branch) <= self.longest_open and self.left > 0)):
            return _render_details(summary, self.entries(branch, pointer), branch, is_open=True)
        if self.url:
            return self._lazy_node(summary, pointer, branch)
        return _render_details(
            summary, self.entries(branch, pointer) if self.left > 0 else _left_out(), branch
        )

    def _long_text(self, text: str, pointer: str, label: SafeString) -> SafeString:
        summary = format_html(
            '{}<bdi class="json-string">"{}…</bdi> <span class="json-note">{} characters</span>',
            label,
            visible_text.text_html(text[:PREVIEW_LIMIT]),
            f"{len(text):,}",
        )
        if self.url:
            return self._lazy_node(summary, pointer, text)
        return _render_details(summary, format_html("<li>{}</li>", self.stretch(text, pointer, 0)), text)

    def _lazy_node(self, summary: SafeString, pointer: str, value: Any) -> SafeString:
        return format_html(
            '<details hx-get="{}" hx-trigger="toggle once" hx-target="find ul">'
            "<summary>{}</summary>{}</details>",
            self._piece_url(pointer, 0),
            summary,
            _render_list(SafeString(), value),
        )

    def _piece_url(self, pointer: str, offset: int) -> str:
        joint = "&" if "?" in self.url else "?"
        return self.url + joint + urlencode({"pointer": pointer, "offset": offset})


def _render_label(name: str) -> SafeString:
    return format_html('<bdi class="json-key">{}</bdi>', visible_text.name_html(name))


def _render_button(url: str, target: str, label: str) -> SafeString:
    """Return a button that fetches content and replaces `target` with it."""
    return format_html(
        '<button type="button" class="button button-quiet button-small" hx-get="{}"'
        ' hx-target="{}" hx-swap="outerHTML">{}</button>',
        url,
        target,
        label,
    )


def _frame_tree(tree: SafeString, url: str) -> SafeString:
    if not url:
        return format_html('<div class="json">{}</div>', tree)
    return format_html('<div class="json" data-source="{}">{}</div>', url, tree)


def _render_details(
    summary: SafeString, items: SafeString, value: Any, *, is_open: bool = False
) -> SafeString:
    opening = SafeString("<details open>" if is_open else "<details>")
    return format_html("{}<summary>{}</summary>{}</details>", opening, summary, _render_list(items, value))


def _render_list(items: SafeString, value: Any) -> SafeString:
    """Return the entries of a value as a list. Scripts recognize arrays by the class."""
    opening = SafeString('<ul class="json-list">' if isinstance(value, list) else "<ul>")
    return format_html("{}{}</ul>", opening, items)


def _iter_entries(branch: Any, pointer: str, start: int, end: int) -> Iterator[tuple[str, str, Any]]:
    """Yield (name, pointer, value) of an object's or array's entries from `start` up to `end`."""
    items: Iterable[tuple[Any, Any]] = branch.items() if isinstance(branch, dict) else enumerate(branch)
    for name, value in islice(items, start, end):
        yield str(name), f"{pointer}/{escape(str(name))}", value


def _render_preview(branch: Any) -> SafeString:
    """Return a one-line preview of a closed branch: its size and first entries."""
    if isinstance(branch, list):
        size, entries = "[{}]", [_preview_value(value) for value in islice(branch, PREVIEW_ENTRIES)]
    else:
        size = "{{{}}}"
        entries = [
            f"{visible_text.escape_name(name)}: {_preview_value(value)}"
            for name, value in islice(branch.items(), PREVIEW_ENTRIES)
        ]
    preview_text = truncate(", ".join(entries), PREVIEW_LIMIT)
    return format_html(
        '<span class="json-size">{}</span> <bdi>{}</bdi>',
        size.format(f"{len(branch):,}"),
        visible_text.text_html(preview_text),
    )


def _preview_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list):
        return "[…]" if value else "[]"
    return scopes.dumps(value[:PREVIEW_LIMIT] if isinstance(value, str) else value)


def _left_out(what: str = "") -> SafeString:
    return format_html('<li class="json-note">{}left out: too much for one page</li>', what)
