"""Agents that run in child processes of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

from devui.config import environment
from devui.runtime.config import RuntimeOptions
from devui.supervisor import Supervisor, SupervisorLimits
from devui.supervisor.agent_user import AgentUser
from sessions_app.runs import runtime_client


def create_supervisor(
    agents_dir: str | None, options: RuntimeOptions | None = None, *, adopts_runs: bool = True
) -> Supervisor:
    """Return the supervisor of the agents of a folder, with the limits and the system user of the environment.

    `adopts_runs`: also deliver the runs that ended servers left queued.

    Raises:
        BadInput: there is no such folder.
    """
    return Supervisor(
        agents_dir,
        options,
        limits=SupervisorLimits.from_environment(),
        environment=environment.runtime_environment(),
        agent_user=AgentUser.from_settings(),
        output_folder=settings.DATA_DIR / "output",
        adopts_runs=adopts_runs,
    )


@asynccontextmanager
async def run_agents(agents_dir: str) -> AsyncIterator[Supervisor]:
    """Let this process run the agents of a folder, for a command that ends soon: it leaves other queued runs alone.

    Raises:
        BadInput: there is no such folder.
    """
    async with create_supervisor(agents_dir, adopts_runs=False) as supervisor:
        runtime_client.register(supervisor)
        try:
            yield supervisor
        finally:
            runtime_client.register(None)
