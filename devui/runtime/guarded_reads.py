"""Reading an agent, which is somebody's code: a property of it may raise, block, or be of any length."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

MAX_NAME = 300
"""Characters of a name."""

T = TypeVar("T")


async def call_with_timeout(function: Callable[[], T], seconds: float) -> T:
    """Return what a function returns that reads an agent: a property of it may block, and harms nothing.

    It has a thread of its own, which is left behind when it does not end.

    Raises:
        TimeoutError: it has not ended in time.
        RuntimeError: it raised.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast(T, result))
        else:
            problem = RuntimeError(f"{type(error).__name__} was raised while the agent was read.")
            problem.__cause__ = error
            future.set_exception(problem)

    def call() -> None:
        result, raised = None, None
        try:
            result = function()
        except BaseException as error:
            raised = error
        with contextlib.suppress(RuntimeError):  # the process ends: its loop is closed
            loop.call_soon_threadsafe(settle, result, raised)

    threading.Thread(target=call, name="devui-describe", daemon=True).start()
    return await asyncio.wait_for(future, seconds)


def read_attribute(value: Any, name: str) -> Any:
    """Return an attribute; None where reading it raises."""
    return call_or(lambda: getattr(value, name, None), None)


def call_or(function: Callable[[], T], default: T) -> T:
    """Return what a function returns; something else where it raises."""
    try:
        return function()
    except Exception:
        return default


def truncate(value: Any, limit: int) -> str:
    """Return a text of at most so many characters; what a subclass of `str` makes of itself is not asked."""
    if not isinstance(value, str):
        return ""
    text = str.__str__(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def short_name(value: Any) -> str:
    """Return a name of at most `MAX_NAME` characters; empty when it is no text."""
    return truncate(value, MAX_NAME)


def callable_name(value: Any) -> str:
    """Return what a function is called, or the class of an object without a name."""
    return short_name(read_attribute(value, "__name__")) or type(value).__name__


def describe_error(error: Exception) -> str:
    """Return what went wrong, in at most `MAX_NAME` characters; the error may not even say what it is."""
    return short_name(f"{type(error).__name__}: {call_or(lambda: str(error), '')}")
