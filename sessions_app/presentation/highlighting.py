"""Mark search matches in text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.presentation import visible_text

MAX_MARKS = 200
"""Most marks in one text; later matches stay unmarked."""

LEAD_CHARACTERS = 24
"""Characters before the first match in an excerpt."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a case-insensitive pattern for a text."""
    return re.compile(re.escape(text), re.IGNORECASE)


def highlight_text(text: str, pattern: re.Pattern[str]) -> SafeString:
    """Return text as HTML with its matches marked."""
    return _highlight(text, pattern, visible_text.text_html)


def highlight_name(name: str, pattern: re.Pattern[str]) -> SafeString:
    """Return a name as HTML with its matches marked."""
    return _highlight(name, pattern, visible_text.name_html)


def highlight_excerpt(text: str, length: int, pattern: re.Pattern[str] | None = None) -> SafeString:
    """Return the start of a text, or an excerpt with its first match marked."""
    match = pattern.search(text) if pattern else None
    if pattern is None or match is None:
        return visible_text.text_html(text[:length])
    start = max(0, match.start() - LEAD_CHARACTERS) if match.end() > length else 0
    shown = highlight_text(text[start : start + length], pattern)
    return format_html("…{}", shown) if start else shown


def _highlight(text: str, pattern: re.Pattern[str], shown: Callable[[str], SafeString]) -> SafeString:
    pieces: list[str] = []
    end = 0
    for number, match in enumerate(pattern.finditer(text)):
        if number == MAX_MARKS:
            break
        pieces += [shown(text[end : match.start()]), format_html("<mark>{}</mark>", shown(match[0]))]
        end = match.end()
    return SafeString("".join([*pieces, shown(text[end:])]))
