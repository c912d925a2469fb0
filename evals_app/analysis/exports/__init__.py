"""A run as a file for others to read: JSON, CSV, JUnit XML, one self-contained HTML page. Only reads."""

from __future__ import annotations

from evals_app.analysis.exports.compared import comparison_facts, trend_facts
from evals_app.analysis.exports.facts import (
    as_json,
    attempt_facts,
    attempt_json,
    metric_json,
    missed,
    number,
    run_facts,
    run_json,
)
from evals_app.analysis.exports.junit import as_junit
from evals_app.analysis.exports.page import as_html
from evals_app.analysis.exports.table import as_csv

__all__ = [
    "as_csv",
    "as_html",
    "as_json",
    "as_junit",
    "attempt_facts",
    "attempt_json",
    "comparison_facts",
    "metric_json",
    "missed",
    "number",
    "run_facts",
    "run_json",
    "trend_facts",
]
