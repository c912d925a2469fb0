"""The heartbeat of an agent's process outlasts a store that refuses it."""

from __future__ import annotations

import threading

import pytest
from django.db import DatabaseError

from devui.runtime.heartbeat import Heartbeat
from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.store.errors import StoreFault, StoreReplaced
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(
    "refusal",
    [
        StoreReplaced("The store was removed."),
        StoreFault("Another version has migrated the store."),
        DatabaseError("disk I/O error"),
    ],
    ids=["removed", "migrated", "failed"],
)
def test_heartbeat_goes_on_after_a_refusal(monkeypatch, refusal: Exception):
    refusals = [refusal]
    canceled: list[str] = []
    is_canceled = threading.Event()

    def record_heartbeat(runtime_id: str) -> None:
        if refusals:
            raise refusals.pop()

    def cancel(run_id: str) -> None:
        canceled.append(run_id)
        is_canceled.set()

    monkeypatch.setattr(processes, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(processes, "record_heartbeat", record_heartbeat)
    monkeypatch.setattr(processes, "is_marked_stopped", lambda runtime_id: False)
    monkeypatch.setattr(lifecycle, "cancel_requests", lambda runtime_id: [f"run of {runtime_id}"])
    heartbeat = Heartbeat("r1", cancel)
    heartbeat.start()

    try:
        assert is_canceled.wait(PATIENCE_S)
    finally:
        heartbeat.stop()

    assert canceled[0] == "run of r1"
