"""An optimisation as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from evals_app.analysis.statistics import format_percent
from evals_app.cli.terminal_text import align_columns
from evals_app.optimisation.candidates import Candidate, OptimisationReport
from evals_app.optimisation.verdict import OptimisationVerdict
from sessions_app.store.short_texts import join_names

MAX_LISTED = 10
"""Cases of a set that are listed."""


def format_head(report: OptimisationReport) -> list[str]:
    """Return how the cases are divided, and what the optimisation does at most."""
    settings, optimisation = report.settings, report.optimisation
    return [
        f"{optimisation.evalset.path}: optimise the instruction of {optimisation.agent} with {settings.optimiser}"
        f" and {settings.model} (optimisation {optimisation.pk})",
        f"  training: {join_names(settings.training, MAX_LISTED)}",
        f"  validation: {join_names(settings.validation, MAX_LISTED)}",
        f"  {settings.bounds_text}",
    ]


def format_report(report: OptimisationReport, verdict: OptimisationVerdict | None) -> list[str]:
    """Return the candidates with their scores, what the optimisation has spent, and its verdict."""
    rows = [["candidate", "parent", "training", "validation"], *map(_candidate_row, report.candidates)]
    lines = [f"  {line}" for line in align_columns(rows)]
    return [*lines, f"  {report.spending.text}", *_iter_verdict(report, verdict)]


def _candidate_row(candidate: Candidate) -> list[str]:
    best = "  best" if candidate.is_best else ""
    parent = candidate.parent.name if candidate.parent else "–"
    name = f"{'  ' * candidate.shown_depth}{candidate.name}"
    return [
        name,
        parent,
        _format_score(candidate.training_score),
        f"{_format_score(candidate.validation_score)}{best}",
    ]


def _format_score(score: float | None) -> str:
    return "–" if score is None else format_percent(score)


def _iter_verdict(report: OptimisationReport, verdict: OptimisationVerdict | None) -> Iterator[str]:
    optimisation = report.optimisation
    if verdict:
        yield f"  {verdict.text}"
        return
    yield f"  {optimisation.get_status_display()}: {optimisation.error}".rstrip(": ")
    if optimisation.hint:
        yield f"  {optimisation.hint}"
    yield f"  To continue: --resume {optimisation.pk}"
