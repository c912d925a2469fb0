"""ADK's session services as sources of copies, each with the view of another process."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from google.adk.sessions.base_session_service import BaseSessionService

from devui.runtime.config import RuntimeOptions
from devui.runtime.services import session_service
from sessions_app.adk import MirroredSessionService
from tests.required_programs import missing

POSTGRES = os.environ.get("DEVUI_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")

MakeTruth = Callable[[], BaseSessionService]


@pytest.fixture(params=["sqlite", "database", pytest.param("database on PostgreSQL", marks=pytest.mark.soak)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A URI as `adk web` takes it, of an empty store of one of ADK's services."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/adk.db"
        return
    _need("sqlalchemy")
    if request.param == "database":
        _need("aiosqlite")
        yield f"sqlite+aiosqlite:///{tmp_path}/adk.db"
        return
    _need("asyncpg")
    yield from _postgres()


@pytest_asyncio.fixture
async def make_truth(uri: str, tmp_path: Path) -> AsyncIterator[MakeTruth]:
    """Make the service that the URI names, as another process would: each call makes one more."""
    services: list[BaseSessionService] = []

    def make() -> BaseSessionService:
        service = session_service(RuntimeOptions(session_service_uri=uri), tmp_path)
        assert service is not None
        services.append(service)
        return service

    yield make
    for service in services:
        await service.close()


@pytest.fixture
def truth(make_truth: MakeTruth) -> BaseSessionService:
    """What another process has: ADK's service without a mirror."""
    return make_truth()


@pytest.fixture
def mirrored_service(store: None, make_truth: MakeTruth) -> MirroredSessionService:
    """DevUI's service around the same store of ADK's."""
    return MirroredSessionService(make_truth(), "adk's")


def _need(module: str) -> None:
    try:
        __import__(module)
    except ImportError:
        missing(f"{module} is not installed")


def _postgres() -> Iterator[str]:
    import psycopg

    name = f"devui_truth_{uuid.uuid4().hex[:12]}"
    try:
        server = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError:
        missing(f"no PostgreSQL answers at {POSTGRES.rpartition('@')[2]} (DEVUI_TEST_POSTGRES)")
    with server:
        server.execute(f'CREATE DATABASE "{name}"')
        yield urlsplit(POSTGRES)._replace(scheme="postgresql+asyncpg", path=f"/{name}").geturl()
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
