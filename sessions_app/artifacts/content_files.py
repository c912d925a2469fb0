"""Content of artifacts: small content is stored in the row, large content in a file named by its hash.

A file is complete and on disk before its row is written, so a crash leaves no row without its file. A killed save or a
deleted artifact may leave a file without a row. Saving holds a shared lock until the row is committed, and removing an
exclusive lock, so a file that a save is about to use is never removed.
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
"""Largest content that is stored in its row."""

LOCK_NAME = "lock"


@dataclass(frozen=True, slots=True)
class Payload:
    """Stored content that a row can refer to.

    Attributes:
        sha256: hash of the content, in hex.
        size: its length in bytes.
        inline: the content if it goes into the row; None if it is in a file.
    """

    sha256: str
    size: int
    inline: bytes | None


def folder() -> Path:
    """Return the folder of the store's content files: beside an SQLite file, otherwise in DATA_DIR.

    Each store has its own folder, so that one never removes another's files. With PostgreSQL and several machines,
    DATA_DIR must be shared between them.
    """
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        file = Path(database["NAME"])
        return file.with_name(f"{file.name}-artifacts")
    place = f"{database['HOST']}:{database['PORT']}:{database['NAME']}"
    return Path(getattr(settings, "DATA_DIR", ".devui")) / "artifacts" / quote(place, safe=":")


@contextmanager
def store_content(content: bytes) -> Iterator[Payload]:
    """Store content; large content in its file. Commit the row that refers to it before the block ends.

    Raises:
        StoreFull, StoreReadOnly: the file cannot be written; no partial file remains.
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
    """Block saves of content files in all processes until the block ends."""
    with _lock_folder(fcntl.LOCK_EX):
        yield


def open_content(digest: str) -> IO[bytes]:
    """Open a content file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return _path(digest).open("rb")


def list_names() -> Iterator[str]:
    """Yield the names of all files: hashes, and temporary files of killed processes."""
    for file in folder().glob("??/*"):
        yield file.name


def remove(name: str) -> None:
    """Remove a file. Call it only inside `lock_exclusively`."""
    _path(name).unlink(missing_ok=True)


def _path(name: str) -> Path:
    return folder() / name[:2] / name


def _write(path: Path, content: bytes) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _give_to_owner(path.parent)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name[:2])
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _give_to_owner(draft)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _give_to_owner(path: Path | str) -> None:
    """Give what root writes to the user of the folder, as whom agents run."""
    if os.geteuid() == 0:
        owner = folder().stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _sync_folder(path: Path) -> None:
    """Sync a folder, so that a renamed file survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _lock_folder(operation: int) -> Iterator[None]:
    with db_errors.translate_file_errors():
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder() / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
