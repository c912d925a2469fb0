"""Render Markdown of agents and users as safe HTML, without embedded markup or images.

No character of a text is lost: backslashes stay, addresses in the text are no markup, and what cannot be opened from
here (`sandbox:`, relative addresses) is named beside its label. Definitions of links that no text uses are shown, as
are cells of a table beyond its columns and the numbers of a list.

Rendering takes milliseconds for any text. Some Markdown rules scan to the end of a paragraph from each character, so a
parse that takes more steps than ordinary prose is aborted, and the text is shown unrendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width
from urllib.parse import unquote, urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString

from sessions_app.presentation import visible_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"),
    *("strong", "em", "s", "span", "code", "pre", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "li": {"value"}, "span": {"class", "title"}}
"""Spans never come from the author: they only mark escapes of invisible characters."""
SCHEMES = {"http", "https", "mailto"}

BASE_STEPS, MAX_STEPS = 500, 5_000
"""Allowed steps (positions at which rules are tried): a base, plus one per four characters, up to a maximum.

Prose takes about one step per twenty characters.
"""

MAX_TOKENS = 6_000
"""Most tokens of a parse; each becomes a tag or a text."""

MAX_CHARACTERS = 60_000
"""Longest text that is rendered as Markdown."""

MAX_ADDRESS_CHARACTERS = 40_000
"""Characters of all addresses together: a reference can repeat an address many times."""


class _TooComplexError(Exception):
    """Rendering the text exceeds the limits."""


class _References(dict[str, dict[str, Any]]):
    """Definitions of links by label.

    Attributes:
        used: the labels that links and images use.
    """

    def __init__(self) -> None:
        super().__init__()
        self.used: set[str] = set()

    def get(self, label: str, default: Any = None) -> Any:
        """Return the definition for a link or image, and remember that it is used."""
        if label in self:
            self.used.add(label)
        return super().get(label, default)


def render_markdown(text: str) -> SafeString:
    """Return Markdown as safe HTML; a text that exceeds the limits unrendered.

    An image becomes a link, because loading it would tell its server who reads the page.
    """
    html = render_within_limits(text)
    return _sanitize(f"<pre>{escape(text)}</pre>") if html is None else html


def render_within_limits(text: str) -> SafeString | None:
    """Return Markdown as safe HTML; None if it exceeds the limits."""
    try:
        return _sanitize(_render_unsafe(text))
    except _TooComplexError:
        return None


def _sanitize(html: str) -> SafeString:
    return SafeString(
        nh3.clean(
            visible_text.escape_in_html(html),
            tags=TAGS,
            attributes=ATTRIBUTES,
            set_tag_attribute_values={
                "pre": {"tabindex": "0"}
            },  # so that the keyboard reaches and scrolls it
            url_schemes=SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


def _render_unsafe(text: str) -> str:
    """Return Markdown as HTML that is not yet sanitized.

    Raises:
        _TooComplexError: the text exceeds the limits.
    """
    if len(text) > MAX_CHARACTERS:
        raise _TooComplexError
    env: dict[str, Any] = {
        "steps": min(MAX_STEPS, BASE_STEPS + len(text) // 4),
        "references": _References(),
    }
    parser = _make_parser()
    tokens = parser.parse(text, env)
    all_tokens = list(_iter_tokens(tokens))
    addresses = sum(len(str(value)) for token in all_tokens for value in token.attrs.values())
    if len(all_tokens) > MAX_TOKENS or addresses > MAX_ADDRESS_CHARACTERS:
        raise _TooComplexError
    return str(parser.renderer.render(tokens, parser.options, env))


def _iter_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _count_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    _count_step(state.env)
    if len(state.tokens) > MAX_TOKENS:
        raise _TooComplexError
    return False


def _count_inline(state: StateInline, silent: bool) -> bool:
    _count_step(state.env)
    return False


def _count_step(env: MutableMapping[str, Any]) -> None:
    """Count a step; abort if there are too many."""
    env["steps"] -= 1
    if env["steps"] < 0:
        raise _TooComplexError


def _image_as_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    label = renderer.renderInlineAsText(token.children or [], options, env)
    if not _can_be_opened(source):
        return f"{escape(label)}{_named_target(source)}"
    return f'<a href="{escape(source)}">{escape(label or source)}</a>'


def _open_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    target = str(tokens[index].attrs.get("href", ""))
    is_link = _can_be_opened(target)
    env.setdefault("targets", []).append("" if is_link else target)
    return str(renderer.renderToken(tokens, index, options, env)) if is_link else ""


def _close_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    target = env["targets"].pop()
    return _named_target(target) if target else "</a>"


def _show_unused_definition(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """Return a definition of a link as text; empty if a link or image shows it."""
    token, references = tokens[index], env["references"]
    label, target = token.meta["id"], token.meta["url"]
    if label in references.used and references[label]["map"] == token.map:
        return ""
    shown, title = escape(unquote(target)), token.meta["title"]
    link = f'<a href="{escape(target)}">{shown}</a>' if _can_be_opened(target) else shown
    return f"<p>[{escape(token.meta['label'])}]: {link}{f' “{escape(title)}”' if title else ''}</p>\n"


def _can_be_opened(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in SCHEMES and "%" not in parts.netloc  # an escape is in no name of a host


def _named_target(address: str) -> str:
    return f" ({escape(unquote(address))})" if address else ""


def _read_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a table. Cells beyond its columns, such as after a `|` in code, stay in the last cell of their row."""
    from markdown_it.rules_block.table import escapedSplit, getLine, table

    known = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    cells: list[Token] = []
    for token in state.tokens[known:]:
        if token.type == "tr_open":
            cells, line = [], (token.map or [start])[0]
        elif token.type == "inline":
            cells.append(token)
        elif token.type == "tr_close":
            columns = escapedSplit(getLine(state, line).strip())
            first = 1 if columns and not columns[0] else 0
            last = len(columns) - 1 if columns and not columns[-1] else len(columns)
            if last > first + len(cells):
                cells[-1].content = "|".join(columns[first + len(cells) - 1 : last]).strip()
    return True


