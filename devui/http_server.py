"""HTTP server of web processes, runtimes and workers."""

from __future__ import annotations

import asyncio
import contextlib

import uvicorn
from typing_extensions import override

TICK_S = 1.0
"""Seconds between two updates of the `Date` header."""


class HTTPServer(uvicorn.Server):
    """uvicorn's server, which an event ends: uvicorn itself checks ten times a second whether it should exit."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end_requested = asyncio.Event()
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        """Tell whether the server is to end. Any thread and signal handler may set it."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, should_exit: bool) -> None:
        self._should_exit = should_exit
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_requested.set)

    @override
    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            while not await self.on_tick(0):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await self._end_requested.wait()
        finally:
            self._loop = None  # later signals find no loop to wake
