"""The web with a session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.web import over


@pytest_asyncio.fixture
async def web(store: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI that sends what a program sends."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


@pytest_asyncio.fixture
async def session(store: None) -> AgentSession:
    """A session with state."""
    key = SessionKey("", "weather", "ann", "s1")
    return await units_of_work.write(writes.create_session, key, {"n": 1, "user:tier": "gold"})
