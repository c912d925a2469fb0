"""Optimisations that a server carries out: the optimiser runs in the process of the agent, and so do its runs."""

from __future__ import annotations

from evals_app.models import EvalRun, Optimisation
from evals_app.optimisation import driver, steps
from evals_app.optimisation.settings import OptimiserSettings
from evals_app.optimisation.steps import NextStep, OptimisedAgent
from evals_app.runs import dispatch, rerun
from evals_app.runs.writes.runs import NewEvalRun
from sessions_app.agent_processes import processes
from sessions_app.runs import background, job_queue
from sessions_app.runs.runtime_client import provider
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import BadInput


async def start_optimisation(
    new_run: NewEvalRun, settings: OptimiserSettings, *, person: str = ""
) -> Optimisation:
    """Create an optimisation and begin to carry it out, after its agent's process has checked it.

    Raises:
        BadInput: the agent or the optimiser cannot be used, or workers run the agents.
        RuntimeUnavailable: the agent cannot be loaded.
    """
    _require_own_processes()
    agent = await inspect_agent(new_run.version.evalset.app_name, settings)
    optimisation = await units_of_work.write(
        lambda: steps.create_optimisation(new_run, settings, agent, source="page", person=person)
    )
    background.run_in_background(driver.drive_optimisation(optimisation.pk, ServerEngine()))
    return optimisation


async def resume_optimisation(optimisation: Optimisation, *, person: str = "") -> None:
    """Go on with an optimisation that ended early.

    Raises:
        DevUIError: it cannot be resumed.
    """
    _require_own_processes()
    settings = OptimiserSettings.from_json(optimisation.settings)
    agent = await inspect_agent(optimisation.evalset.app_name, settings)
    await units_of_work.write(lambda: steps.resume(optimisation.pk, agent.code_version, person=person))
    background.run_in_background(driver.drive_optimisation(optimisation.pk, ServerEngine()))


async def cancel_optimisation(optimisation: Optimisation) -> None:
    """Request the cancellation of an optimisation, and of its run that is being executed."""
    if not await units_of_work.write(steps.request_cancel, optimisation.pk):
        return
    for run in await units_of_work.read(steps.list_active_runs, optimisation.pk):
        await dispatch.cancel_run(run.pk)


async def inspect_agent(app_name: str, settings: OptimiserSettings) -> OptimisedAgent:
    """Return the agent of an app as its process describes it, checked with the optimiser and its model.

    Raises:
        BadInput: the agent or the optimiser cannot be used.
        RuntimeUnavailable: the agent cannot be loaded.
    """
    client = await provider().client(app_name)
    body = {"settings": settings.as_json()}
    return OptimisedAgent(**await client.call("POST", "/devui/optimisations/inspect", body))


def _require_own_processes() -> None:
    if job_queue.current_queue() is not None:
        raise BadInput(
            "A server whose agents run on workers does not carry out optimisations.",
            hint="Run `devui optimize` with the same DATABASE_URL: its results are shown here.",
        )


class ServerEngine:
    """Has the process of the agent run the optimiser, and delivers runs to it."""

    async def find_next_step(self, optimisation_id: str) -> NextStep:
        """Return what the optimiser needs next."""
        optimisation = await retry.read(steps.find_optimisation, optimisation_id)
        client = await provider().client(optimisation.evalset.app_name)
        answer = await client.call("POST", "/devui/optimisations/next", {"optimisation": optimisation_id})
        return NextStep(**answer)

    async def execute(self, run: EvalRun) -> None:
        """Deliver a run that is pending, or resume one that ended early; return when it has ended."""
        run = await retry.read(rerun.reload_run, run.pk)
        if not run.active:
            await dispatch.restart_and_deliver(run.pk, lambda _: steps.restart_attempts(run))
        elif run.status == EvalRun.Status.PENDING and run.runtime_id == processes.own_id():
            await dispatch.start_delivery(run)
        active = EvalRun.objects.filter(pk=run.pk, status__in=EvalRun.ACTIVE)
        async with subscribe() as notifications:
            while await retry.read(active.exists):
                await notifications.wait()
