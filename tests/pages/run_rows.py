"""Rows of runs for the pages that list them."""

from __future__ import annotations

from sessions_app.runs import lifecycle as runs
from sessions_app.store.models import Run
from tests.timeline.story import Story


def create_run(story: Story, at: float = 100.0, **facts: object) -> Run:
    """Return a run with this time of creation (seconds) and these columns."""
    created = runs.create_run(story.pk, {"new_message": {"parts": [{"text": "x" * 5000}]}})
    Run.objects.filter(pk=created.pk).update(created_at=at, **facts)
    return created
