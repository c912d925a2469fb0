"""Render messages of events for timeline rows, with a limit on the HTML of each. Pure.

A text that would need too many tags is shown as plain text, so that a page of rows stays fast.
"""

from __future__ import annotations

import json
import re
from typing import Any

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from sessions_app.presentation import markdown_html, visible_text

MAX_TAGS = 300
"""Most tags in the HTML of one text; a text that needs more is shown as plain text."""

MAX_JSON_LINES = 40

_PLACEHOLDER = re.compile(r'\[Uploaded Artifact: "([^"\n]{1,400})"\]')
"""ADK's placeholder for a file that a user sent (`google/adk/plugins/save_files_as_artifacts_plugin.py`)."""


def render_text(text: str) -> SafeString:
    """Return text with invisible characters as escapes, which are marked unless there are too many."""
    html = visible_text.text_html(text)
    return html if html.count("<") <= MAX_TAGS else escape(visible_text.escape_text(text))


def render_message(text: str) -> SafeString:
    """Return a message as an HTML element: JSON as code, Markdown as prose, anything too complex as text."""
    if code := _indent_json(text):
        return format_html('<pre class="code-block" tabindex="0">{}</pre>', render_text(code))
    html = markdown_html.render_within_limits(text)
    if html is not None and html.count("<") <= MAX_TAGS:
        return format_html('<div class="prose">{}</div>', html)
    return format_html('<p class="message-text">{}</p>', render_text(text))


def uploaded_filenames(text: str) -> list[str]:
    """Return the distinct names of the uploaded files whose placeholders a text contains."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(text)))


def remove_placeholders(text: str) -> str:
    """Return a text without the placeholders of uploaded files, which a row shows as thumbnails and links."""
    return _PLACEHOLDER.sub("", text).strip("\n") if _PLACEHOLDER.search(text) else text


def format_gap(seconds: float) -> str:
    """Return a pause in readable form: 12 min, 2 h, 3 days."""
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:,.0f} days"


class _LossyError(Exception):
    """JSON would lose something if it was parsed and written again."""


def _keep_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _LossyError
    return value


def _keep_number(text: str) -> float:
    if repr(float(text)) != text:
        raise _LossyError
    return float(text)


def _indent_json(text: str) -> str:
    """Return a JSON object or array with indentation; empty for other texts.

    It stays as it is if it has too many lines, repeats a key, or has numbers that would be written differently.
    """
    if text[:1] not in "{[" or text[-1:] not in "}]" or not text:
        return ""
    try:
        json.loads(text)  # a text that only begins like JSON is none
        value = json.loads(text, object_pairs_hook=_keep_pairs, parse_float=_keep_number)
        code = json.dumps(value, ensure_ascii=False, indent=2)
    except _LossyError:
        return text
    except (ValueError, RecursionError):
        return ""
    return code if code.count("\n") < MAX_JSON_LINES else text
