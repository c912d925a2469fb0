"""Previews of files as image, text, JSON tree, table or HTML page, by their first bytes, name and claimed type. Pure.

Only the start of a file is read, so files of any length cost the same.
"""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sessions_app.presentation import file_type, raw_audio
from sessions_app.store.text_input import decode_start

PREVIEW_BYTES = 1_000_000
"""Bytes that are read. Longer JSON is shown as text."""

MAX_TEXT = 100_000
"""Characters of a text that are shown."""

TABLE_ROWS, TABLE_COLUMNS, CELL = 200, 40, 300
"""Rows and columns of a table that are shown, and characters of a cell."""

_SUFFIXES = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "json": "application/json",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "html": "text/html",
    "htm": "text/html",
}


class PreviewKind(StrEnum):
    """The kind of a preview."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    TABLE = "table"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    PDF = "pdf"
    HTML = "html"
    EMPTY = "empty"
    BINARY = "binary"

    @property
    def label(self) -> str:
        """Return the kind as a page names it inside of a sentence."""
        return self.upper() if self in {PreviewKind.JSON, PreviewKind.HTML} else self.value

    @property
    def is_text(self) -> bool:
        """Tell whether two versions of this kind can be compared line by line."""
        return self in _TEXT_KINDS


_TEXT_KINDS = {
    PreviewKind.TEXT,
    PreviewKind.MARKDOWN,
    PreviewKind.JSON,
    PreviewKind.TABLE,
    PreviewKind.HTML,
}


@dataclass(frozen=True, slots=True)
class PreviewTable:
    """The first rows and columns of a table."""

    head: list[str]
    rows: list[list[str]]
    has_more_rows: bool
    hidden_columns: int


@dataclass(frozen=True, slots=True)
class Preview:
    """The preview of a file.

    Attributes:
        text: the start of a text of any kind.
        is_cut: the file is longer than `text`.
        value: the value of JSON.
        table: the start of a table.
    """

    kind: PreviewKind
    mime: str
    text: str = ""
    is_cut: bool = False
    value: Any = None
    table: PreviewTable | None = None


def make_preview(start: bytes, size: int, name: str, claimed: str, *, as_text: bool = False) -> Preview:
    """Return the preview of a file.

    Args:
        start: its first bytes, at most `PREVIEW_BYTES`.
        size: its size in bytes.
        name: its name; the suffix tells the type of a text.
        claimed: the media type that it was saved with.
        as_text: show the source, whatever the type.
    """
    if not size:
        return Preview(PreviewKind.EMPTY, claimed)
    mime = "audio/wav" if raw_audio.is_raw_audio(claimed) else file_type.sniff(start)
    if not as_text and mime != file_type.TEXT:
        return Preview(_binary_kind(mime), mime)
    text = decode_start(start)
    preview_text, is_cut = text[:MAX_TEXT], size > len(start) or len(text) > MAX_TEXT
    plain = Preview(PreviewKind.TEXT, mime, preview_text, is_cut)
    if as_text:
        return plain
    return _preview_structured(text, size > len(start), _claimed_text_type(name, claimed), plain) or plain


def text_mime_type(name: str, claimed: str) -> str:
    """Return the media type of a text: the claimed one, else that of the name's suffix."""
    mime = _claimed_text_type(name, claimed)
    return mime if mime.startswith(("text/", "application/")) else "text/plain"


def _binary_kind(mime: str) -> PreviewKind:
    if mime == file_type.PDF:
        return PreviewKind.PDF
    family = file_type.media_family(mime)
    return PreviewKind(family) if family else PreviewKind.BINARY


def _claimed_text_type(name: str, claimed: str) -> str:
    claimed = claimed.partition(";")[0].strip().lower()
    if claimed in {"", "text/plain", file_type.BINARY}:
        return _SUFFIXES.get(name.rpartition(".")[2].lower(), claimed or "text/plain")
    return claimed


def _preview_structured(text: str, goes_on: bool, mime: str, plain: Preview) -> Preview | None:
    """Return the preview of a structured text; None if it does not match its type."""
    if mime == "text/markdown":
        return replace(plain, kind=PreviewKind.MARKDOWN)
    if mime == "text/html":
        return replace(plain, kind=PreviewKind.HTML)
    if mime in {"text/csv", "text/tab-separated-values"}:
        table = _parse_table(text, goes_on, "\t" if "tab" in mime else "")
        return replace(plain, kind=PreviewKind.TABLE, table=table) if table else None
    if mime == "application/json" or mime.endswith("+json") or text.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            return None if goes_on else replace(plain, kind=PreviewKind.JSON, value=json.loads(text))
    return None


def _parse_table(text: str, goes_on: bool, delimiter: str) -> PreviewTable | None:
    """Return the start of a table; None if the text is not a table."""
    first = text.partition("\n")[0]
    delimiter = delimiter or max(",;\t", key=first.count)
    table_rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            table_rows.append(row)
            if len(table_rows) > TABLE_ROWS + 1:
                break
    except csv.Error:
        return None
    more = len(table_rows) > TABLE_ROWS + 1 or goes_on
    if more and len(table_rows) > 1:
        table_rows.pop()
    width = max(map(len, table_rows), default=0)
    cells = [[_truncate_cell(cell) for cell in row[:TABLE_COLUMNS]] for row in table_rows]
    return PreviewTable(cells[0], cells[1:], more, max(0, width - TABLE_COLUMNS)) if width else None


def _truncate_cell(cell: str) -> str:
    return cell if len(cell) <= CELL else f"{cell[:CELL]}…"
