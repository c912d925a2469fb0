"""A run ordered: what was asked for is checked as a whole, then its rows are made. Every door starts runs here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evals_app import configs, library, writes
from evals_app.models import EvalRun, EvalSet
from sessions_app.errors import BadInput, NotFound

MAX_ATTEMPTS = 20_000
MAX_PARALLELISM = 64
DEFAULT_PARALLELISM = 4
"""As in ADK (`base_eval_service.py`)."""


@dataclass(frozen=True)
class Order:
    """What to run: the cases (empty: all), how they are judged, how often and how many at once."""

    config: configs.Config
    case_ids: Sequence[str] = ()
    num_runs: int = 1
    parallelism: int = DEFAULT_PARALLELISM
    source: str = "page"


def order_run(evalset: EvalSet, order: Order) -> EvalRun:
    """Create a pending run of an evalset.

    Raises:
        BadFile: the evalset's file cannot be used.
        NotFound: the file is gone, or a case is not in it.
        BadInput: the configuration or a number cannot be meant.
    """
    library.check_usable(evalset)
    _check_number("Repetitions", order.num_runs, MAX_ATTEMPTS)
    _check_number("Parallelism", order.parallelism, MAX_PARALLELISM)
    cases = choose_cases(evalset, order.case_ids)
    if len(cases) * order.num_runs > MAX_ATTEMPTS:
        raise BadInput(
            f"{len(cases)} cases × {order.num_runs} repetitions are more than {MAX_ATTEMPTS:,} attempts.",
            hint="Choose fewer cases or repetitions.",
        )
    warnings = [*json.loads(evalset.warnings), *configs.check(order.config)]
    return writes.create_run(
        library.current_version(evalset),
        cases,
        config=order.config.data,
        config_source=order.config.source,
        case_ids=order.case_ids,
        num_runs=order.num_runs,
        parallelism=order.parallelism,
        warnings=warnings,
        source=order.source,
    )


def choose_cases(evalset: EvalSet, case_ids: Sequence[str]) -> list[tuple[int, str]]:
    """Return (place, id) of the cases asked for, in the order of the file; all when none is named.

    Raises:
        NotFound: a case is not in the evalset.
        BadInput: the evalset has no cases.
    """
    cases = [(index, case["id"]) for index, case in enumerate(json.loads(evalset.cases))]
    if not cases:
        raise BadInput(f"{evalset.path} has no cases.", hint="Add one to run it.")
    known = {case_id for _, case_id in cases}
    for case_id in case_ids:
        if case_id not in known:
            listed = ", ".join(sorted(known)[:10])
            raise NotFound(f"{evalset.path} has no case {case_id!r}.", hint=f"Its cases: {listed}.")
    return [case for case in cases if not case_ids or case[1] in set(case_ids)]


def _check_number(what: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise BadInput(f"{what} must be 1 to {most:,}, not {number}.", hint="Give a number in that range.")
