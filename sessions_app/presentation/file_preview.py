"""What a file is shown as: a picture, a text, a tree, a table. Told by its first bytes, its name and its claim. Pure.

Only a beginning is looked at, so a file of any length costs the same.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sessions_app.presentation import file_type

PREVIEW_BYTES = 1_000_000
"""Bytes that are looked at. Longer JSON is shown as text."""

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
}


class PreviewKind(StrEnum):
    """How a file is shown."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    TABLE = "table"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    PDF = "pdf"
    EMPTY = "empty"
    BINARY = "binary"

    @property
    def is_text(self) -> bool:
        """Tell whether two versions of this kind can be compared line by line."""
        return self in _TEXT_KINDS


_TEXT_KINDS = {PreviewKind.TEXT, PreviewKind.MARKDOWN, PreviewKind.JSON, PreviewKind.TABLE}


@dataclass(frozen=True, slots=True)
class PreviewTable:
    """The beginning of a table: its head, its rows, and what stands beyond."""

    head: list[str]
    rows: list[list[str]]
    has_more_rows: bool
    hidden_columns: int


@dataclass(frozen=True, slots=True)
class Preview:
    """A file as it is shown.

    Attributes:
        text: of a text of any kind, its beginning.
        is_cut: the file goes on behind that.
        value: of JSON, the value.
        table: of a table, its beginning.
    """

    kind: PreviewKind
    mime: str
    text: str = ""
    is_cut: bool = False
    value: Any = None
    table: PreviewTable | None = field(default=None)


def make_preview(start: bytes, size: int, name: str, claimed: str, *, as_text: bool = False) -> Preview:
    """Return how a file is shown.

    Args:
        start: its first bytes, at most `LOOKED_AT`.
        size: how many it has.
        name: its name, whose ending tells of a text what it is.
        claimed: the type that it was saved with.
        as_text: it is text whatever it looks like, and shown as its source.
    """
    if not size:
        return Preview(PreviewKind.EMPTY, claimed)
    mime = file_type.sniff(start)
    if not as_text and mime != file_type.TEXT:
        return Preview(_kind_of_bytes(mime), mime)
    text = start.decode(errors="replace")
    shown, is_cut = text[:MAX_TEXT], size > len(start) or len(text) > MAX_TEXT
    plain = Preview(PreviewKind.TEXT, mime, shown, is_cut)
    if as_text:
        return plain
    return _preview_structured(text, size > len(start), _claimed_text_type(name, claimed), plain) or plain


def text_mime_type(name: str, claimed: str) -> str:
    """Return the type of a text: what it claims, else what the ending of its name says."""
    told = _claimed_text_type(name, claimed)
    return told if told.startswith(("text/", "application/")) else "text/plain"


def _kind_of_bytes(mime: str) -> PreviewKind:
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
    """Return a text as what its type says, None when it is not that."""
    if mime == "text/markdown":
        return Preview(PreviewKind.MARKDOWN, plain.mime, plain.text, plain.is_cut)
    if mime in {"text/csv", "text/tab-separated-values"}:
        table = _parse_table(text, goes_on, "\t" if "tab" in mime else "")
        return (
            Preview(PreviewKind.TABLE, plain.mime, plain.text, plain.is_cut, table=table) if table else None
        )
    if mime == "application/json" or mime.endswith("+json") or text.lstrip()[:1] in {"{", "["}:
        return None if goes_on else _preview_json(text, plain)
    return None


def _preview_json(text: str, plain: Preview) -> Preview | None:
    try:
        return Preview(PreviewKind.JSON, plain.mime, plain.text, plain.is_cut, value=json.loads(text))
    except (ValueError, RecursionError):
        return None


def _parse_table(text: str, goes_on: bool, delimiter: str) -> PreviewTable | None:
    """Return the beginning of a table; None when it is none."""
    first = text.partition("\n")[0]
    delimiter = delimiter or max(",;\t", key=first.count)
    found: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            found.append(row)
            if len(found) > TABLE_ROWS + 1:
                break
    except csv.Error:
        return None
    more = len(found) > TABLE_ROWS + 1 or goes_on
    if more and len(found) > 1:
        found.pop()
    width = max(map(len, found), default=0)
    cells = [[_truncate_cell(cell) for cell in row[:TABLE_COLUMNS]] for row in found]
    return PreviewTable(cells[0], cells[1:], more, max(0, width - TABLE_COLUMNS)) if width else None


def _truncate_cell(cell: str) -> str:
    return cell if len(cell) <= CELL else f"{cell[:CELL]}…"
