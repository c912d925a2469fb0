"""Markdown written by agents and users, as HTML that can do nothing: no markup of its own, no images.

Whatever a text holds, it costs milliseconds. Markdown's rules look ahead, some of them to the end of a paragraph from
each of its characters, so a parse that takes more steps than prose does is given up, and the text shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from sessions_app.presentation import visible_text

TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"),
    *("strong", "em", "s", "span", "code", "pre", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "span": {"class", "title"}}
"""A span is never the author's: Markdown has none, and it marks the escape of a character that nobody sees."""
SCHEMES = {"http", "https", "mailto"}

FEW_STEPS, MOST_STEPS = 500, 5_000
"""Steps of one parse, places at which its rules are tried: so many, and one for every four characters, up to a bound.

Prose takes one for some twenty characters.
"""

MOST_TOKENS = 6_000
"""Pieces that a parse may find; each becomes a tag or a text."""

LONGEST = 60_000
"""Characters of a text that is read as Markdown."""

MOST_ADDRESSES = 40_000
"""Characters of all addresses: a reference names its address once and may be used many times."""


class _TooRichError(Exception):
    """A text takes more work than prose does."""


def markdown(text: str) -> SafeString:
    """Return Markdown as safe HTML, text as it is when it is too rich for that.

    An image becomes a link: loading it would tell a stranger who reads.
    """
    html = rich(text)
    return _clean(f"<pre>{escape(text)}</pre>") if html is None else html


def rich(text: str) -> SafeString | None:
    """Return Markdown as safe HTML, None when that takes more work than prose does."""
    try:
        return _clean(_rendered(text))
    except _TooRichError:
        return None


def _clean(html: str) -> SafeString:
    return SafeString(
        nh3.clean(
            visible_text.in_html(html),
            tags=TAGS,
            attributes=ATTRIBUTES,
            url_schemes=SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


def _rendered(text: str) -> str:
    """Return Markdown as HTML that is not yet safe.

    Raises:
        _TooRichError: it takes more work than prose does.
    """
    if len(text) > LONGEST:
        raise _TooRichError
    env: dict[str, Any] = {"steps": min(MOST_STEPS, FEW_STEPS + len(text) // 4)}
    tokens = _parser.parse(text, env)
    every = list(_all(tokens))
    addresses = sum(len(str(value)) for token in every for value in token.attrs.values())
    if len(every) > MOST_TOKENS or addresses > MOST_ADDRESSES:
        raise _TooRichError
    return str(_parser.renderer.render(tokens, _parser.options, env))


def _all(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _count_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    _count(state.env)
    if len(state.tokens) > MOST_TOKENS:
        raise _TooRichError
    return False


def _count_inline(state: StateInline, silent: bool) -> bool:
    _count(state.env)
    return False


def _count(env: MutableMapping[str, Any]) -> None:
    """Take note of a step, and give up when there are too many."""
    env["steps"] -= 1
    if env["steps"] < 0:
        raise _TooRichError


def _image_as_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    label = renderer.renderInlineAsText(token.children or [], options, env) or source
    if urlsplit(source).scheme not in SCHEMES:
        return escape(label)
    return f'<a href="{escape(source)}">{escape(label)}</a>'


def _build() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image_as_link)
    parser.block.ruler.before("table", "count", _count_block, {"alt": _ALTERNATIVES})
    parser.inline.ruler.before("text", "count", _count_inline)
    return parser


_ALTERNATIVES = ["paragraph", "reference", "blockquote", "list"]
"""Blocks whose ends are looked for line by line, by the rules that may begin there."""

_parser = _build()
