"""Whether an app can be run, told before a run is queued: nobody writes to an agent that is not there."""

from __future__ import annotations

import json

from sessions_app.agents import remotes
from sessions_app.agents.folder import configured_folder
from sessions_app.errors import AgentNotLoaded, DevUIError, NotFound
from sessions_app.models import AgentCard
from sessions_app.runs import agent_loading
from sessions_app.runs.runtime_client import provider
from sessions_app.store import units_of_work


def find_problem(app_name: str) -> DevUIError | None:
    """Return why an app cannot be run; None when it can be, as far as is known without asking its process.

    An app of a remote server is not judged: the server may answer again at any moment.
    """
    try:
        apps = provider().apps()
    except DevUIError as error:
        return error
    if remotes.remote_of_app(app_name) is not None:
        return None
    if app_name not in apps:
        return NotFound(
            f"App {app_name!r} cannot be run: this server has no agent of this name.",
            hint="Its sessions can be read, forked and exported. Put the agent into the agents folder to run it.",
        )
    return _load_error(app_name)


async def refuse_unavailable(app_name: str) -> None:
    """Refuse an app that cannot be run. One that could not be loaded is loaded once more: its code may work now.

    Raises:
        NotFound: this server has no such agent.
        AgentNotLoaded: its code fails.
        RuntimeUnavailable: this process runs no agents, or the agent's process could not be started.
    """
    problem = await units_of_work.read(find_problem, app_name)
    if isinstance(problem, AgentNotLoaded):
        await agent_loading.load_agent(app_name)
        problem = await units_of_work.read(find_problem, app_name)
    if problem is not None:
        raise problem


def _load_error(app_name: str) -> AgentNotLoaded | None:
    """Return why the code that the agents folder has could not be loaded; None when it was, or was not tried yet."""
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
    """Return the version of the code that the agents folder has; empty when it has none of the app."""
    folder = configured_folder()
    try:
        return folder.code_version(app_name) if folder else ""
    except NotFound:
        return ""
