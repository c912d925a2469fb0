"""A session to which events are added."""

from __future__ import annotations

from tests.timeline.conftest import story

__all__ = ["story"]
