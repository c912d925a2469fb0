"""Export of runs as CSV: one line per attempt, one column per metric. Read-only."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from evals_app.analysis import run_summary
from evals_app.analysis.exports.run_json import iter_attempts
from evals_app.models import EvalAttempt, EvalRun
from evals_app.variants.variant import read_run_variant
from sessions_app.presentation import csv_cells

FACTS = (
    *("run", "app", "evalset", "case", "repetition", "status", "cause"),
    *("seconds", "tokens", "cost", "currency", "error", "note", "session", "code", "commit", "models"),
    "variant",
)


def as_csv(runs: Iterable[EvalRun]) -> str:
    """Return the attempts of runs as CSV (RFC 4180). Unknown values are empty, never 0."""
    run_list = list(runs)
    metrics = list(
        dict.fromkeys(column.name for run in run_list for column in run_summary.metric_columns(run))
    )
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*FACTS, *metrics])
    for run in run_list:
        writer.writerows(_iter_lines(run, metrics))
    return text.getvalue()


def _iter_lines(run: EvalRun, metrics: list[str]) -> Iterator[list[Any]]:
    models = " ".join(sorted({str(model) for model in json.loads(run.agent_models).values()}))
    variant = read_run_variant(run)
    currency = json.loads(run.prices).get("currency", "")
    for attempt in iter_attempts(run):
        scores = {
            result.metric: result.score for result in attempt.results.all() if result.invocation is None
        }
        facts = [
            *(run.id, run.app_name, run.evalset.evalset_id, attempt.case_id, attempt.repetition),
            *(attempt.status, attempt.cause, attempt.seconds, attempt.total_tokens, attempt.cost, currency),
            *(
                _error_text(attempt),
                attempt.note,
                attempt.session_id,
                run.code_version,
                run.git_revision,
                models,
                variant.name if variant else "",
            ),
        ]
        yield [csv_cells.csv_cell(value) for value in (*facts, *(scores.get(metric) for metric in metrics))]


def _error_text(attempt: EvalAttempt) -> str:
    return f"{attempt.error_type}: {attempt.error}" if attempt.error else ""
