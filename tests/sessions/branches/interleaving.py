"""Actions between the transactions of a long copy."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connections

from sessions_app.store.database import batched_transactions


def act_between_transactions(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> list[int]:
    """Call `act` with a growing number after each transaction of a copy, and let a transaction copy three rows."""
    times: list[int] = []

    def happen(seconds: float) -> None:
        times.append(len(times))
        act(times[-1])

    for rows in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(batched_transactions, rows, 3)
    monkeypatch.setattr(batched_transactions, "yield_writer", happen)
    return times


def run_in_other_thread(act: Callable[[], object]) -> None:
    """Call `act` in another thread, with its own connection. A lock that this thread holds would block it for ever."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failed, failed
