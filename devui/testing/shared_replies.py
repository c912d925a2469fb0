"""Replies that the processes of a session of pytest share: one asks for a reply, the others wait for it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SharedReply:
    """The reply to one request, in the folder of a session.

    Attributes:
        file: the reply as JSON; it exists once the request has been answered.
        run_file: the id of the run that the request began, from which another process resumes it.
    """

    file: Path
    run_file: Path

    @classmethod
    def for_request(cls, request: Mapping[str, Any], folder: Path) -> SharedReply:
        """Return the files of the reply to a request, which may have been answered or not."""
        key = sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]
        return cls(folder / f"{key}.json", folder / f"{key}.run")

    @property
    def exists(self) -> bool:
        """Tell whether the request has been answered."""
        return self.file.exists()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no other process works on the reply. The system frees the lock of a process that ends."""
        descriptor = os.open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> dict[str, Any]:
        """Return the reply."""
        reply: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return reply

    def write(self, reply: Mapping[str, Any]) -> None:
        """Write the reply."""
        write_json(self.file, reply)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file that other processes read: they see all of it or nothing, also if this process is killed."""
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(file)
