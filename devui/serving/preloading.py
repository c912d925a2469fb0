"""Preloading: processes of the most recently used agents are started before their first message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from devui.serving.deferred_imports import response_event
from devui.supervisor import Supervisor
from sessions_app.runs.background import repeat
from sessions_app.sessions import listing
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import Run

PAUSE_S = 2.0
"""Seconds between a response and preloading, and between two checks whether the machine is idle."""

log = logging.getLogger(__name__)


async def preload_after_responses(supervisor: Supervisor) -> None:
    """Preload agents after responses to requests, until cancelled. Without requests the server stays idle."""
    with response_event() as has_response:
        has_response.set()  # the first page has been sent

        async def preload() -> None:
            await has_response.wait()
            has_response.clear()
            await preload_agents(supervisor)

        await repeat(preload, PAUSE_S, "Preloading of agents")


async def preload_agents(supervisor: Supervisor) -> None:
    """Start the processes of the most recently used apps one after another, each while no run is in progress.

    At least one of the processes that are kept is left for an app that is used next. Apps without sessions are not
    preloaded. An app whose process cannot be started is skipped.
    """
    app_names = await units_of_work.read(list_recently_used, supervisor.apps())
    for app_name in app_names:
        await _wait_until_idle(supervisor)
        if supervisor.process_count >= supervisor.limits.max_idle - 1:
            return
        try:
            await supervisor.preload(app_name)
        except DevUIError as error:
            log.warning("Agent %r was not preloaded: %s", app_name, error.message)


def list_recently_used(app_names: Collection[str]) -> list[str]:
    """Return those of the apps that have sessions, by the last change of their newest session, newest first."""
    last_used = {name: rows[0].updated_at for name, rows in listing.newest_sessions().items()}
    return sorted(last_used.keys() & set(app_names), key=lambda name: last_used[name], reverse=True)


async def _wait_until_idle(supervisor: Supervisor) -> None:
    while True:
        if not supervisor.is_starting and not await units_of_work.read(_has_active_runs):
            return
        await asyncio.sleep(PAUSE_S)


def _has_active_runs() -> bool:
    from evals_app.models import EvalRun

    return any(model.objects.filter(status__in=model.ACTIVE).exists() for model in (Run, EvalRun))
