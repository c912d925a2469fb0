"""Text from outside: reads its file, detects its encoding, and parses JSON of a limited number of values.

Values are counted before they are parsed: one of two bytes of text may take 300 bytes of memory.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_VALUES = 1_000_000
"""Most values of a JSON text: some 300 MB of memory and three seconds."""

MAX_FILE_VALUES = 5 * MAX_VALUES
"""Most values of a file that a person imports."""

MAX_INT_BITS = 14_000
"""Longest integer, in bits, that is read as one: some 4,200 digits. Python and most parsers refuse longer ones."""

_CHUNK = 1024 * 1024


class TooManyValues(ValueError):
    """A JSON text has more values than its reader accepts."""


def read_file(path: Path, max_bytes: int = -1) -> bytes:
    """Return the first bytes of a file, at most `max_bytes`; all of them if negative.

    Raises:
        OSError: it cannot be read, or is a pipe, a device or a socket: reading those may never end.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "It is not a regular file", str(path))
        return file.read(max_bytes)


def detect_encoding(start: bytes) -> str:
    """Return the encoding of a text by its byte order mark or its zero bytes; UTF-8 otherwise.

    Windows PowerShell writes UTF-16 (`>`), and UTF-8 with a mark.
    """
    return json.detect_encoding(start)


def decode_text(content: bytes) -> str:
    """Return the text of a file in UTF-8, UTF-16 or UTF-32, without its byte order mark.

    Raises:
        UnicodeDecodeError: it is in another encoding.
    """
    return content.decode(detect_encoding(content))


def decode_start(start: bytes) -> str:
    """Return the text that a file begins with; its last character may be cut off."""
    return start.decode(detect_encoding(start), errors="replace").removeprefix("\ufeff")


def parse_json(source: str | bytes, *, max_values: int = MAX_VALUES, **options: Any) -> Any:
    """Return the value of a JSON text, in any encoding of `decode_text`. `options` are those of `json.loads`.

    Raises:
        ValueError: it is no JSON, or has too many values (`TooManyValues`).
        RecursionError: its values are nested too deeply.
    """
    text = source if isinstance(source, str) else decode_text(source)
    check_value_count(text, max_values)
    return json.loads(text, **options)


def check_value_count(text: str, max_values: int = MAX_VALUES) -> None:
    """Check the number of values of a JSON text.

    Raises:
        TooManyValues: there are more.
    """
    if len(text) <= max_values:
        return
    counter = ValueCounter()
    for start in range(0, len(text), _CHUNK):
        counter.add(text[start : start + _CHUNK].encode(errors="surrogatepass"))
        if counter.count > max_values:
            raise TooManyValues(f"it has more than {max_values:,} values")


@dataclass(slots=True)
class ValueCounter:
    """Counter of the values in JSON that arrives in chunks: brackets and commas outside of strings.

    Attributes:
        count: of values so far; at most twice the real number, keys aside.
    """

    count: int = 0
    _backslash: bytes = b""
    _is_in_string: bool = False

    def add(self, chunk: bytes) -> None:
        """Count the values of the next chunk."""
        text = self._backslash + chunk
        self._backslash = b"\\" * (
            (len(text) - len(text.rstrip(b"\\"))) % 2
        )  # escapes what the next chunk begins with
        text = text[: len(text) - len(self._backslash)].replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = text.split(b'"')
        outside = b"".join(pieces[self._is_in_string :: 2])
        self._is_in_string ^= len(pieces) % 2 == 0
        self.count += sum(map(outside.count, (b",", b"[", b"{")))
