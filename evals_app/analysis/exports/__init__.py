"""Exports of runs and comparisons: JSON, CSV, JUnit XML, self-contained HTML pages, Markdown. Read-only."""

from __future__ import annotations

from evals_app.analysis.exports.comparison_json import comparison_facts, trend_facts
from evals_app.analysis.exports.comparison_page import comparison_html
from evals_app.analysis.exports.html_page import as_html, case_html
from evals_app.analysis.exports.junit import as_junit
from evals_app.analysis.exports.markdown import as_markdown
from evals_app.analysis.exports.run_csv import as_csv
from evals_app.analysis.exports.run_json import (
    as_json,
    attempt_facts,
    attempt_json,
    attempts_of,
    failure_reason,
    metric_json,
    run_facts,
    run_json,
)

__all__ = [
    "as_csv",
    "as_html",
    "as_json",
    "as_junit",
    "as_markdown",
    "attempt_facts",
    "attempt_json",
    "attempts_of",
    "case_html",
    "comparison_facts",
    "comparison_html",
    "failure_reason",
    "metric_json",
    "run_facts",
    "run_json",
    "trend_facts",
]
