"""A session to which events are added."""

from __future__ import annotations

import pytest

from tests.timeline.story import Story


@pytest.fixture
def story(db: None) -> Story:
    """An empty session of the app `weather` and the user `ann`."""
    return Story()
