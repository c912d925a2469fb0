"""Content of artifacts: small in the row, large in a file named by its hash.

A file is complete and on disk before its row is written, so a crash leaves no row without its file. A file
without a row may remain, of a killed save or a deleted artifact. Saving holds a shared lock from before the file
is there until the row is committed; removing takes the lock alone, so it never takes a file that is about to be
referred to.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO
from urllib.parse import quote

from django.conf import settings
from django.db import connection

from sessions_app.store import db_errors

MAX_INLINE_BYTES = 64 * 1024
"""Largest content that is kept in its row."""

LOCK_NAME = "lock"


@dataclass(frozen=True, slots=True)
class Payload:
    """Content ready to be referred to by a row.

    Attributes:
        sha256: hash of the content, in hex.
        size: its length in bytes.
        inline: the content itself when it goes into the row; None when its file is in place.
    """

    sha256: str
    size: int
    inline: bytes | None


def folder() -> Path:
    """Return where the store's files are: beside an SQLite file, as its journal; else in DATA_DIR.

    Each store has a folder of its own, so that one never takes another's file for an orphan. With PostgreSQL
    and several machines, DATA_DIR must be one that they share.
    """
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        file = Path(database["NAME"])
        return file.with_name(f"{file.name}-artifacts")
    place = f"{database['HOST']}:{database['PORT']}:{database['NAME']}"
    return Path(getattr(settings, "DATA_DIR", ".devui")) / "artifacts" / quote(place, safe=":")


@contextmanager
def store_content(content: bytes) -> Iterator[Payload]:
    """Put large content in its file; commit the row that refers to it before the block ends.

    Raises:
        StoreFull, StoreReadOnly: the file cannot be written; nothing is left of it.
    """
    digest = sha256(content).hexdigest()
    if len(content) <= MAX_INLINE_BYTES:
        yield Payload(digest, len(content), content)
        return
    with _lock_folder(fcntl.LOCK_SH):
        with db_errors.translate_file_errors():
            _write(_path(digest), content)
        yield Payload(digest, len(content), None)


@contextmanager
def lock_exclusively() -> Iterator[None]:
    """Keep every process from saving a file until the block ends."""
    with _lock_folder(fcntl.LOCK_EX):
        yield


def open_content(digest: str) -> IO[bytes]:
    """Open the content of a file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return _path(digest).open("rb")


def list_names() -> Iterator[str]:
    """Yield the name of every file: hashes of content, and what a killed process left half-written."""
    for file in folder().glob("??/*"):
        yield file.name


def remove(name: str) -> None:
    """Remove a file. Only while `alone`."""
    _path(name).unlink(missing_ok=True)


def _path(name: str) -> Path:
    return folder() / name[:2] / name


def _write(path: Path, content: bytes) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name[:2])
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Make the name of a file that was renamed durable, as its content is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _lock_folder(how: int) -> Iterator[None]:
    with db_errors.translate_file_errors():
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder() / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
