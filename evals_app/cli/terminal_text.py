"""Lines for a terminal or a log: without control codes, fitted to the width, tolerant of a closed reader."""

from __future__ import annotations

import contextlib
import os
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from io import TextIOBase
from pathlib import Path
from typing import TextIO

from sessions_app.presentation import visible_text

Output = TextIO | TextIOBase

CLEAR_LINE = "\r\x1b[2K"

ASCII_SIGNS = str.maketrans({"≥": ">=", "×": "x", "·": "-", "…": "..."})
"""Replacements of special signs where the encoding lacks them."""

BOTH_ENDS = 3
"""When text is shortened in the middle, the end keeps one part of so many."""


GAP = 2
"""Blanks between two columns of a table."""


class LineWriter:
    """Writes lines, and on a terminal a last line that the next one replaces.

    If the reader is gone (`| head`) or an agent has closed the stream, output is discarded: the results are in the
    store.
    """

    def __init__(self, out: Output) -> None:
        self._out = out
        self._encoding: str = getattr(out, "encoding", None) or "utf-8"
        self.is_live = out.isatty()

    def line(self, text: str, mark: str = "", colour: str = "") -> None:
        """Write a line after a mark, which is colored on a terminal (ANSI number)."""
        marked = f"  {self._paint_text(mark, colour)} " if mark else ""
        self._write_text(f"{CLEAR_LINE if self.is_live else ''}{marked}{as_single_line(text)}\n")

    def status(self, text: str) -> None:
        """Write the last line of a terminal, cut to its width; nothing otherwise."""
        if self.is_live:
            self._write_text(
                f"{CLEAR_LINE}{truncate_to_columns(as_single_line(text), shutil.get_terminal_size().columns - 1)}"
            )

    def _paint_text(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.is_live and colour else text

    def _write_text(self, text: str) -> None:
        try:
            self._out.write(escape_unencodable(text, self._encoding))
            self._out.flush()
        except (OSError, ValueError):
            self._let_go()

    def _let_go(self) -> None:
        """Discard all further output of this process, including buffered output."""
        nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - it stays open
        with contextlib.suppress(OSError, ValueError):
            os.dup2(nowhere.fileno(), self._out.fileno())
        self._out, self.is_live = nowhere, False


def as_single_line(text: str) -> str:
    """Return text as one line without control codes."""
    return visible_text.escape_text(text.replace("\n", " "))


def escape_unencodable(text: str, encoding: str) -> str:
    """Return text with escapes for characters that an encoding lacks."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII_SIGNS).encode(encoding, "backslashreplace").decode(encoding)
    return text


def count_columns(text: str) -> int:
    """Return the terminal columns of a text: ideographs take two, combining accents none."""
    return sum(map(_character_columns, text))


def truncate_to_columns(text: str, columns: int) -> str:
    """Return the beginning of a text that fits into a number of terminal columns."""
    used = 0
    for index, character in enumerate(text):
        used += _character_columns(character)
        if used > columns:
            return text[:index]
    return text


def pad_to_columns(text: str, columns: int) -> str:
    """Return a text padded to a number of terminal columns."""
    return text + " " * max(0, columns - count_columns(text))


def shorten(text: str, length: int) -> str:
    """Return a text of at most so many characters, shortened before its end."""
    if len(text) <= length:
        return text
    end = length // BOTH_ENDS
    return f"{text[: length - end - 1]}…{text[-end:]}"


def _character_columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def align_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    widths = [max(map(count_columns, column)) + GAP for column in zip(*rows, strict=True)]
    for row in rows:
        yield "".join(map(pad_to_columns, row, widths)).rstrip()
