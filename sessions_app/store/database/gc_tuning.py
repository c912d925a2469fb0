"""Tune Python's garbage collector for work that creates many long-lived objects."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (50_000, 20, 10)
"""Collector thresholds in a process that runs agents."""

INITIAL_THRESHOLDS = gc.get_threshold()
"""Thresholds at startup, before any agent code runs."""

_lock = threading.Lock()
_pause_count = 0
_was_enabled = False


def end_startup() -> None:
    """Enable the collector, which `devui.__main__` disables for imports, and let it ignore what was imported."""
    gc.freeze()
    gc.enable()


@contextmanager
def pause_collector() -> Iterator[None]:
    """Disable the collector while the block runs, for example while a session's events are loaded. Thread-safe.

    None of the new objects is garbage, but the collector would scan them repeatedly: more than half the time of
    loading a long session, three quarters of the time of parsing a file of megabytes, a fifth of importing ADK.
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
    """Raise the collector's thresholds, unless agent code has already changed them.

    ADK copies every event of a session for each model request. With 10,000 events these are some hundred thousand
    objects, none of them garbage, and the collector ran nearly 600 times: half the time from message to model call.
    """
    if gc.get_threshold() == INITIAL_THRESHOLDS:
        gc.set_threshold(*THRESHOLDS)
