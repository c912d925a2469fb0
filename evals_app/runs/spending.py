"""Tokens and cost that the attempts of a run have spent: ended ones by their rows, active ones by recorded calls."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from django.db.models import Sum

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.limits import EvalRunLimits, EvalSpending
from sessions_app.prices import Prices
from sessions_app.store.events.call_usage import CALL_COLUMNS, add_tokens, split_tokens
from sessions_app.store.models import AgentSession, ModelCall

UNPRICED_SAMPLE = 20
"""Attempts of unknown cost whose models are named: the run stops at the first."""


def spending_since(
    run: EvalRun, running: Sequence[EvalAttempt], since: float, limits: EvalRunLimits, costs: Prices
) -> EvalSpending:
    """Return the spending since a time; it is read only if a limit depends on it."""
    if not limits.has_tokens and not limits.has_cost:
        return EvalSpending()
    ended = run.attempts.filter(started_at__gte=since).exclude(status=EvalAttempt.Status.RUNNING)
    sums = ended.aggregate(tokens=Sum("total_tokens"), cost=Sum("cost"))
    realms = [attempt.realm for attempt in running]
    in_flight = AgentSession.objects.filter(realm__in=realms).aggregate(all=Sum("total_tokens"))["all"]
    tries = _earlier_tries(run, since)
    tokens = (sums["tokens"] or 0) + (in_flight or 0) + sum(item["total_tokens"] for item in tries)
    if not limits.has_cost:
        return EvalSpending(tokens)
    usage = _usage_in(realms)
    unknown_costs = ended.filter(cost=None, total_tokens__gt=0)
    unknown = list(unknown_costs.values_list("by_model", flat=True)[:UNPRICED_SAMPLE])
    models = {model for by_model in unknown for model in json.loads(by_model)}
    unpriced = costs.find_unpriced(sorted(models | usage.keys()))
    if unpriced or unknown or any(item["total_tokens"] and item["cost"] is None for item in tries):
        return EvalSpending(tokens, None, costs.currency, tuple(unpriced))
    now = costs.cost(usage, time.time()) if usage else 0.0
    cost = (sums["cost"] or 0.0) + (now or 0.0) + sum(item["cost"] or 0.0 for item in tries)
    return EvalSpending(tokens, cost, costs.currency)


def _earlier_tries(run: EvalRun, since: float) -> list[dict[str, Any]]:
    """Return the tries since a time that were followed by another one because their process died."""
    tries_by_attempt = run.attempts.exclude(earlier="[]").values_list("earlier", flat=True)
    return [
        earlier_try
        for tries in tries_by_attempt
        for earlier_try in json.loads(tries)
        if (earlier_try["started_at"] or 0.0) >= since
    ]


def _usage_in(realms: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the recorded tokens of model calls in realms, by model."""
    calls = ModelCall.objects.filter(session__realm__in=realms, by_callback=False)
    used: dict[str, dict[str, int]] = {}
    for model, *counts in calls.filter(finished_at__isnull=False).values_list("model", *CALL_COLUMNS):
        add_tokens(used.setdefault(model, {}), split_tokens(*counts))
    return used
