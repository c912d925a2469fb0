"""Fixture for all tests: a store for code that commits. Folders whose tests need another one replace it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store import finish_threads


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store emptied after the test, whose threads have finished then."""
    yield
    finish_threads()
