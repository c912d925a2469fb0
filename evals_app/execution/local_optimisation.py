"""Optimisations that a command carries out in child processes, without a server."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from evals_app.execution.child_processes import call_in_child
from evals_app.execution.local_runner import (
    RunListener,
    continue_after_death,
    execute_runs,
    run_in_loop,
)
from evals_app.models import EvalRun, Optimisation
from evals_app.optimisation import driver, steps
from evals_app.optimisation.settings import OptimiserSettings
from evals_app.optimisation.steps import NextStep, OptimisedAgent
from evals_app.runs import rerun
from evals_app.runs.writes.crashes import ProcessDeath
from sessions_app.agent_processes import processes
from sessions_app.agent_processes.processes import describe_exit
from sessions_app.agents.folder import AgentsFolder
from sessions_app.runs.background import repeat
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import BadInput, DevUIError

MAX_DEATHS = 3
"""Processes that may end in a row without a finished step, before the optimisation fails."""


def inspect_in_child(agents: AgentsFolder, app_name: str, settings: OptimiserSettings) -> OptimisedAgent:
    """Return the agent to optimise, loaded and checked in a child process.

    Raises:
        BadInput: the agent cannot be loaded or optimised, or the optimiser or its model cannot be used.
        StoppedBySignal: SIGINT or SIGTERM stopped the child process.
    """
    code, text = call_in_child(partial(_inspect, agents, app_name, settings))
    answer = json.loads(text) if text else {"message": f"The agent cannot be loaded: {describe_exit(code)}."}
    if "message" in answer:
        raise BadInput(answer["message"], hint=answer.get("hint", ""))
    return OptimisedAgent(**answer)


def _inspect(agents: AgentsFolder, app_name: str, settings: OptimiserSettings) -> str:
    """Return the agent as JSON, or what is wrong."""
    from evals_app.execution.agent_source import find_source, load_source
    from evals_app.execution.optimisers import inspect_agent

    source = find_source(agents, app_name)
    try:
        agent, _ = run_in_loop(load_source(source))
        return json.dumps(asdict(inspect_agent(agent, settings, source.code_version)))
    except DevUIError as error:
        return json.dumps({"message": error.message, "hint": error.hint})
    except Exception as error:
        return json.dumps({"message": f"The agent cannot be loaded: {type(error).__name__}: {error}"})


class LocalEngine:
    """Runs the optimiser and its runs in this process."""

    def __init__(self, agents: AgentsFolder, app_name: str, listener: RunListener) -> None:
        self._agents = agents
        self._app_name = app_name
        self._listener = listener

    async def load_agent(self) -> None:
        """Load the agent, whose code may register models."""
        from evals_app.execution.agent_source import find_source, load_source

        await load_source(find_source(self._agents, self._app_name))

    async def find_next_step(self, optimisation_id: str) -> NextStep:
        """Return what the optimiser needs next."""
        from evals_app.execution import optimisers

        return await optimisers.find_next_step(optimisation_id)

    async def execute(self, run: EvalRun) -> None:
        """Execute a run that is pending, or that ended early."""
        run = await retry.read(rerun.reload_run, run.pk)
        if not run.active:
            [run] = await retry.write(steps.restart_attempts, run, self._agents)
        await execute_runs([run], self._agents, self._app_name, self._listener)


def carry_out_in_children(
    optimisation_id: str,
    agents: AgentsFolder,
    app_name: str,
    listener: RunListener,
    died: Callable[[str], None],
) -> Optimisation:
    """Carry out an optimisation in a child process, which is replaced if an agent ends it; return it as it ended.

    Raises:
        StoppedBySignal: SIGINT or SIGTERM stopped it.
    """
    deaths = 0
    finished = -1
    while steps.is_own(optimisation := retry.run_sync(steps.find_optimisation, optimisation_id)):
        before, finished = finished, optimisation.steps.exclude(finished_at=None).count()
        deaths = deaths + 1 if before == finished else 0
        if deaths > MAX_DEATHS:
            message = f"{MAX_DEATHS} processes of the agent ended at the same step."
            steps.end_own_optimisation(optimisation_id, Optimisation.Status.FAILED, message)
            continue
        code, _ = call_in_child(partial(_carry_out, optimisation_id, agents, app_name, listener))
        if active_runs := steps.list_active_runs(optimisation_id):
            died(describe_exit(code))
            continue_after_death(active_runs, ProcessDeath(describe_exit(code)), listener)
    return optimisation


def carry_out_here(
    optimisation_id: str, agents: AgentsFolder, app_name: str, listener: RunListener
) -> Optimisation:
    """Carry out an optimisation in this process; return it as it ended."""
    _carry_out(optimisation_id, agents, app_name, listener)
    return steps.find_optimisation(optimisation_id)


def _carry_out(optimisation_id: str, agents: AgentsFolder, app_name: str, listener: RunListener) -> str:
    run_in_loop(_drive(optimisation_id, LocalEngine(agents, app_name, listener)), signal.SIGTERM)
    return ""


async def _drive(optimisation_id: str, engine: LocalEngine) -> None:
    """Carry an optimisation out, with the heartbeat of the command, which owns it."""
    await engine.load_agent()
    owner = processes.own_id() or ""
    beat = partial(units_of_work.write, processes.record_heartbeat, owner)
    beating = asyncio.create_task(repeat(beat, processes.HEARTBEAT_S, "The heartbeat of the command"))
    try:
        await driver.drive_optimisation(optimisation_id, engine)
    finally:
        beating.cancel()
