"""A runtime that records the headers of requests, in place of an agent's process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from sessions_app.store.errors import RuntimeUnavailable
from tests.console.fake_runtimes import RecordingRuntime


class ForwardingRuntime(RecordingRuntime):
    """Records the headers of the requests that are forwarded to ADK's server."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[Mapping[str, str]] = []

    @asynccontextmanager
    async def open(self, method: str, path: str, *, headers: Mapping[str, str], content: bytes) -> Any:
        self.headers.append(headers)
        yield httpx.Response(200, json=[])

    @asynccontextmanager
    async def open_socket(self, path: str, headers: Mapping[str, str]) -> Any:
        self.headers.append(headers)
        raise RuntimeUnavailable("It is only asked.", hint="Nothing runs.")
        yield
