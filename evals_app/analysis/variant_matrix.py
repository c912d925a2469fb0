"""Cases × variants: the outcomes of a run of the original, and how each variant compares with them. Read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evals_app.analysis import baselines
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.comparability import read_cases
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.outcomes import CaseKey, Outcomes
from evals_app.analysis.statistics import Rate, format_percent
from evals_app.analysis.stored_outcomes import read_outcomes
from evals_app.models import EvalRun
from evals_app.runs.variant_orders import list_variant_runs
from evals_app.variants.variant import Variant, read_run_variant


@dataclass(frozen=True)
class VariantColumn:
    """A variant and the comparison of its run with the original's; None until the run has ended."""

    run: EvalRun
    variant: Variant
    comparison: Comparison | None

    @cached_property
    def changes(self) -> Mapping[CaseKey, CaseChange]:
        """The comparison by case."""
        return {case.key: case for case in self.comparison.cases} if self.comparison else {}

    @property
    def counts(self) -> str:
        """Number of cases with each verdict, such as "2 regressed, 1 fixed"."""
        counts = self.comparison.counts if self.comparison else {}
        return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "not compared"

    @property
    def rate(self) -> str:
        """Mean pass rate of the cases with the variant, and whether it is worse or better as a whole; – if unknown."""
        if self.comparison is None:
            return "–"
        verdict = (
            " worse"
            if self.comparison.whole.is_worse
            else " better"
            if self.comparison.whole.is_better
            else ""
        )
        return f"{format_percent(self.comparison.after_rate.value)}{verdict}"


@dataclass(frozen=True)
class VariantRow:
    """A case: its outcomes with the original, and for each variant the comparison; None without one.

    `position` is that of the case in the evalset, from 0.
    """

    position: int
    key: CaseKey
    original: Outcomes
    cells: Sequence[tuple[VariantColumn, CaseChange | None]]


@dataclass(frozen=True)
class VariantMatrix:
    """A run of the original and its variants, side by side."""

    original: EvalRun
    columns: Sequence[VariantColumn]
    rows: Sequence[VariantRow]

    @property
    def is_active(self) -> bool:
        """Tell whether the run of the original, or of a variant, has not ended."""
        return self.original.active or any(column.run.active for column in self.columns)

    @property
    def rate(self) -> Rate:
        """Mean pass rate of the cases that have outcomes with the original."""
        rates = [row.original.rate for row in self.rows if row.original.outcome_count]
        return Rate(sum(rates), len(rates))

    @property
    def notes(self) -> list[str]:
        """Notes on the verdicts, each once."""
        comparisons = [column.comparison for column in self.columns if column.comparison]
        return list(dict.fromkeys(note for comparison in comparisons for note in comparison.notes))


def read_matrix(original: EvalRun) -> VariantMatrix | None:
    """Return the cases × variants of a run of the original, in the order of the file; None if it has no variants."""
    variant_runs = list_variant_runs(original)
    if not variant_runs:
        return None
    columns = [
        VariantColumn(
            run,
            variant,
            None if run.active or original.active else baselines.compare_runs(original, run),
        )
        for run in variant_runs
        if (variant := read_run_variant(run))
    ]
    outcomes = read_outcomes(original)
    keys = [case.key for case in read_cases(original.version)]
    rows = [
        VariantRow(position, key, outcomes[key], [(column, column.changes.get(key)) for column in columns])
        for position, key in enumerate(keys)
        if outcomes[key].ran
    ]
    return VariantMatrix(original, columns, rows)
