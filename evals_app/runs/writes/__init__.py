"""The service functions that change evalsets, eval runs, attempts and results. Each is one transaction.

Every change of a run or of one of its attempts increments the run's revision under its row's lock, so a page that
knows revision n can ask for newer changes and misses none.
"""

from __future__ import annotations

from evals_app.runs.writes.attempts import (
    CANCELLED_BY_USER,
    finish_attempt,
    note_judge,
    note_waiting,
    request_cancel_attempt,
    start_attempt,
)
from evals_app.runs.writes.crashes import (
    UNASSIGNED_S,
    ProcessDeath,
    active_runs_of,
    adopt_abandoned,
    continue_without_process,
    crash_abandoned,
    crash_orphans,
    crash_run,
    crash_runs_of,
    end_blocked,
    pending_runs_of,
    repeat_attempt,
)
from evals_app.runs.writes.imported_runs import import_run
from evals_app.runs.writes.notes import LONGEST_NOTE, mark_baseline, note_attempt, note_run
from evals_app.runs.writes.outcomes import Failure, Outcome, RunFacts, Score
from evals_app.runs.writes.resumption import restart_attempts
from evals_app.runs.writes.runs import (
    PROCESS_STOPPED,
    NewRun,
    assign_runs,
    claim_run,
    create_run,
    finish_run,
    note_facts,
    note_step,
    realm_of,
    request_cancel,
    set_parallelism,
)

__all__ = [
    "CANCELLED_BY_USER",
    "LONGEST_NOTE",
    "PROCESS_STOPPED",
    "UNASSIGNED_S",
    "Failure",
    "NewRun",
    "Outcome",
    "ProcessDeath",
    "RunFacts",
    "Score",
    "active_runs_of",
    "adopt_abandoned",
    "assign_runs",
    "claim_run",
    "continue_without_process",
    "crash_abandoned",
    "crash_orphans",
    "crash_run",
    "crash_runs_of",
    "create_run",
    "end_blocked",
    "finish_attempt",
    "finish_run",
    "import_run",
    "mark_baseline",
    "note_attempt",
    "note_facts",
    "note_judge",
    "note_run",
    "note_step",
    "note_waiting",
    "pending_runs_of",
    "realm_of",
    "repeat_attempt",
    "request_cancel",
    "request_cancel_attempt",
    "restart_attempts",
    "set_parallelism",
    "start_attempt",
]
