"""Probes of `/health` and `/ready` without a login."""

from __future__ import annotations

import httpx
import pytest

from devui import monitoring
from sessions_app.store.errors import StoreUnavailable


async def check_probes(web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that strangers learn only whether the server works. From then on its store is unavailable."""
    alive = await web.get("/health")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    ready = await web.get("/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})

    def fail() -> None:
        raise StoreUnavailable("The store 'secret' does not answer.", hint="Start it.")

    monkeypatch.setattr(monitoring, "require_current_schema", fail)
    refused = await web.get("/ready")
    assert (refused.status_code, refused.json()) == (503, {"status": "not ready"})
