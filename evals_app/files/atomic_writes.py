"""Atomic writes of files; they fail if the file has changed since it was read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from evals_app.files.parsing import read_text
from sessions_app.store.errors import DevUIError

_write_lock = threading.Lock()


class FileChanged(DevUIError):
    """The file has changed since it was read; nothing was written."""

    status: ClassVar[int] = 409
    code: ClassVar[str] = "file_changed"

    def __init__(self, shown_as: str) -> None:
        super().__init__(
            f"{shown_as} was changed by somebody else meanwhile; nothing was written.",
            hint="Look at what it says now, and make the change again.",
        )


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def create_file(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        FileExistsError: the file exists.
        OSError: the file cannot be written.
    """
    with _write_lock, _temporary_file(path, text) as name:
        os.chmod(name, 0o644)
        os.link(name, path)  # fails if the file exists


def replace_file(path: Path, shown_as: str, before: str, text: str) -> None:
    """Replace a file's text, if its present text is `before`.

    Other DevUI processes are locked out; other editors are not.

    Raises:
        NotFound: the file does not exist.
        FileChanged: the file has another text.
        OSError: the file cannot be written.
    """
    with _write_lock, _lock_folder(path):
        if read_text(path, shown_as) != before:
            raise FileChanged(shown_as)
        with _temporary_file(path, text) as name:
            shutil.copymode(path, name)
            os.replace(name, path)


@contextlib.contextmanager
def _lock_folder(path: Path) -> Iterator[None]:
    """Lock the folder against writes of other DevUI processes."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def _temporary_file(path: Path, text: str) -> Iterator[str]:
    """Write a text to a temporary file beside `path`, which is removed afterwards."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        yield name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
