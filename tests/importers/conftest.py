"""Imports in a store that is emptied after the test: readers and services work in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from sessions_app.adk import DjangoSessionService
from sessions_app.transfer.readers.detection import open_source
from sessions_app.transfer.writers import ImportReport, import_sessions
from tests.pages.conftest import agents_dir  # noqa: F401 - the fixture: offers stand on the home page
from tests.store import finish_threads


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    yield
    finish_threads()


@pytest.fixture
def load(store: None) -> Callable[..., ImportReport]:
    """Return a function that imports a store and gives the report."""

    def load(location: Path | str, **options: Any) -> ImportReport:
        reading = {name: options.pop(name) for name in ("source_filter", "zone") if name in options}
        with closing(open_source(str(location), **reading)) as source:
            return import_sessions(source, **options)

    return load


@pytest.fixture
def read(store: None) -> Callable[..., dict[str, Any]]:
    """Return a function that reads a session as ADK would dump it, through `DjangoSessionService`."""

    def read(app: str = "weather", user: str = "ann", session: str = "s1") -> dict[str, Any]:
        get = async_to_sync(DjangoSessionService().get_session)
        stored_session = get(app_name=app, user_id=user, session_id=session)
        assert stored_session is not None
        return stored_session.model_dump(mode="json", by_alias=True, exclude_none=True)

    return read
