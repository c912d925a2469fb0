"""Guarded reads of agents' attributes: foreign code may raise, block, or return values of any length."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sessions_app.store import short_texts

T = TypeVar("T")


async def call_with_timeout(function: Callable[[], T], seconds: float) -> T:
    """Call a function in a thread of its own and return its result; a thread that blocks is abandoned.

    Raises:
        TimeoutError: the function did not return in time.
        RuntimeError: the function raised.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            problem = RuntimeError(f"{type(error).__name__} was raised while the agent was read.")
            problem.__cause__ = error
            future.set_exception(problem)

    threading.Thread(target=call, name="devui-describe", daemon=True).start()
    return await asyncio.wait_for(asyncio.wrap_future(future), seconds)


def call_or(function: Callable[[], T], default: T) -> T:
    """Return the result of a function, or `default` if it raises."""
    try:
        return function()
    except Exception:
        return default


def truncate(value: Any, limit: int) -> str:
    """Return at most `limit` characters of a text; empty if the value is not text."""
    if not isinstance(value, str):
        return ""
    return short_texts.truncate(value, limit)


def callable_name(value: Any) -> str:
    """Return the name of a function, or the class name of an object without a name."""
    return str(getattr(value, "__name__", "")) or type(value).__name__
