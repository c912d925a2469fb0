"""Creation of runs: an order is checked as a whole, then its rows are created. All entry points use this module."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals_app.files import library
from evals_app.metrics import config as configs
from evals_app.models import EvalRun, EvalSet
from evals_app.runs.limits import MAX_PARALLELISM, EvalRunLimits
from evals_app.runs.replay import recorded_runs
from evals_app.runs.shards import Shard
from evals_app.runs.writes import runs
from sessions_app import prices
from sessions_app.prices import Prices
from sessions_app.store.errors import BadInput, NotFound

MAX_ATTEMPTS = 20_000
MAX_LISTED = 10
"""Cases that an error names."""
DEFAULT_PARALLELISM = 4
"""As in ADK (`base_eval_service.py`)."""


@dataclass(frozen=True)
class RunOrder:
    """Cases (empty: all), configuration, repetitions and parallelism of a new run.

    `policy` is the replay policy; its run may be a prefix of an id, or "last". `prices` None: the price table of this
    server's agents. `shard`: the part of the cases that runs; None: all. `person`: name of the person who orders it;
    empty: unknown.
    """

    config: configs.RunConfig
    case_ids: Sequence[str] = ()
    num_runs: int = 1
    parallelism: int = DEFAULT_PARALLELISM
    limits: EvalRunLimits = EvalRunLimits()
    policy: Mapping[str, Any] = field(default_factory=dict)
    prices: Prices | None = None
    source: str = "page"
    person: str = ""
    shard: Shard | None = None


def order_run(evalset: EvalSet, order: RunOrder, run_id: str = "") -> EvalRun:
    """Create a pending run of an evalset. An empty `run_id` is generated.

    Raises:
        BadFile, NotFound, BadInput: as `prepare_run`.
    """
    return runs.create_run(prepare_run(evalset, order), run_id)


def prepare_run(evalset: EvalSet, order: RunOrder) -> runs.NewEvalRun:
    """Return the run that an order describes, checked as a whole.

    Raises:
        BadFile: the evalset's file is invalid.
        NotFound: the file is gone, or a case is not in it.
        BadInput: the configuration or a number is invalid.
    """
    library.check_usable(evalset)
    check_repetitions(order.num_runs)
    check_parallelism(order.parallelism)
    cases = choose_cases(evalset, order.case_ids)
    if order.shard:
        cases = order.shard.choose(cases)
    if len(cases) * order.num_runs > MAX_ATTEMPTS:
        raise BadInput(
            f"{len(cases)} cases × {order.num_runs} repetitions are more than {MAX_ATTEMPTS:,} attempts.",
            hint="Choose fewer cases or repetitions.",
        )
    costs = prices.current_prices() if order.prices is None else order.prices
    version = library.current_version(evalset)
    contents = json.loads(version.content)["eval_cases"]
    config = configs.add_automatic_metrics(order.config, [contents[index] for index, _ in cases])
    warnings = [*json.loads(evalset.warnings), *configs.check_config(config), *map(str, costs.problems)]
    return runs.NewEvalRun(
        version,
        cases,
        config=config.data,
        config_source=config.source,
        case_ids=order.case_ids,
        shard=str(order.shard or ""),
        num_runs=order.num_runs,
        parallelism=order.parallelism,
        limits=order.limits.as_json(),
        policy=recorded_runs.resolve_policy(evalset, order.policy),
        prices=costs.as_json(),
        warnings=warnings,
        source=order.source,
        person=order.person,
    )


def choose_cases(evalset: EvalSet, case_ids: Sequence[str]) -> list[tuple[int, str]]:
    """Return (position, id) of the requested cases in file order; all if none is named.

    Raises:
        NotFound: a case is not in the evalset.
        BadInput: the evalset has no cases.
    """
    cases = [(index, case["id"]) for index, case in enumerate(json.loads(evalset.cases))]
    if not cases:
        raise BadInput(f"{evalset.path} has no cases.", hint="Add one to run it.")
    existing_ids = {case_id for _, case_id in cases}
    for case_id in case_ids:
        if case_id not in existing_ids:
            listed, more = sorted(existing_ids)[:MAX_LISTED], len(existing_ids) - MAX_LISTED
            unnamed = f" and {more:,} more" if more > 0 else ""
            raise NotFound(
                f"{evalset.path} has no case {case_id!r}.", hint=f"Its cases: {', '.join(listed)}{unnamed}."
            )
    return [case for case in cases if not case_ids or case[1] in set(case_ids)]


def split_case_ids(evalset: EvalSet, text: str) -> list[str]:
    """Return the ids that a text names, separated by commas.

    Ids may have commas and outer blanks, so the longest id that fits is taken. An unknown id loses its outer blanks.
    """
    existing_ids = {case["id"] for case in json.loads(evalset.cases)}
    longest = 1 + max((case_id.count(",") for case_id in existing_ids), default=0)
    ids: list[str] = []
    words = text.split(",")
    while words:
        spellings = (
            (spelling, count)
            for count in range(min(longest, len(words)), 0, -1)
            for joined in [",".join(words[:count])]
            for spelling in (joined, joined.strip())
        )
        unknown = (words[0].strip(), 1)
        known = (candidate for candidate in spellings if candidate[0] in existing_ids)
        case_id, count = next(known, unknown)
        if case_id:
            ids.append(case_id)
        words = words[count:]
    return ids


def check_repetitions(number: int) -> None:
    """Require a possible number of repetitions of every case.

    Raises:
        BadInput: it is not possible.
    """
    _check_number("Repetitions", number, MAX_ATTEMPTS)


def check_parallelism(number: int) -> None:
    """Require a valid number of attempts at once.

    Raises:
        BadInput: the number is out of range.
    """
    _check_number("Parallelism", number, MAX_PARALLELISM)


def _check_number(subject: str, number: int, maximum: int) -> None:
    if not 1 <= number <= maximum:
        raise BadInput(
            f"{subject} must be 1 to {maximum:,}, not {number}.", hint="Give a number in that range."
        )
