"""A JSON value as a tree that opens and closes, rendered on the server and piece by piece.

A tree shows at most `BUDGET` values at once. When the caller gives a URL, closed branches, long strings and
the rest of long lists are fetched from it when they are asked for, by `?pointer=` (RFC 6901) and `?offset=`;
without one, what does not fit is said to be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app import state
from sessions_app.errors import NotFound
from sessions_app.presentation import visible

BUDGET = 400
"""Most values in one answer."""

PAGE = 100
"""Most entries of one object or array in one answer."""

OPEN_ENTRIES = 12
"""An object or array longer than this starts closed."""

TEXT_LIMIT = 1200
"""A longer string starts closed."""

PREVIEW_LIMIT = 80
"""Characters of a closed branch or string that are shown."""

PREVIEW_ENTRIES = 8


def render(value: Any, *, url: str = "", depth: int = 2) -> SafeString:
    """Return a JSON value as HTML; objects and arrays down to `depth` start open. `url` serves pieces."""
    return format_html('<div class="json">{}</div>', _Tree(url, depth).value(value, "", SafeString()))


def render_piece(value: Any, pointer: str, *, offset: int = 0, url: str = "") -> SafeString:
    """Return what a closed branch at `pointer` holds as list items, from the entry `offset` on.

    Raises:
        NotFound: the value has nothing at `pointer`.
    """
    branch = resolve(value, pointer)
    tree = _Tree(url, depth=pointer.count("/") + 1)
    if isinstance(branch, dict | list):
        return tree.entries(branch, pointer, offset)
    return format_html("<li>{}</li>", _leaf(branch))


def resolve(value: Any, pointer: str) -> Any:
    """Return what an RFC 6901 pointer names.

    Raises:
        NotFound: the value has nothing there.
    """
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise NotFound(f"The value has nothing at {pointer!r}.", hint="Reload the page.") from error
    return value


class _Tree:
    """One rendering: counts the values it has put out."""

    def __init__(self, url: str, depth: int) -> None:
        self.url = url
        self.depth = depth
        self.left = BUDGET

    def value(self, value: Any, pointer: str, label: SafeString) -> SafeString:
        """Return a value at `pointer`, behind the name it has there."""
        self.left -= 1
        if isinstance(value, dict | list) and value:
            return self._branch(value, pointer, label)
        if isinstance(value, str) and len(value) > TEXT_LIMIT:
            return self._long_text(value, pointer, label)
        return format_html("{}{}", label, _leaf(value))

    def entries(self, branch: Any, pointer: str, offset: int = 0) -> SafeString:
        """Return a page of the entries of an object or array as list items."""
        items = list(islice(_entries(branch), offset, offset + PAGE))
        shown = [
            format_html("<li>{}</li>", self.value(value, f"{pointer}/{_escape(name)}", label))
            for name, label, value in items
        ]
        rest = len(branch) - offset - len(items)
        if rest > 0:
            shown.append(self._more(pointer, offset + PAGE, rest))
        return SafeString("".join(shown))

    def _branch(self, branch: Any, pointer: str, label: SafeString) -> SafeString:
        summary = format_html('{}<span class="json-note">{}</span>', label, _preview(branch))
        level = pointer.count("/")
        if level < self.depth and (level == 0 or (len(branch) <= OPEN_ENTRIES and self.left > 0)):
            return _details(summary, self.entries(branch, pointer), is_open=True)
        if self.url:
            return self._fetched(summary, pointer)
        return _details(summary, self.entries(branch, pointer) if self.left > 0 else _left_out())

    def _long_text(self, text: str, pointer: str, label: SafeString) -> SafeString:
        summary = format_html(
            '{}<bdi class="json-string">"{}…</bdi> <span class="json-note">{} characters</span>',
            label,
            visible.text_html(text[:PREVIEW_LIMIT]),
            f"{len(text):,}",
        )
        if self.url:
            return self._fetched(summary, pointer)
        return _details(summary, format_html("<li>{}</li>", _whole(text)))

    def _fetched(self, summary: SafeString, pointer: str) -> SafeString:
        return format_html(
            '<details hx-get="{}" hx-trigger="toggle once" hx-target="find ul">'
            "<summary>{}</summary><ul></ul></details>",
            self._piece(pointer, 0),
            summary,
        )

    def _more(self, pointer: str, offset: int, rest: int) -> SafeString:
        if not self.url:
            return _left_out(f"{rest:,} more, ")
        return format_html(
            '<li><button type="button" class="button button-quiet button-small" hx-get="{}"'
            ' hx-target="closest li" hx-swap="outerHTML">{} more</button></li>',
            self._piece(pointer, offset),
            f"{rest:,}",
        )

    def _piece(self, pointer: str, offset: int) -> str:
        joint = "&" if "?" in self.url else "?"
        return self.url + joint + urlencode({"pointer": pointer, "offset": offset})


def _details(summary: SafeString, items: SafeString, *, is_open: bool = False) -> SafeString:
    opening = SafeString("<details open>" if is_open else "<details>")
    return format_html("{}<summary>{}</summary><ul>{}</ul></details>", opening, summary, items)


def _entries(branch: Any) -> Iterator[tuple[str, SafeString, Any]]:
    """Yield (name, label, value) of an object's or array's entries."""
    items: Iterable[tuple[Any, Any]] = branch.items() if isinstance(branch, dict) else enumerate(branch)
    for name, value in items:
        yield str(name), _key(str(name)), value


def _key(name: str) -> SafeString:
    return format_html('<bdi class="json-key">{}</bdi>', visible.name_html(name))


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _leaf(value: Any) -> SafeString:
    if isinstance(value, str):
        return _whole(value)
    if value is None or isinstance(value, bool):
        return format_html('<span class="json-word">{}</span>', state.dumps(value))
    if isinstance(value, int | float):
        return format_html('<span class="json-number">{}</span>', state.dumps(value))
    return format_html('<span class="json-note">{}</span>', "{}" if isinstance(value, dict) else "[]")


def _whole(text: str) -> SafeString:
    return format_html('<bdi class="json-string">"{}"</bdi>', visible.text_html(text))


def _preview(branch: Any) -> SafeString:
    """Return what a closed branch holds: its size and its first entries, on one line."""
    if isinstance(branch, list):
        size, entries = "[{}]", [_short(value) for value in islice(branch, PREVIEW_ENTRIES)]
    else:
        size = "{{{}}}"
        entries = [
            f"{visible.name(name)}: {_short(value)}"
            for name, value in islice(branch.items(), PREVIEW_ENTRIES)
        ]
    text = ", ".join(entries)
    shown = text if len(text) <= PREVIEW_LIMIT else text[: PREVIEW_LIMIT - 1] + "…"
    return format_html(
        '<span class="json-size">{}</span> <bdi>{}</bdi>',
        size.format(f"{len(branch):,}"),
        visible.text_html(shown),
    )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list):
        return "[…]" if value else "[]"
    return state.dumps(value[:PREVIEW_LIMIT] if isinstance(value, str) else value)


def _left_out(what: str = "") -> SafeString:
    return format_html('<li class="json-note">{}left out: too much for one page</li>', what)
