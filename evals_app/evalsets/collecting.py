"""Python's search for cyclic garbage, put off while a large text is read.

Reading makes some hundred thousand objects, none of them garbage, and each some ten thousand have the collector walk
through all that there are: three quarters of the time that reading a file of megabytes takes.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_readers = 0
_was_on = False


@contextmanager
def put_off() -> Iterator[None]:
    """Have no garbage collected meanwhile, in no thread; the last that ends lets it go on as it was before."""
    global _readers, _was_on
    with _lock:
        if not _readers:
            _was_on = gc.isenabled()
            gc.disable()
        _readers += 1
    try:
        yield
    finally:
        with _lock:
            _readers -= 1
            if not _readers and _was_on:
                gc.enable()
