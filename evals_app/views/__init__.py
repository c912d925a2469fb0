"""Pages of the evals room, one module for each thing that people look at."""

from evals_app.views import cases, changes, making, versions
from evals_app.views.compare import compare
from evals_app.views.evalsets import evalset, index
from evals_app.views.notes import mark_baseline, note_attempt, note_run
from evals_app.views.replays import replay
from evals_app.views.results import export, run
from evals_app.views.runs import cancel, cancel_attempt, repeat, resume, retry, set_parallelism
from evals_app.views.trends import prices, trend

__all__ = [
    "cancel",
    "cancel_attempt",
    "cases",
    "changes",
    "compare",
    "evalset",
    "export",
    "index",
    "making",
    "mark_baseline",
    "note_attempt",
    "note_run",
    "prices",
    "repeat",
    "replay",
    "resume",
    "retry",
    "run",
    "set_parallelism",
    "trend",
    "versions",
]
