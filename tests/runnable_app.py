"""An app that pages treat as runnable, for tests that start no process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sessions_app.runs import runtime_client
from sessions_app.store.errors import RuntimeUnavailable


class NoProcess:
    """Knows the app `weather`, and starts no process."""

    def apps(self) -> list[str]:
        return ["weather"]

    async def client(self, app_name: str) -> client.RuntimeClient:
        raise RuntimeUnavailable("No process is started here.", hint="Test what needs one with a real one.")

    async def end_process(self, runtime_id: str, why: str) -> bool:
        return False


@pytest.fixture
def weather_can_run() -> Iterator[None]:
    """Let the app `weather` be one that can be run."""
    runtime_client.register(NoProcess())
    yield
    runtime_client.register(None)
