"""The only door for changes to evalsets, eval runs, attempts and results. Each function is one transaction.

Every change of a run or of one of its attempts takes the run's next revision under its row's lock, so that a
page that knows revision n can ask for what is newer and misses nothing.
"""

from __future__ import annotations

from evals_app.runs.writes.attempts import (
    BY_HAND,
    cancel_attempt,
    finish_attempt,
    note_judge,
    note_waiting,
    request_cancel_attempt,
    start_attempt,
)
from evals_app.runs.writes.crashes import (
    UNASSIGNED_S,
    Death,
    active_runs_of,
    crash_orphans,
    crash_run,
    crash_runs_of,
    end_blocked,
    go_on_without,
    repeat_attempt,
    waiting_of,
)
from evals_app.runs.writes.imported_runs import record_run
from evals_app.runs.writes.notes import LONGEST_NOTE, mark_baseline, note_attempt, note_run
from evals_app.runs.writes.outcomes import Facts, Failure, Outcome, Recorded, Score
from evals_app.runs.writes.resumption import take_up
from evals_app.runs.writes.runs import (
    assign,
    claim_run,
    create_run,
    finish_run,
    note_facts,
    realm_of,
    request_cancel,
    set_parallelism,
)

__all__ = [
    "BY_HAND",
    "LONGEST_NOTE",
    "UNASSIGNED_S",
    "Death",
    "Facts",
    "Failure",
    "Outcome",
    "Recorded",
    "Score",
    "active_runs_of",
    "assign",
    "cancel_attempt",
    "claim_run",
    "crash_orphans",
    "crash_run",
    "crash_runs_of",
    "create_run",
    "end_blocked",
    "finish_attempt",
    "finish_run",
    "go_on_without",
    "mark_baseline",
    "note_attempt",
    "note_facts",
    "note_judge",
    "note_run",
    "note_waiting",
    "realm_of",
    "record_run",
    "repeat_attempt",
    "request_cancel",
    "request_cancel_attempt",
    "set_parallelism",
    "start_attempt",
    "take_up",
    "waiting_of",
]
