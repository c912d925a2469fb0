"""Sentences about many cases or runs in few words, for the terminal and for comments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from evals_app.analysis.baselines import Reference
from evals_app.analysis.case_verdicts import CaseChange
from sessions_app.presentation.name_lists import join_names


def group_cases(cases: Sequence[CaseChange]) -> list[tuple[list[str], str]]:
    """Return the names of cases by their reason, so that each reason is written once."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        by_reason[case.reason].append(case.key.label)
    return [(names, reason) for reason, names in by_reason.items()]


def group_reasons(cases: Sequence[CaseChange]) -> list[str]:
    """Return the reasons of cases, each once, with the cases that it holds for."""
    return [f"{join_names(names)}: {reason}" for names, reason in group_cases(cases)]


def name_runs(reference: Reference, length: int = 32) -> str:
    """Return the ids of the runs that a run is compared with."""
    ids = [run.pk[:length] for run in reference.runs]
    return f"run{'s' * (len(ids) > 1)} {join_names(ids)}"
