"""Copies of a runtime that an agent forks: what the runtime shares with the web is not theirs.

A copy inherits the listening socket, every open connection and, on Linux, the very epoll object that wakes the
runtime's loop. One that comes back into the loop would take requests and die on them, answer what its original
answers, and take sockets out of the original's epoll. One that lives on would keep connections open that the
original has closed.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import sys
from collections.abc import Callable, Iterable
from functools import partial

OpenSockets = Callable[[], Iterable[socket.socket]]


def new_loop() -> tuple[asyncio.AbstractEventLoop, selectors.BaseSelector | None]:
    """Return an event loop and the selector it waits by; None where nothing forks."""
    if sys.platform == "win32":
        return asyncio.new_event_loop(), None
    selector = selectors.DefaultSelector()
    return asyncio.SelectorEventLoop(selector), selector


def isolate_forks(
    loop: asyncio.AbstractEventLoop, selector: selectors.BaseSelector | None, sockets: OpenSockets
) -> None:
    """From now on, take from every copy of this process the sockets and the selector, and end its loop.

    `sockets` is called in the copy.
    """
    if selector is not None:
        os.register_at_fork(after_in_child=partial(_detach_fork, loop, selector, sockets))


def _detach_fork(
    loop: asyncio.AbstractEventLoop, selector: selectors.BaseSelector, sockets: OpenSockets
) -> None:
    """Put nothing in the place of what is shared: a number that is closed could become a file of the agent's."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in {*_kernel_fds(selector), *(owned.fileno() for owned in sockets())} - {-1}:
        os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)
    loop.set_exception_handler(_ignore_error)
    loop.stop()


def _kernel_fds(selector: selectors.BaseSelector) -> list[int]:
    """Return what a selector keeps in the kernel: epoll's number. A kqueue is not inherited, poll has none."""
    return [selector.fileno()] if sys.platform == "linux" and hasattr(selector, "fileno") else []


def _ignore_error(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """What a copy runs into on its way out is nobody's concern."""
