"""Isolation of processes that an agent forks from the sockets and the event loop of the runtime.

A fork inherits the listening socket, every open connection and, on Linux, the epoll object of the runtime's event
loop. If it returns to the loop, it accepts requests and dies with them, answers the parent's requests, and removes
sockets from the parent's epoll. If it lives on, it keeps connections open that the parent has closed.
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


def new_loop() -> tuple[asyncio.AbstractEventLoop, selectors.BaseSelector]:
    """Return an event loop and its selector."""
    selector = selectors.DefaultSelector()
    return asyncio.SelectorEventLoop(selector), selector


def isolate_forks(
    loop: asyncio.AbstractEventLoop, selector: selectors.BaseSelector, sockets: OpenSockets
) -> None:
    """Detach every later fork of this process from the sockets and the selector, and stop its loop.

    `sockets` is called in the fork.
    """
    os.register_at_fork(after_in_child=partial(_detach_fork, loop, selector, sockets))


def _detach_fork(
    loop: asyncio.AbstractEventLoop, selector: selectors.BaseSelector, sockets: OpenSockets
) -> None:
    """Replace the shared descriptors by /dev/null: closed numbers could be reused for files of the agent."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in {*_kernel_fds(selector), *(owned.fileno() for owned in sockets())} - {-1}:
        os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)
    loop.set_exception_handler(_ignore_error)
    loop.stop()


def _kernel_fds(selector: selectors.BaseSelector) -> list[int]:
    """Return the descriptor of an epoll selector. A kqueue is not inherited, and poll has no descriptor."""
    return [selector.fileno()] if sys.platform == "linux" and hasattr(selector, "fileno") else []


def _ignore_error(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Ignore errors of a fork that is being stopped."""
