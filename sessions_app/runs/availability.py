"""Checks, before a run is queued, that its app can be run."""

from __future__ import annotations

import json

from sessions_app.agents import remotes
from sessions_app.agents.folder import configured_folder
from sessions_app.runs import agent_loading
from sessions_app.runs.runtime_client import provider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AgentNotLoaded, DevUIError, NotFound
from sessions_app.store.models import AgentCard


def find_problem(app_name: str) -> DevUIError | None:
    """Return why an app cannot be run, None if nothing speaks against it. Does not call the runtime.

    Apps of a remote server are not checked: the server may come back at any time.
    """
    try:
        apps = provider().apps()
    except DevUIError as error:
        return error
    if remotes.find_remote(app_name) is not None:
        return None
    if app_name not in apps:
        return NotFound(
            f"App {app_name!r} cannot be run: this server has no agent of this name.",
            hint="Its sessions can be read, forked and exported. Put the agent into the agents folder to run it.",
        )
    return _load_error(app_name)


async def refuse_unavailable(app_name: str) -> None:
    """Refuse an app that cannot be run. An app that failed to load is loaded again: its code may have changed.

    Raises:
        NotFound: this server has no such agent.
        AgentNotLoaded: the agent's code fails to load.
        RuntimeUnavailable: this process runs no agents, or the runtime does not start.
    """
    problem = await units_of_work.read(find_problem, app_name)
    if isinstance(problem, AgentNotLoaded):
        await agent_loading.load_agent(app_name)
        problem = await units_of_work.read(find_problem, app_name)
    if problem is not None:
        raise problem


def _load_error(app_name: str) -> AgentNotLoaded | None:
    """Return the load error of the current code; None if it loaded or was not tried yet."""
    failed = AgentCard.objects.filter(app_name=app_name, status=AgentCard.Status.FAILED)
    row = failed.values_list("code_version", "error").first()
    if row is None or _current_version(app_name) not in ("", row[0]):
        return None
    error = json.loads(row[1])
    where = f" ({error['file']}:{error['line']})" if error.get("file") and error.get("line") else ""
    return AgentNotLoaded(
        f"Agent {app_name!r} could not be loaded: {error.get('type', 'error')}:"
        f" {error.get('message', '')}{where}",
        hint="Correct its code: the next message loads it again.",
    )


def _current_version(app_name: str) -> str:
    """Return the version of the app's code in the agents folder; empty if the folder lacks the app."""
    folder = configured_folder()
    try:
        return folder.code_version(app_name) if folder else ""
    except NotFound:
        return ""
