"""Readers that a child process calls: honest ones, and such that would end or fill the server."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Iterator

from sessions_app.store.errors import BadInput
from sessions_app.transfer.readers.reader_process import ReadingFailed, watch_memory


def echo(*texts: str) -> Iterator[str]:
    """Yield the arguments, and print."""
    print("not an answer")
    yield from map(json.dumps, texts)


def loop() -> Iterator[str]:
    """Never end."""
    while True:
        pass
    yield ""


def grow() -> Iterator[str]:
    """Need all memory."""
    texts = []
    while True:
        texts.append("x" * 10_000_000)
    yield ""


def grow_watched(limit: str) -> Iterator[str]:
    """Need all memory, where the system has no limit of it."""
    threading.Thread(target=watch_memory, args=(int(limit),), daemon=True).start()
    yield from grow()


def crash() -> Iterator[str]:
    """End by a signal, as an overflow of the stack does."""
    yield "1"
    ctypes.string_at(0)


def answer_at_length(count: str) -> Iterator[str]:
    """Yield many values."""
    for _ in range(int(count)):
        yield json.dumps("x" * 1_000)


def answer_with_many_values(count: str) -> Iterator[str]:
    """Yield one value with many in it."""
    yield "[" + "0," * int(count) + "0]"


def refuse() -> Iterator[str]:
    """Refuse the input."""
    raise BadInput("It is no chat.", hint="Send a chat.")
    yield ""


def fail() -> Iterator[str]:
    """Fail for a known reason."""
    raise ReadingFailed("it is torn")
    yield ""


def leave() -> Iterator[str]:
    """End the process in Python's way."""
    raise SystemExit(3)
    yield ""
