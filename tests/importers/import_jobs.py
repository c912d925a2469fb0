"""Waiting for background imports."""

from __future__ import annotations

import threading

from tests.patience import PATIENCE_S


def wait_for_jobs() -> None:
    for thread in threading.enumerate():
        if thread.name == "devui-import":
            thread.join(PATIENCE_S)
