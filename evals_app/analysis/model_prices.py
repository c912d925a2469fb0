"""Models that sessions and recent eval runs called, and their current prices. Read-only."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals_app.models import EvalRun
from sessions_app.prices import Price, Prices
from sessions_app.prices.session_usage import usage_by_model

RUNS = 200
"""Number of newest runs that are read."""

MAX_MODELS = 200


@dataclass(frozen=True)
class Model:
    """A model, its tokens in sessions, the number of recent runs that called it, and its current price (None: none).

    The name is empty for calls whose model is unknown.
    """

    name: str
    tokens: int
    runs: int
    price: Price | None


def models_in_use(table: Prices) -> list[Model]:
    """Return the models of sessions, and those of agents and judges in the newest runs; those without a price first."""
    rows = EvalRun.objects.order_by("-created_at").values_list("agent_models", "config")[:RUNS]
    runs = Counter(
        name for models, config in rows for name in _model_names(json.loads(models), json.loads(config))
    )
    tokens = usage_by_model()
    now = time.time()
    models = [
        Model(name, tokens.get(name, 0), runs[name], table.find_price(name, now)) for name in {*tokens, *runs}
    ]
    return sorted(models, key=lambda model: (model.price is not None, -model.tokens, model.name))[:MAX_MODELS]


def missing_entries(models: Sequence[Model]) -> str:
    """Return the entries that the price file lacks, with a place for each price."""
    names = [
        json.dumps(model.name, ensure_ascii=False) for model in models if model.name and model.price is None
    ]
    return "\n\n".join(f"[[price]]\nmodel = {name}\ninput = …\noutput = …" for name in names)


def _model_names(models: Mapping[str, Any], config: Mapping[str, Any]) -> set[str]:
    return {str(name) for name in (*models.values(), *_judge_models(config)) if name}


def _judge_models(config: Mapping[str, Any]) -> Iterator[Any]:
    for criterion in (config.get("criteria") or {}).values():
        options = criterion.get("judge_model_options") or {} if isinstance(criterion, Mapping) else {}
        yield options.get("judge_model")
