"""Evalset files put in place: whole or not at all, and never over what somebody else has written meanwhile."""

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
from sessions_app.errors import DevUIError

_write_lock = threading.Lock()


class FileChanged(DevUIError):
    """A file is not what it was when somebody looked at it; nothing was written."""

    status: ClassVar[int] = 409
    code: ClassVar[str] = "file_changed"

    def __init__(self, shown_as: str) -> None:
        super().__init__(
            f"{shown_as} was changed by somebody else meanwhile; nothing was written.",
            hint="Look at what it says now, and make the change again.",
        )


def digest_of(text: str) -> str:
    """Return what tells one text of a file from another: the SHA-256 of its bytes."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def create_file(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        FileExistsError: it is there already.
        OSError: it cannot be written.
    """
    with _write_lock, _temporary_file(path, text) as name:
        os.chmod(name, 0o644)
        os.link(name, path)  # fails when somebody was quicker


def replace_file(path: Path, shown_as: str, before: str, text: str) -> None:
    """Write a file's new text, if it still says `before`.

    Other DevUI processes wait; another editor that saves in the same instant is the one that wins or loses.

    Raises:
        NotFound: the file is gone.
        FileChanged: it says something else.
        OSError: it cannot be written.
    """
    with _write_lock, _lock_folder(path):
        if read_text(path, shown_as) != before:
            raise FileChanged(shown_as)
        with _temporary_file(path, text) as name:
            shutil.copymode(path, name)
            os.replace(name, path)


@contextlib.contextmanager
def _lock_folder(path: Path) -> Iterator[None]:
    """Keep other DevUI processes from writing files of the same folder."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def _temporary_file(path: Path, text: str) -> Iterator[str]:
    """Write a text to a file beside `path`, which is gone afterwards unless it was moved."""
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
