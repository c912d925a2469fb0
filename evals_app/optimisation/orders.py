"""Orders of optimisations: the run that its runs are like, the choice of cases by tag, and the file of the best one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from evals_app.cases.case_tags import tags_by_index
from evals_app.files import library
from evals_app.models import EvalSet, Optimisation
from evals_app.optimisation.steps import make_variant
from evals_app.runs import run_orders
from evals_app.runs.writes.runs import NewEvalRun
from sessions_app.store.errors import BadInput


def make_shared_order(new_run: NewEvalRun) -> NewEvalRun:
    """Return the run that the runs of an optimisation are like.

    Raises:
        BadInput: a limit of seconds is given, which an optimisation does not have.
    """
    if "seconds" in new_run.limits:
        raise BadInput(
            "An optimisation has no limit of seconds.",
            hint="Limit tokens, cost, or the seconds of an attempt (attempt_seconds).",
        )
    return replace(new_run, case_ids=(), shard="")


def choose_tagged_cases(evalset: EvalSet, case_ids: Collection[str], tags: Collection[str]) -> list[str]:
    """Return the given cases and those that have one of the tags, in the order of the file.

    Raises:
        BadInput: no case has one of the tags.
    """
    tags_of_cases = tags_by_index(library.current_version(evalset))
    cases = [(case_id, set(tags_of_cases[index])) for index, case_id in run_orders.choose_cases(evalset, ())]
    existing_tags = {tag for _, case_tags in cases for tag in case_tags}
    if unknown := [tag for tag in tags if tag not in existing_tags]:
        raise BadInput(
            f"No case has the tag {unknown[0]!r}.",
            hint=f"Tags of the cases: {', '.join(sorted(existing_tags))}.",
        )
    chosen = [case_id for case_id, case_tags in cases if case_id in case_ids or case_tags & set(tags)]
    return [*chosen, *(case_id for case_id in case_ids if case_id not in chosen)]


def save_variant(optimisation: Optimisation, path: Path) -> bool:
    """Write the best candidate as a variant file; False if that is the original.

    Raises:
        BadInput: the file cannot be written.
    """
    variant = make_variant(optimisation, optimisation.best_instruction or optimisation.instruction)
    if variant is None:
        return False
    try:
        path.write_text(variant.file_text, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written: {error.strerror}.", hint="The candidates are in the store."
        ) from error
    return True
