"""Cases × variants as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.outcomes import Outcomes
from evals_app.analysis.statistics import format_percent
from evals_app.analysis.variant_matrix import VariantMatrix
from evals_app.cli.terminal_text import align_columns, as_single_line, shorten
from evals_app.variants.variant import ORIGINAL

MAX_CELL_LENGTH = 40
"""Maximum characters of the name of a case or a variant."""


def format_matrix(matrix: VariantMatrix) -> list[str]:
    """Return the table of a matrix, and what the comparison says of each variant."""
    names = [_format_name(column.variant.name) for column in matrix.columns]
    rows = [["case", ORIGINAL, *names]]
    for row in matrix.rows:
        cells = [_format_change(change) for _, change in row.cells]
        rows.append([_format_name(row.key.label), _format_outcomes(row.original), *cells])
    rates = [column.rate for column in matrix.columns]
    rows.append(["pass rate", format_percent(matrix.rate.value), *rates])
    count = len(matrix.columns)
    head = f"{matrix.original.evalset.path}: {ORIGINAL} and {count} variant{'s' * (count != 1)}"
    return [head, *(f"  {line}" for line in align_columns(rows)), *_iter_summaries(matrix)]


def _format_name(name: str) -> str:
    return shorten(as_single_line(name), MAX_CELL_LENGTH)


def _format_outcomes(outcomes: Outcomes | None) -> str:
    return f"{outcomes.passed}/{outcomes.outcome_count}" if outcomes and outcomes.outcome_count else "–"


def _format_change(change: CaseChange | None) -> str:
    return f"{_format_outcomes(change.after)} {change.verdict}" if change else "–"


def _iter_summaries(matrix: VariantMatrix) -> Iterator[str]:
    for column in matrix.columns:
        yield f"  {_format_name(column.variant.name)}: {column.counts} (run {column.run.pk})"
    yield from (f"  {note}" for note in matrix.notes)
