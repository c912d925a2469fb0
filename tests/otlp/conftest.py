"""Fixtures: a client of the web process, and requests that exporters send."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.otlp.otlp_requests import Exporter
from tests.web import over


@pytest_asyncio.fixture
async def web(store: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


@pytest.fixture
def exporter(web: httpx.AsyncClient) -> Exporter:
    """An exporter that sends to DevUI."""
    return Exporter(web)
