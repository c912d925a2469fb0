"""A session to tell a story with."""

from __future__ import annotations

from tests.timeline.conftest import story

__all__ = ["story"]
