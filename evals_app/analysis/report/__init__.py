"""Report of a run: its summary, and the matrix of its cases and metrics. Read-only."""

from __future__ import annotations

from typing import Any

from evals_app.analysis.report.case_matrix import (
    PAGE,
    SEVERITY,
    CaseRow,
    Cell,
    Filters,
    Group,
    Matrix,
    Tally,
    changed_since,
    matrix,
    rows_of,
    tally,
)
from evals_app.analysis.report.run_summary import (
    Column,
    Summary,
    bar,
    columns_of,
    details_of,
    find_run,
    is_informational,
    sessions_of,
    summary,
)
from evals_app.models import EvalRun
from evals_app.runs.progress import progress_of


def run_context(run: EvalRun) -> dict[str, Any]:
    """Return the template context of a run's summary, for its page and its socket."""
    return {
        "run": run,
        "summary": summary(run),
        "tally": tally(run),
        "bar": bar(run),
        "progress": progress_of(run),
    }


__all__ = [
    "PAGE",
    "SEVERITY",
    "CaseRow",
    "Cell",
    "Column",
    "Filters",
    "Group",
    "Matrix",
    "Summary",
    "Tally",
    "bar",
    "changed_since",
    "columns_of",
    "details_of",
    "find_run",
    "is_informational",
    "matrix",
    "rows_of",
    "run_context",
    "sessions_of",
    "summary",
    "tally",
]
