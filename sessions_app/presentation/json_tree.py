"""Render a JSON value as a collapsible HTML tree, in parts that are loaded on demand.

A tree shows at most `BUDGET` values at once. With a URL, closed branches, long strings and the rest of long lists are
fetched from it on demand, by `?pointer=` (RFC 6901), `?offset=` and `?until=`. Without a URL, a note says what was left
out. Search matches are marked, and `render_at` opens the tree along the path to a hit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app import scopes
from sessions_app.errors import NotFound
from sessions_app.presentation import highlighting, visible_text
from sessions_app.presentation.json_pointer import escape, unescape
from sessions_app.presentation.json_search import JsonHit

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
"""Depth of a fully opened tree, and the levels above a hit at which `render_at` starts."""

HIT_CONTEXT = 6
"""Entries that `render_at` shows before and after those on the path to the hit."""


def render(
    value: Any, *, url: str = "", depth: int = 2, pattern: re.Pattern[str] | None = None
) -> SafeString:
    """Return a JSON value as HTML; objects and arrays down to `depth` start open.

    Args:
        value: any JSON value.
        url: serves the parts that are not rendered at first.
        depth: number of levels that start open.
        pattern: marked in keys and values.
    """
    return _frame(_TreeRenderer(url, depth, pattern).value(value, "", SafeString()), url)


def render_all(value: Any, *, url: str = "", pattern: re.Pattern[str] | None = None) -> SafeString:
    """Return a JSON value with all branches open, up to `ALL_BUDGET` values and `ALL_DEPTH` levels."""
    tree = _TreeRenderer(url, ALL_DEPTH, pattern, budget=ALL_BUDGET)
    return _frame(tree.value(value, "", SafeString()), url)


def render_at(value: Any, hit: JsonHit, *, url: str, pattern: re.Pattern[str]) -> SafeString:
    """Return a JSON value opened along the path to a hit, which is marked as the current one.

    For a hit deeper than `ALL_DEPTH` the tree starts that many levels above it.

    Raises:
        NotFound: the value has nothing at the hit's pointer.
    """
    names = hit.pointer.split("/")[1:]
    start = "".join(f"/{name}" for name in names[: max(0, len(names) - ALL_DEPTH)])
    tree = _TreeRenderer(url, 0, pattern, current=hit)
    return _frame(tree.towards(resolve_pointer(value, start), start, names[start.count("/") :]), url, start)


def render_piece(
    value: Any,
    pointer: str,
    *,
    offset: int = 0,
    until: int | None = None,
    url: str = "",
    pattern: re.Pattern[str] | None = None,
) -> SafeString:
    """Return the content of a closed branch or string at `pointer`, from the entry or character `offset` on.

    A branch is returned as list items, up to the entry `until`; a string as a list item, or with an offset as the next
    chunk.

    Raises:
        NotFound: the value has nothing at `pointer`.
    """
    branch = resolve_pointer(value, pointer)
    tree = _TreeRenderer(url, pointer.count("/") + 1, pattern)
    if isinstance(branch, dict | list):
        return tree.entries(branch, pointer, offset, until)
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

    def __init__(
        self,
        url: str,
        depth: int,
        pattern: re.Pattern[str] | None = None,
        *,
        budget: int = BUDGET,
        current: JsonHit | None = None,
    ) -> None:
        self.url = url
        self.depth = depth
        self.pattern = pattern
        self.left = budget
        self.longest_open = OPEN_ENTRIES if budget == BUDGET else sys.maxsize
        self.current = current

    def value(self, value: Any, pointer: str, label: SafeString) -> SafeString:
        """Return the value at `pointer`, after its label."""
        self.left -= 1
        if isinstance(value, dict | list) and value:
            return self._branch(value, pointer, label)
        if isinstance(value, str) and len(value) > TEXT_LIMIT:
            return self._long_text(value, pointer, label)
        return format_html("{}{}", label, self.leaf(value))

    def entries(self, branch: Any, pointer: str, offset: int = 0, until: int | None = None) -> SafeString:
        """Return a page of an object's or array's entries as list items, up to but without the entry `until`."""
        if until is None:
            return self._items(branch, pointer, offset, offset + PAGE, has_earlier=False)
        return self._items(branch, pointer, offset, until, has_later=False)

    def towards(self, value: Any, pointer: str, names: list[str]) -> SafeString:
        """Return a value opened along the path to the current hit, built from the inside out."""
        steps = []
        for name in names:
            steps.append((value, pointer))
            value, pointer = resolve_pointer(value, f"/{name}"), f"{pointer}/{name}"
        label = self.label(unescape(names[-1])) if names else SafeString()
        shown = self.value(value, pointer, label)
        for branch, place in reversed(steps):
            inner = self._around(branch, place, pointer, shown)
            shown = _render_details(self._summary(branch, self._label_at(place)), inner, branch, is_open=True)
            pointer = place
        return shown

    def leaf(self, value: Any) -> SafeString:
        """Return a value that has no entries."""
        if isinstance(value, str):
            return format_html('<bdi class="json-string">"{}"</bdi>', self._marked(value))
        if value is None or isinstance(value, bool):
            return format_html('<span class="json-word">{}</span>', self._marked(scopes.dumps(value)))
        if isinstance(value, int | float):
            return format_html('<span class="json-number">{}</span>', self._marked(scopes.dumps(value)))
        return format_html('<span class="json-note">{}</span>', "{}" if isinstance(value, dict) else "[]")

    def stretch(
        self, text: str, pointer: str, offset: int, form: str = _STRING, quote: str = '"'
    ) -> SafeString:
        """Return a chunk of a long string, with a button that fetches the next."""
        end = offset + TEXT_CHUNK
        rest = len(text) - end
        shown = format_html(
            form,
            "" if offset else quote,
            self._marked(text[offset:end]),
            "" if rest > 0 else quote,
        )
        if rest <= 0:
            return shown
        if not self.url:
            return format_html('{} <span class="json-note">{} characters left out</span>', shown, f"{rest:,}")
        return format_html(
            "{} {}", shown, _button(self._piece(pointer, end), "this", f"{rest:,} more characters")
        )

    def label(self, name: str) -> SafeString:
        """Return the name of an entry."""
        html = (
            highlighting.highlight_name(name, self.pattern) if self.pattern else visible_text.name_html(name)
        )
        return format_html('<bdi class="json-key">{}</bdi>', html)

    def _label_at(self, pointer: str) -> SafeString:
        return self.label(unescape(pointer.rpartition("/")[2])) if pointer else SafeString()

    def _entry(self, shown: SafeString, pointer: str) -> SafeString:
        if not self.url:
            return format_html("<li>{}</li>", shown)
        if self.current and pointer == self.current.pointer:
            return format_html('<li id="json-hit" class="json-hit" data-pointer="{}">{}</li>', pointer, shown)
        return format_html('<li data-pointer="{}">{}</li>', pointer, shown)

    def _around(self, branch: Any, pointer: str, child: str, shown: SafeString) -> SafeString:
        """Return the entries around the pointer `child` as list items, `child` itself as `shown`."""
        name = unescape(child.rpartition("/")[2])
        at = int(name) if isinstance(branch, list) else list(branch).index(name)
        return self._items(branch, pointer, max(0, at - HIT_CONTEXT), at + 1 + HIT_CONTEXT, {child: shown})

    def _items(
        self,
        branch: Any,
        pointer: str,
        start: int,
        end: int,
        rendered: Mapping[str, SafeString] = MappingProxyType({}),
        *,
        has_earlier: bool = True,
        has_later: bool = True,
    ) -> SafeString:
        """Return entries as list items, and buttons for the entries that are not shown. `rendered`: HTML by pointer."""
        items = [self._more(pointer, start, "earlier")] if start and has_earlier else []
        for name, place, value in _iter_entries(branch, pointer, start, end):
            shown = rendered.get(place) or self.value(value, place, self.label(name))
            items.append(self._entry(shown, place))
        rest = len(branch) - end
        if rest > 0 and has_later:
            items.append(self._more(pointer, end, "more", rest))
        return SafeString("".join(items))

    def _summary(self, branch: Any, label: SafeString) -> SafeString:
        return format_html('{}<span class="json-note">{}</span>', label, _preview(branch))

    def _branch(self, branch: Any, pointer: str, label: SafeString) -> SafeString:
        summary = self._summary(branch, label)
        level = pointer.count("/")
        if level < self.depth and (level == 0 or (len(branch) <= self.longest_open and self.left > 0)):
            return _render_details(summary, self.entries(branch, pointer), branch, is_open=True)
        if self.url:
            return self._fetched(summary, pointer, branch)
        return _render_details(
            summary, self.entries(branch, pointer) if self.left > 0 else _left_out(), branch
        )

    def _long_text(self, text: str, pointer: str, label: SafeString) -> SafeString:
        summary = format_html(
            '{}<bdi class="json-string">"{}…</bdi> <span class="json-note">{} characters</span>',
            label,
            highlighting.highlight_excerpt(text, PREVIEW_LIMIT, self.pattern),
            f"{len(text):,}",
        )
        if self.url:
            return self._fetched(summary, pointer, text)
        return _render_details(summary, format_html("<li>{}</li>", self.stretch(text, pointer, 0)), text)

    def _marked(self, text: str) -> SafeString:
        return (
            highlighting.highlight_text(text, self.pattern) if self.pattern else visible_text.text_html(text)
        )

    def _fetched(self, summary: SafeString, pointer: str, value: Any) -> SafeString:
        return format_html(
            '<details hx-get="{}" hx-trigger="toggle once" hx-target="find ul">'
            "<summary>{}</summary>{}</details>",
            self._piece(pointer, 0),
            summary,
            _render_list(SafeString(), value),
        )

    def _more(self, pointer: str, at: int, which: str, number: int | None = None) -> SafeString:
        """Return a button that fetches the entries from `at` on, or the `earlier` ones before it."""
        number = at if number is None else number
        if not self.url:
            return _left_out(f"{number:,} {which}, ")
        earlier = which == "earlier"
        url = self._piece(pointer, max(0, at - PAGE), until=at) if earlier else self._piece(pointer, at)
        return format_html("<li>{}</li>", _button(url, "closest li", f"{number:,} {which}"))

    def _piece(self, pointer: str, offset: int, **more: int) -> str:
        joint = "&" if "?" in self.url else "?"
        return self.url + joint + urlencode({"pointer": pointer, "offset": offset, **more})


def _button(url: str, target: str, label: str) -> SafeString:
    """Return a button that fetches content and replaces `target` with it."""
    return format_html(
        '<button type="button" class="button button-quiet button-small" hx-get="{}"'
        ' hx-target="{}" hx-swap="outerHTML">{}</button>',
        url,
        target,
        label,
    )


def _frame(tree: SafeString, url: str, start: str = "") -> SafeString:
    """Return a complete tree; `start` is the pointer of its first branch, if that is not the whole value."""
    above = (
        format_html('<p class="json-note">inside <bdi>{}</bdi></p>', visible_text.name_html(start))
        if start
        else ""
    )
    if not url:
        return format_html('<div class="json">{}{}</div>', above, tree)
    return format_html('<div class="json" data-source="{}">{}{}</div>', url, above, tree)


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


def _preview(branch: Any) -> SafeString:
    """Return a one-line preview of a closed branch: its size and first entries."""
    if isinstance(branch, list):
        size, entries = "[{}]", [_preview_value(value) for value in islice(branch, PREVIEW_ENTRIES)]
    else:
        size = "{{{}}}"
        entries = [
            f"{visible_text.escape_name(name)}: {_preview_value(value)}"
            for name, value in islice(branch.items(), PREVIEW_ENTRIES)
        ]
    text = ", ".join(entries)
    shown = text if len(text) <= PREVIEW_LIMIT else text[: PREVIEW_LIMIT - 1] + "…"
    return format_html(
        '<span class="json-size">{}</span> <bdi>{}</bdi>',
        size.format(f"{len(branch):,}"),
        visible_text.text_html(shown),
    )


def _preview_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list):
        return "[…]" if value else "[]"
    return scopes.dumps(value[:PREVIEW_LIMIT] if isinstance(value, str) else value)


def _left_out(what: str = "") -> SafeString:
    return format_html('<li class="json-note">{}left out: too much for one page</li>', what)
