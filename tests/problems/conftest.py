"""Stores for sessions told event by event, and for agents that run on ADK's own Runner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sessions_app.store.database import units_of_work
from sessions_app.store.traces import outbox
from tests.timeline.story import Story


@pytest.fixture
def story(db: None) -> Story:
    """An empty session."""
    return Story()


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store that other threads see."""
    yield
    outbox.close()
    units_of_work.close_pools()
