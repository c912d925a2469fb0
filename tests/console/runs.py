"""The agents of the console tests, and the run that a page started."""

from __future__ import annotations

from pathlib import Path

from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Run
from tests.runtime.conftest import until

STAGE = Path(__file__).parent / "stage"


async def newest_ended_run(session: AgentSession) -> Run:
    """Return the newest run on a session when it has ended."""

    async def look() -> Run:
        runs = Run.objects.filter(session=session).order_by("-created_at")
        return await units_of_work.read(runs.select_related("session").first)

    return await until(look, lambda run: run.status not in Run.ACTIVE)
