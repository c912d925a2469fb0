"""Records of a process's end: its own row, those of its runs and eval runs, its agent's card."""

from __future__ import annotations

import logging

from devui.supervisor.runtime_process import RuntimeChild
from sessions_app.agent_processes import processes
from sessions_app.agents import cards
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import StoreFault
from sessions_app.store.models import Run

log = logging.getLogger(__name__)


async def record_stop(runtime_id: str) -> None:
    """Record that this process ends. If the store does not accept it, the next server detects the end."""
    try:
        await units_of_work.write(processes.mark_stopped, runtime_id)
    except StoreFault as fault:
        log.warning("The end of this process could not be recorded: %s", fault.message)


def has_active_runs(runtime_id: str) -> bool:
    """Tell whether a process has started a run, an eval run or an attempt that has not ended."""
    from evals_app.models import EvalAttempt, EvalRun

    return any(
        model.objects.filter(runtime_id=runtime_id, status=model.Status.RUNNING).exists()
        for model in (Run, EvalRun, EvalAttempt)
    )


async def release_eval_runs(child: RuntimeChild) -> list[str]:
    """Queue the eval runs of a dead process for the next one, and return their ids."""
    from evals_app.runs.writes import crashes

    death = crashes.ProcessDeath(child.end_reason or child.how_it_ended, by_itself=not child.end_reason)
    active_ids = await retry.read(crashes.list_active, child.id)
    await retry.write(crashes.continue_without_process, child.id, death)
    return await retry.read(crashes.list_pending, active_ids)


def write_failed_card(child: RuntimeChild) -> None:
    """Write the card of a process that died before it wrote one, with its last output.

    An unchanged card tells that the process wrote none; times cannot tell, because the clock may have been set.
    """
    if cards.last_checked_at(child.app_name) == child.card_before:
        error = {
            "type": "RuntimeCrashed",
            "message": child.describe_end(),
            "file": "",
            "line": None,
            "traceback": "\n".join(child.output.last_lines),
        }
        cards.save_failure(child.app_name, child.config.code_version, error)
