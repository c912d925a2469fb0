"""A runtime whose stream a test writes, and a run that it has claimed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sessions_app.runs import lifecycle
from sessions_app.runs.frame_log import FrameLog
from sessions_app.runs.runtime_client import Frame
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run


class StreamingRuntime:
    """A runtime of which only the stream is real: a log of frames."""

    def __init__(self) -> None:
        self.log = FrameLog()

    def apps(self) -> list[str]:
        return ["weather"]

    async def client(self, app_name: str) -> StreamingRuntime:
        return self

    def stream(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        return self.log.follow(after)

    def publish_text(self, text: str, thought: bool = False) -> None:
        self.log.publish(
            "chunk", author="agent", branch="", invocation_id="i1", event_id="p", text=text, thought=thought
        )

    def publish_stored(self, seq: int) -> None:
        self.log.publish("stored", seq=seq, event_id=f"e{seq}", author="agent", branch="")


async def create_claimed_run(story) -> Run:
    run = await units_of_work.write(lifecycle.create_run, story.pk, {})
    await units_of_work.write(lifecycle.claim, run.pk, None, "v1")
    return run


def is_pending(message: dict[str, Any]) -> bool:
    return message["type"] == "pending"
