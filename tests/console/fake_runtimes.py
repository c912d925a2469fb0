"""Runtimes that record the requests they receive instead of running an agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from sessions_app.runs.runtime_client import Frame


class RecordingRuntime:
    """Record each request as (path or action, body); raise `error` if it is set."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.received = asyncio.Event()

    def apps(self) -> list[str]:
        return ["weather"]

    async def client(self, app_name: str) -> RecordingRuntime:
        return self

    async def call(self, method: str, path: str, body: object = None) -> Any:
        return {"state": "failed"}

    async def start_run(self, run_id: str) -> None:
        await self._receive("start", run_id)

    async def cancel_run(self, run_id: str) -> None:
        await self._receive("cancel", run_id)

    async def stream(self, run_id: str, after: int = 0) -> AsyncIterator[Frame]:
        for frame in ():
            yield frame

    async def _receive(self, what: str, run_id: str) -> None:
        self.requests.append((what, run_id))
        self.received.set()
        if self.error:
            raise self.error


class RuntimeWithConfigCheck(RecordingRuntime):
    """A runtime that reports `problems` for every RunConfig."""

    problems: dict[str, str] = {}

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        self.requests.append((path, json.dumps(body)))
        return {"problems": self.problems}
