"""The garbage collector out of the way while many long-lived objects are made."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (50_000, 20, 10)
"""Thresholds of the collector in a process that runs agents."""

INITIAL_THRESHOLDS = gc.get_threshold()
"""As Python sets them, or whoever started the process; an agent's code comes later."""

_lock = threading.Lock()
_pause_count = 0
_was_enabled = False


@contextmanager
def pause_collector() -> Iterator[None]:
    """Pause the collector while a session's events or the tree of a file are made; threads may overlap.

    None of the new objects is garbage, but the collector would walk them again and again: more than half the
    time of reading a long session, three quarters of that of reading a file of megabytes.
    """
    global _pause_count, _was_enabled
    with _lock:
        if not _pause_count:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pause_count += 1
    try:
        yield
    finally:
        with _lock:
            _pause_count -= 1
            if not _pause_count and _was_enabled:
                gc.enable()


def collect_less_often() -> None:
    """Let the collector look seldomer, unless somebody has set it already.

    ADK copies every event of a session for each request to a model. Of 10,000 events that makes some hundred thousand
    objects, none of them garbage, and the collector ran nearly 600 times: half the time from a message to the model.
    """
    if gc.get_threshold() == INITIAL_THRESHOLDS:
        gc.set_threshold(*THRESHOLDS)
