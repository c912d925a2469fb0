"""Content of artifacts: small content is stored in the row, large content in a file named by its hash.

A file is complete and on disk before its row is written, so a crash leaves no row without its file. A killed save or a
deleted artifact may leave a file without a row. Saving holds a shared lock until the row is committed, and removing an
exclusive lock, so a file that a save is about to use is never removed.

If agents run as another user, the folder is theirs, and the server is root. So no link inside it is followed, and no
name from a row that is a path: an agent could name any file or folder of the system.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO
from urllib.parse import quote

from django.conf import settings
from django.db import connection

from sessions_app.store.database import db_errors

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
    store_name = f"{database['HOST']}:{database['PORT']}:{database['NAME']}"
    return Path(getattr(settings, "DATA_DIR", ".devui")) / "artifacts" / quote(store_name, safe=":")


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
            _write_file(digest, content)
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
    try:
        with _open_subfolder(digest) as folder_fd:
            if _is_file(digest, folder_fd):
                return os.fdopen(os.open(digest, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder_fd), "rb")
    except NotADirectoryError:  # a link
        pass
    raise FileNotFoundError(digest)


def list_names() -> Iterator[str]:
    """Yield the names of all files: hashes, and temporary files of killed processes."""
    for file in folder().glob("??/*"):
        yield file.name


def remove(name: str) -> None:
    """Remove a file. Call it only inside `lock_exclusively`."""
    with suppress(FileNotFoundError, NotADirectoryError), _open_subfolder(name) as folder_fd:
        os.unlink(name, dir_fd=folder_fd)


@contextmanager
def _open_subfolder(name: str) -> Iterator[int]:
    """Yield a descriptor of the folder that holds a file.

    Raises:
        FileNotFoundError: there is no such folder, or the name is not that of a content file.
        NotADirectoryError: a link or file has its name.
    """
    if "/" in name or name.startswith("."):
        raise FileNotFoundError(name)
    descriptor = os.open(folder() / name[:2], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_file(name: str, folder_fd: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _write_file(name: str, content: bytes) -> None:
    with suppress(FileExistsError):
        (folder() / name[:2]).mkdir(mode=0o700)
    with _open_subfolder(name) as folder_fd:
        if _is_file(name, folder_fd):
            return
        _give_to_owner(folder_fd)
        draft = f"{name[:2]}{secrets.token_hex(8)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder_fd)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
                _give_to_owner(descriptor)
            os.replace(draft, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder_fd)
            raise
        os.fsync(folder_fd)  # so that the renamed file survives a power failure


def _give_to_owner(descriptor: int) -> None:
    """Give what root writes to the user of the folder, as whom agents run."""
    if os.geteuid() == 0:
        owner = folder().stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


@contextmanager
def _lock_folder(operation: int) -> Iterator[None]:
    with db_errors.translate_file_errors():
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder() / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(descriptor).st_nlink == 1:  # no hard link to a file of others
            _give_to_owner(descriptor)
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
