"""Slices of a run: the cases of each tag, their pass rate, and the earlier one. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals_app.analysis import baselines, case_matrix
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.statistics import Rate
from evals_app.cases.case_tags import tags_by_index
from evals_app.files.tags import sort_tags
from evals_app.models import RETRY, EvalRun


@dataclass(frozen=True)
class Slice:
    """The cases of a run that have a tag, or none of any (`untagged`). Every case has the same weight.

    Attributes:
        cases: number of cases of the run, also those without an outcome.
        rate: pass rate of the cases with an outcome.
        before, after: pass rates of the comparable cases, earlier and in this run; None without a comparison.
    """

    tag: str
    cases: int
    rate: Rate
    before: Rate | None = None
    after: Rate | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the slice as JSON values; `compared` is the number of comparable cases."""
        compared = {
            "compared": self.before.total if self.before else None,
            "before": self.before.value if self.before else None,
            "after": self.after.value if self.after else None,
        }
        interval = self.rate.interval
        return {
            "tag": self.tag,
            "cases": self.cases,
            "judged": self.rate.total,
            "passed": self.rate.value,
            "interval": [interval.low, interval.high],
            **compared,
        }

    @property
    def has_earlier(self) -> bool:
        """Tell whether cases of the slice can be compared with earlier outcomes."""
        return self.before is not None and self.before.total > 0


def read_slices(run: EvalRun, comparison: Comparison | None = None) -> list[Slice]:
    """Return the slices of a run by tag, the cases without tags last; [] without tags, and of retries.

    Args:
        comparison: of the run with earlier outcomes.
    """
    if run.source == RETRY:  # its attempts were chosen because they did not pass
        return []
    tags = tags_by_index(run.version)
    cases = case_matrix.read_case_summaries(run)
    changes = baselines.map_changes_to_positions(run, comparison) if comparison else {}
    slices = []
    for name in sort_tags(tag for case in cases for tag in tags[case.index]):
        tagged = [case for case in cases if name in tags[case.index]]
        judged = [case for case in tagged if case.judged]
        rate = Rate(sum(case.passed / case.judged for case in judged), len(judged))
        before, after = _compared_rates(
            [changes[case.index] for case in tagged if case.index in changes] if comparison else None
        )
        slices.append(Slice(name, len(tagged), rate, before, after))
    return slices


def _compared_rates(changes: Sequence[CaseChange] | None) -> tuple[Rate | None, Rate | None]:
    """Return the pass rates of comparable cases, before and after."""
    if changes is None:
        return None, None
    pairs = [
        (change.before.rate, change.after.rate)
        for change in changes
        if change.is_comparable and change.before and change.after
    ]
    return (
        Rate(sum(before for before, _ in pairs), len(pairs)),
        Rate(sum(after for _, after in pairs), len(pairs)),
    )
