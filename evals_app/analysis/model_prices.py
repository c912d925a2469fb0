"""Models that recent runs called, and their current prices. Read-only."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evals_app.models import EvalRun
from sessions_app.prices import Price, Prices

RUNS = 200
"""Number of newest runs that are read."""


@dataclass(frozen=True)
class Model:
    """A model, the number of recent runs that called it, and its current price (None: no price)."""

    name: str
    runs: int
    price: Price | None


def models_of_runs(table: Prices) -> list[Model]:
    """Return the models of agents and judges in the newest runs, those without a price first."""
    rows = EvalRun.objects.order_by("-created_at").values_list("agent_models", "config")[:RUNS]
    counts = Counter(
        name for models, config in rows for name in _names(json.loads(models), json.loads(config))
    )
    now = time.time()
    models = [Model(name, count, table.price_of(name, now)) for name, count in counts.items()]
    return sorted(models, key=lambda model: (model.price is not None, model.name))


def _names(models: Mapping[str, Any], config: Mapping[str, Any]) -> set[str]:
    return {str(name) for name in (*models.values(), *_judges(config)) if name}


def _judges(config: Mapping[str, Any]) -> Iterator[Any]:
    for criterion in (config.get("criteria") or {}).values():
        options = criterion.get("judge_model_options") or {} if isinstance(criterion, Mapping) else {}
        yield options.get("judge_model")
