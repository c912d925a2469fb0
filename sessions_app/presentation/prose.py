"""Markdown written by agents and users, as HTML that can do nothing: no markup of its own, no images."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from sessions_app.presentation import visible

TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"),
    *("strong", "em", "s", "span", "code", "pre", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "span": {"class", "title"}}
"""A span is never the author's: Markdown has none, and it marks the escape of a character that nobody sees."""
SCHEMES = {"http", "https", "mailto"}


def markdown(text: str) -> SafeString:
    """Return Markdown as safe HTML. An image becomes a link: loading it would tell a stranger who reads."""
    html = visible.in_html(_parser.render(text))
    return SafeString(
        nh3.clean(
            html,
            tags=TAGS,
            attributes=ATTRIBUTES,
            url_schemes=SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


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
    return parser


_parser = _build()
