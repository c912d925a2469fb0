"""Sentences about many cases or runs in few words, for the terminal and for comments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from evals_app.analysis.baselines import Reference
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.ci_gate import GateResult
from sessions_app.store.short_texts import join_names


def group_cases(cases: Sequence[CaseChange]) -> list[tuple[list[str], str]]:
    """Return the names of cases by their reason, so that each reason is written once."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        by_reason[case.reason].append(case.key.label)
    return [(names, reason) for reason, names in by_reason.items()]


def group_reasons(cases: Sequence[CaseChange]) -> list[str]:
    """Return the reasons of cases, each once, with the cases that it holds for."""
    return [f"{join_names(names)}: {reason}" for names, reason in group_cases(cases)]


def group_failures(result: GateResult) -> list[str]:
    """Return why a run fails: the reasons of single cases first, each once, with the cases that it holds for."""
    fails = set(result.fails)
    changes = result.comparison.cases if result.comparison else []
    cases = {reason: case for case in changes if (reason := f"{case.key.label}: {case.reason}") in fails}
    return [*group_reasons(list(cases.values())), *(why for why in result.fails if why not in cases)]


def name_runs(reference: Reference, length: int = 32) -> str:
    """Return the ids of the runs that a run is compared with."""
    ids = [run.pk[:length] for run in reference.runs]
    return f"run{'s' * (len(ids) > 1)} {join_names(ids)}"
