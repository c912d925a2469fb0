"""A case of a matrix of variants: what the original and each variant did with it, side by side. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from evals_app.analysis import side_by_side
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.outcomes import CaseKey
from evals_app.analysis.side_by_side import CaseTurnPair, Side, SideBySide
from evals_app.analysis.variant_matrix import VariantColumn, VariantMatrix
from sessions_app.store.errors import NotFound


@dataclass(frozen=True)
class CaseColumn:
    """A variant of a case, compared with the original. `sides.before` is the original."""

    variant: VariantColumn
    change: CaseChange
    sides: SideBySide


@dataclass(frozen=True)
class CaseTurnRow:
    """A turn of the case: the original's, from the comparison with the first variant, and that of each variant."""

    number: int
    first: CaseTurnPair | None
    cells: Sequence[tuple[CaseColumn, CaseTurnPair | None]]

    @property
    def user(self) -> str:
        """The user's message, of the original if it reached the turn."""
        pairs = [pair for _, pair in self.cells if pair]
        return (self.first or pairs[0]).user if pairs else ""


@dataclass(frozen=True)
class VariantCase:
    """A case with the original and the variants that have been compared with it."""

    key: CaseKey
    columns: Sequence[CaseColumn]

    @property
    def original(self) -> Side | None:
        """The case with the original."""
        return self.columns[0].sides.before if self.columns else None

    @property
    def turns(self) -> list[CaseTurnRow]:
        """The turns of all columns."""
        by_turn = zip_longest(*(column.sides.turns for column in self.columns))
        return [
            CaseTurnRow(
                number,
                next((pair for pair in pairs if pair and pair.before), None),
                list(zip(self.columns, pairs, strict=True)),
            )
            for number, pairs in enumerate(by_turn, start=1)
        ]


def read_variant_case(matrix: VariantMatrix, position: int) -> VariantCase:
    """Return a case of a matrix by its position in the evalset.

    Raises:
        NotFound: the run did not execute such a case.
    """
    row = next((row for row in matrix.rows if row.position == position), None)
    if row is None:
        raise NotFound(
            f"Run {matrix.original.pk} has no case at position {position}.", hint="Its page lists the cases."
        )
    columns = [
        CaseColumn(variant, change, side_by_side.read_case(matrix.original, variant.run, change))
        for variant, change in row.cells
        if change is not None
    ]
    return VariantCase(row.key, columns)
