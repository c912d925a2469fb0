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


async def in_time(tell: Callable[[], T], seconds: float) -> T:
    """Return what a function returns that reads an agent: a property of it may block, and harms nothing.

    It has a thread of its own, which is left behind when it does not end.

    Raises:
        TimeoutError: it has not ended in time.
        RuntimeError: it raised.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(told: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(cast(T, told))
        else:
            problem = RuntimeError(f"{type(error).__name__} was raised while the agent was read.")
            problem.__cause__ = error
            answer.set_exception(problem)

    def look() -> None:
        told, raised = None, None
        try:
            told = tell()
        except BaseException as error:
            raised = error
        with contextlib.suppress(RuntimeError):  # the process ends: its loop is closed
            loop.call_soon_threadsafe(settle, told, raised)

    threading.Thread(target=look, name="devui-describe", daemon=True).start()
    return await asyncio.wait_for(answer, seconds)


def read(given: Any, name: str) -> Any:
    """Return an attribute; None where reading it raises."""
    return guarded(lambda: getattr(given, name, None), None)


def guarded(tell: Callable[[], T], otherwise: T) -> T:
    """Return what a function returns; something else where it raises."""
    try:
        return tell()
    except Exception:
        return otherwise


def cut(value: Any, limit: int) -> str:
    """Return a text of at most so many characters; what a subclass of `str` makes of itself is not asked."""
    if not isinstance(value, str):
        return ""
    text = str.__str__(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def short_name(value: Any) -> str:
    """Return a name of at most `MAX_NAME` characters; empty when it is no text."""
    return cut(value, MAX_NAME)


def name_of(given: Any) -> str:
    """Return what a function is called, or the class of an object without a name."""
    return short_name(read(given, "__name__")) or type(given).__name__


def problem_of(error: Exception) -> str:
    """Return what went wrong, in at most `MAX_NAME` characters; the error may not even say what it is."""
    return short_name(f"{type(error).__name__}: {guarded(lambda: str(error), '')}")
