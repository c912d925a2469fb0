"""A session to which events are added."""

from __future__ import annotations

import pytest

from sessions_app.state import shared_state
from sessions_app.store.state import points
from tests.timeline.story import LARGE, Story


@pytest.fixture
def story(db: None) -> Story:
    """An empty session of the app `weather` and the user `ann`."""
    return Story()


@pytest.fixture
def low_key_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read scopes of `many_keys()` as large ones, which otherwise takes 5,001 keys."""
    for module in (points, shared_state):
        monkeypatch.setattr(module, "FEW_KEYS", LARGE - 1)