def _keep_numbers(state: StateCore) -> None:
    """Let items of lists have the numbers of the text, except repetitions of the first (`1.`, `1.`, `1.`)."""
    lists: list[tuple[int, int]] = []  # the first number of each open list, and the next
    for token in state.tokens:
        if token.type == "ordered_list_open":
            number = int(token.attrs.get("start", 1))
            lists.append((number, number))
        elif token.type == "ordered_list_close":
            lists.pop()
        elif token.type == "list_item_open" and token.info:
            first, expected = lists.pop()
            number = int(token.info)
            if number not in (first, expected):
                token.attrs["value"] = expected = number
            lists.append((first, expected + 1))


def _keep_backslashes(state: StateCore) -> None:
    """Show escaped characters with their backslash: it may be that of a path or a formula."""
    for token in _iter_tokens(state.tokens):
        if token.type == "text_special" and token.info == "escape":
            token.content = token.markup


_ADDRESS = re.compile(r"://[^\s<>\[\]`\"]+")


def _take_address(state: StateInline, silent: bool) -> bool:
    """Take an address in the text as text, from its colon on: its `*` and `_` are no markup."""
    if not state.src.startswith("://", state.pos) or not state.src.endswith(("http", "https"), 0, state.pos):
        return False
    match = _ADDRESS.match(state.src, state.pos, state.posMax)
    text = match[0].rstrip("*_~.,:;!?')}") if match else ""
    if not silent:
        state.pending += text
    state.pos += len(text)
    return bool(text)


def _open_beside_wide_characters(state: StateInline) -> None:
    """Let `*` beside Chinese, Japanese or Korean open and close emphasis, whatever punctuation is on its other side.

    CommonMark's rule needs spaces between words, which these scripts lack.
    """
    stars = {mark.token: mark for mark in state.delimiters if mark.marker == ord("*")}
    for _, run in groupby(enumerate(stars), key=lambda pair: pair[1] - pair[0]):
        positions = [position for _, position in run]
        before = state.tokens[positions[0] - 1].content[-1:] if positions[0] else ""
        after = "".join(token.content for token in state.tokens[positions[-1] + 1 : positions[-1] + 2])[:1]
        if any(char and east_asian_width(char) in "WF" for char in (before, after)):
            for position in positions:
                stars[position].open = stars[position].open or bool(after.strip())
                stars[position].close = stars[position].close or bool(before.strip())


_ALTERNATIVES = ["paragraph", "reference", "blockquote", "list"]
"""Blocks that the rule `count`, which limits the parser's work, may interrupt."""


@cache
def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # not needed by the first page

    options = {"html": False, "breaks": True, "inline_definitions": True}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image_as_link)
    parser.add_render_rule("link_open", _open_link)
    parser.add_render_rule("link_close", _close_link)
    parser.add_render_rule("definition", _show_unused_definition)
    parser.core.ruler.after("block", "numbers", _keep_numbers)
    parser.core.ruler.before("text_join", "backslashes", _keep_backslashes)
    parser.block.ruler.at("table", _read_table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.before("table", "count", _count_block, {"alt": _ALTERNATIVES})
    parser.inline.ruler.before("text", "count", _count_inline)
    parser.inline.ruler.after("count", "address", _take_address)
    parser.inline.ruler2.before("balance_pairs", "wide", _open_beside_wide_characters)
    return parser
