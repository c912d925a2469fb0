"""Waiting for background imports."""

from __future__ import annotations

import threading


def wait_for_jobs() -> None:
    for thread in threading.enumerate():
        if thread.name == "devui-import":
            thread.join(30)
