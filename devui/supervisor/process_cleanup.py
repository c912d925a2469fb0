"""The rows that a process leaves behind when it ends: its own, those of its runs and eval runs, its agent's card."""

from __future__ import annotations

import logging

from devui.supervisor.runtime_process import Child
from sessions_app.agents import cards
from sessions_app.errors import StoreFault
from sessions_app.runs import lifecycle, processes
from sessions_app.store import retry, units_of_work

log = logging.getLogger(__name__)


async def record_stop(runtime_id: str) -> None:
    """Note that a process ends: this one. When the store does not take it, the next server sees that it has gone."""
    try:
        await units_of_work.write(processes.mark_stopped, runtime_id)
    except StoreFault as fault:
        log.warning("The end of this process was not noted: %s", fault.message)


def crash_orphans() -> None:
    """End the runs and eval runs that nobody else will end."""
    from evals_app.runs import writes as evals

    lifecycle.crash_orphans()
    evals.crash_orphans()


async def release_eval_runs(child: Child) -> list[str]:
    """Let the eval runs of a process that has died wait for the next one; return those that do."""
    from evals_app.runs import writes as evals

    death = evals.ProcessDeath(child.end_reason or child.how_it_ended, by_itself=not child.end_reason)
    active_ids = await retry.read(evals.active_runs_of, child.id)
    await retry.write(evals.continue_without_process, child.id, death)
    return await retry.read(evals.pending_runs_of, active_ids)


def crash_runs_of(runtime_id: str, why: str, spared: list[str]) -> list[str]:
    """End the runs and eval runs of a process that is gone, but those that are handed on. Return the runs' ids."""
    from evals_app.runs import writes as evals

    evals.crash_runs_of(runtime_id, why)
    return lifecycle.crash_runs_of(runtime_id, why, spared)


def write_failed_card(child: Child) -> None:
    """Write the card of a process that died before it wrote one itself: its last words have to do.

    The card tells whether it did by having changed: the clock may have been set since the process started.
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
