"""Streaming text of a run, shown until the event that contains it is on the page.

Chunks come from the run's stream, events from the table, and either may be ahead. A stream is removed when the event
that supersedes it was sent to the page, so that no text is missing or shown twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sessions_app.runs.runtime_client import Frame
from sessions_app.store.models import Event


@dataclass(slots=True)
class TextStream:
    """Text that an author streams in a branch. `superseded_by` is the seq of the event that contains it."""

    author: str
    branch: str
    text: str = ""
    thought: str = ""
    superseded_by: int = 0


class StreamingText:
    """The text streams of a run. `last_shown` is the seq of the last event on the page when the run began."""

    def __init__(self, last_shown: int = 0) -> None:
        self.streams: list[TextStream] = []
        self._last_stored = 0
        self._last_shown = last_shown

    def take(self, frame: Frame) -> bool:
        """Process a frame; return whether the streams changed."""
        if frame["type"] == "chunk":
            self._add_chunk(frame)
            return True
        if frame["type"] == "stored":
            return self._supersede_stream(frame)
        if frame["type"] == "end":
            return self._keep_streams([])
        return False

    def mark_shown(self, events: Iterable[Event]) -> bool:
        """Process events that are now on the page; return whether the streams changed."""
        changed = False
        for event in events:
            if event.seq <= self._last_shown:
                continue
            self._last_shown = event.seq
            changed |= self._keep_streams(
                [stream for stream in self.streams if not self._is_held(stream, event)]
            )
        return changed

    def _add_chunk(self, frame: Frame) -> None:
        stream = self._find_open_stream(frame)
        if stream is None:
            stream = TextStream(frame.get("author") or "", frame.get("branch") or "")
            self.streams.append(stream)
        if frame.get("thought"):
            stream.thought += frame["text"]
        else:
            stream.text += frame["text"]

    def _supersede_stream(self, frame: Frame) -> bool:
        self._last_stored = frame["seq"]
        stream = self._find_open_stream(frame)
        if stream is None:
            return False
        if frame["seq"] > self._last_shown:
            stream.superseded_by = frame["seq"]
            return False
        return self._keep_streams([other for other in self.streams if other is not stream])

    def _find_open_stream(self, frame: Frame) -> TextStream | None:
        """Return the open stream of the frame's author and branch."""
        speaker = (frame.get("author") or "", frame.get("branch") or "")
        streams = (stream for stream in self.streams if not stream.superseded_by)
        return next((stream for stream in streams if (stream.author, stream.branch) == speaker), None)

    def _is_held(self, stream: TextStream, event: Event) -> bool:
        """Tell whether an event contains a stream: by its seq or, before the run reports it stored, by its author."""
        if stream.superseded_by:
            return stream.superseded_by <= event.seq
        is_news = event.seq > self._last_stored
        return is_news and (stream.author, stream.branch) == (event.author, event.branch)

    def _keep_streams(self, streams: list[TextStream]) -> bool:
        changed = len(streams) < len(self.streams)
        self.streams = streams
        return changed
