"""The verdict of an optimisation: the comparison of the best candidate with the original, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from evals_app.analysis.statistics import format_percent
from evals_app.analysis.variant_matrix import VariantMatrix, read_matrix
from evals_app.models import Optimisation


@dataclass(frozen=True)
class OptimisationVerdict:
    """The verdict on the best candidate. `is_proven`: chance does not explain that it is better."""

    text: str
    is_proven: bool = False
    matrix: VariantMatrix | None = None


def read_verdict(optimisation: Optimisation) -> OptimisationVerdict | None:
    """Return the verdict on the best candidate; None before the optimisation has ended."""
    if optimisation.status != Optimisation.Status.DONE:
        return None
    if optimisation.best_instruction == optimisation.instruction:
        return OptimisationVerdict(
            "No candidate was better than the original in the search, so there is nothing to compare."
        )
    matrix = read_matrix(optimisation.comparison) if optimisation.comparison else None
    if matrix is None or (comparison := matrix.columns[0].comparison) is None:
        return OptimisationVerdict("The runs of the comparison were deleted, so its verdict is unknown.")
    rates = (
        f"{format_percent(matrix.rate.value)} of the validation attempts passed with the original,"
        f" {format_percent(comparison.after_rate.value)} with the best candidate"
    )
    if comparison.whole.is_better:
        return OptimisationVerdict(f"Better: {rates}. Chance does not explain the gain.", True, matrix)
    if comparison.whole.is_worse:
        return OptimisationVerdict(f"Worse: {rates}. Chance does not explain the loss.", matrix=matrix)
    return OptimisationVerdict(
        f"No proven gain: {rates}. The difference is not more than chance.", matrix=matrix
    )
