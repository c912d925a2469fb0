"""Loading of an app's agent in its runtime process, which then writes the `AgentCard`; restart of the process."""

from __future__ import annotations

import asyncio
import weakref

from django.db.models import Case, When

from sessions_app.runs.runtime_client import RuntimeClient, provider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError, RuntimeUnavailable
from sessions_app.store.models import AgentCard, RuntimeProcess

POLL_S = 0.1
LOAD_S = 60.0
"""Timeout for loading an agent."""

_locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()


async def load_agent(app_name: str) -> None:
    """Start the app's runtime if needed and return when its card is written. Loads one app at a time.

    Raises:
        NotFound: no such app.
        RuntimeUnavailable: the process does not start, or loading exceeds the timeout.
    """
    async with _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        runtime = await provider().client(app_name)
        try:
            await asyncio.wait_for(_wait_until_loaded(runtime), LOAD_S)
        except TimeoutError as error:
            raise RuntimeUnavailable(
                f"Agent {app_name!r} has not finished loading within {LOAD_S:.0f} s.",
                hint="Check what its module does on import. The server's log has its output.",
            ) from error


async def try_to_load(app_name: str) -> DevUIError | None:
    """Load an agent like `load_agent`; return the error, if there is one."""
    try:
        await load_agent(app_name)
    except DevUIError as error:
        return error
    return None


async def restart_agent(app_name: str) -> None:
    """End the processes of an app: active runs crash, queued ones go to the next process, which a request starts.

    Raises:
        RuntimeUnavailable: a worker does not answer.
    """
    living = RuntimeProcess.objects.filter(app_name=app_name, stopped_at=None).values_list("pk", flat=True)
    for runtime_id in await units_of_work.read(list, living):
        await provider().end_process(runtime_id, "Its process was ended: a person restarted the agent.")


def can_speak_live(app_name: str) -> bool | None:
    """Return whether a model of the app's agents supports live connections; None if the app has no ready card."""
    cards = AgentCard.objects.filter(app_name=app_name, status=AgentCard.Status.READY)
    speaks = Case(When(description__contains='"live": true', then=True), default=False)
    return cards.annotate(speaks=speaks).values_list("speaks", flat=True).first()


async def _wait_until_loaded(runtime: RuntimeClient) -> None:
    while True:
        health = await runtime.call("GET", "/devui/health")
        if health["state"] != "loading":
            return
        await asyncio.sleep(POLL_S)
