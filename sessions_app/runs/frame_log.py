"""Log of a run's frames, in memory, for any number of readers.

Readers have no queue; each reads the log from its own position. Chunks are dropped once their event is stored, and the
oldest frames when the log is full, so its size is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from itertools import takewhile
from typing import Any

from sessions_app.runs.runtime_client import Frame

MAX_FRAMES = 10_000

CHUNK_KEYS = ("author", "branch", "invocation_id", "event_id", "thought")


class FrameLog:
    """Frames with ascending `n`; `Frame` documents their fields.

    Attributes:
        last: `n` of the last frame.
        readers: number of those who follow the log now.
    """

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque(maxlen=MAX_FRAMES)
        self._changed = asyncio.Event()
        self.last = 0
        self.readers = 0

    @property
    def has_ended(self) -> bool:
        """Tell whether the last frame is the end."""
        return bool(self._frames) and self._frames[-1]["type"] == "end"

    def publish(self, kind: str, **fields: Any) -> None:
        """Add a frame of a run in this process."""
        self.add({"n": self.last + 1, "type": kind, **fields})

    def add(self, frame: Frame) -> None:
        """Add a frame and wake the readers. Known frames and frames after the end are ignored."""
        if frame["n"] <= self.last or self.has_ended:
            return
        if frame["type"] == "stored":
            frames = [earlier for earlier in self._frames if not _is_superseded(earlier, frame)]
            self._frames = deque(frames, maxlen=MAX_FRAMES)
        self._frames.append(frame)
        self.last = frame["n"]
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self, after: int = 0) -> AsyncGenerator[Frame, None]:
        """Yield the frames with n > `after`, then new ones, until the end.

        Consecutive pending chunks are joined, so a slow reader catches up at once.
        """
        self.readers += 1
        try:
            while True:
                changed = self._changed
                for frame in _join_chunks(self._frames_after(after)):
                    yield frame
                    after = frame["n"]
                    if frame["type"] == "end":
                        return
                await changed.wait()
        finally:
            self.readers -= 1

    def _frames_after(self, after: int) -> list[Frame]:
        newest_first = takewhile(lambda frame: frame["n"] > after, reversed(self._frames))
        return list(newest_first)[::-1]


def _is_superseded(frame: Frame, stored: Frame) -> bool:
    same = all(frame.get(key) == stored[key] for key in ("author", "branch"))
    return same and frame["type"] == "chunk"


def _join_chunks(frames: Iterable[Frame]) -> Iterable[Frame]:
    pending: Frame | None = None
    for frame in frames:
        if pending is not None and _continues_chunk(pending, frame):
            pending = {**frame, "text": pending["text"] + frame["text"]}
            continue
        if pending is not None:
            yield pending
        pending = frame
    if pending is not None:
        yield pending


def _continues_chunk(previous: Frame, frame: Frame) -> bool:
    return previous["type"] == frame["type"] == "chunk" and all(
        previous.get(key) == frame.get(key) for key in CHUNK_KEYS
    )
