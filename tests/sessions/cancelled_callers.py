"""Callers that are cancelled while the store writes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


async def cancel_while_writing(work: asyncio.Task[object], write_done: threading.Event) -> None:
    """Cancel the caller repeatedly, as servers do, while the store writes; then let the write end."""
    for _ in range(3):
        await asyncio.sleep(0)
        work.cancel()
    write_done.set()
    with suppress(asyncio.CancelledError):
        await work
