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

BASE_STEPS, MAX_STEPS = 500, 5_000
"""Steps of one parse, places at which its rules are tried: so many, and one for every four characters, up to a bound.

Prose takes one for some twenty characters.
"""

MAX_TOKENS = 6_000
"""Pieces that a parse may find; each becomes a tag or a text."""

MAX_CHARACTERS = 60_000
"""Characters of a text that is read as Markdown."""

MAX_ADDRESS_CHARACTERS = 40_000
"""Characters of all addresses: a reference names its address once and may be used many times."""


class _TooComplexError(Exception):
    """A text takes more work than prose does."""


def render_markdown(text: str) -> SafeString:
    """Return Markdown as safe HTML, text as it is when it is too rich for that.

    An image becomes a link: loading it would tell a stranger who reads.
    """
    html = render_within_limits(text)
    return _clean(f"<pre>{escape(text)}</pre>") if html is None else html


def render_within_limits(text: str) -> SafeString | None:
    """Return Markdown as safe HTML, None when that takes more work than prose does."""
    try:
        return _clean(_render_unsafe(text))
    except _TooComplexError:
        return None


def _clean(html: str) -> SafeString:
    return SafeString(
        nh3.clean(
            visible_text.escape_in_html(html),
            tags=TAGS,
            attributes=ATTRIBUTES,
            url_schemes=SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


def _render_unsafe(text: str) -> str:
    """Return Markdown as HTML that is not yet safe.

    Raises:
        _TooRichError: it takes more work than prose does.
    """
    if len(text) > MAX_CHARACTERS:
        raise _TooComplexError
    env: dict[str, Any] = {"steps": min(MAX_STEPS, BASE_STEPS + len(text) // 4)}
    tokens = _parser.parse(text, env)
    every = list(_iter_tokens(tokens))
    addresses = sum(len(str(value)) for token in every for value in token.attrs.values())
    if len(every) > MAX_TOKENS or addresses > MAX_ADDRESS_CHARACTERS:
        raise _TooComplexError
    return str(_parser.renderer.render(tokens, _parser.options, env))


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
    """Take note of a step, and give up when there are too many."""
    env["steps"] -= 1
    if env["steps"] < 0:
        raise _TooComplexError


def _image_as_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    label = renderer.renderInlineAsText(token.children or [], options, env) or source
    if urlsplit(source).scheme not in SCHEMES:
        return escape(label)
    return f'<a href="{escape(source)}">{escape(label)}</a>'


def _build_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image_as_link)
    parser.block.ruler.before("table", "count", _count_block, {"alt": _ALTERNATIVES})
    parser.inline.ruler.before("text", "count", _count_inline)
    return parser


_ALTERNATIVES = ["paragraph", "reference", "blockquote", "list"]
"""Blocks whose ends are looked for line by line, by the rules that may begin there."""

_parser = _build_parser()
