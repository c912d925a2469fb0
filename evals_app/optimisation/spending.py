"""Attempts, model calls, tokens and cost of an optimisation, and the rest of its limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Count, Q, Sum

from evals_app.models import EvalAttempt, EvalRun, Optimisation, OptimisationStep
from evals_app.optimisation.settings import OptimiserSettings, count_nouns
from evals_app.runs.limits import EvalRunLimits, EvalSpending
from sessions_app.prices.costs import usages_cost
from sessions_app.prices.price_table import prices_from_json
from sessions_app.store.events.call_usage import CALL_COLUMNS, recorded_call_usage
from sessions_app.store.models import ModelCall

Kind = OptimisationStep.Kind


@dataclass(frozen=True)
class OptimisationSpending:
    """Work and cost of an optimisation so far.

    Attributes:
        attempts: ended attempts of the search and of the comparison.
        search_attempts: attempts that the search has ordered.
        model_calls: answers of the optimiser's model.
        tokens, cost: of attempts and of these answers; the cost is None if it is unknown.
    """

    attempts: int
    search_attempts: int
    model_calls: int
    tokens: int
    cost: float | None
    currency: str

    @property
    def text(self) -> str:
        """The work and its cost in words."""
        cost = "unknown cost" if self.cost is None else f"{self.cost:.4g} {self.currency}"
        calls = f"{count_nouns(self.model_calls, 'call')} of the optimiser's model"
        return (
            f"{count_nouns(self.attempts, 'attempt')}, {calls}, {count_nouns(self.tokens, 'token')}, {cost}"
        )


def read_spending(optimisation: Optimisation) -> OptimisationSpending:
    """Return what an optimisation has spent."""
    prices = prices_from_json(json.loads(optimisation.run_order)["prices"])
    answers = list(optimisation.steps.filter(kind=Kind.ANSWER))
    model = OptimiserSettings.from_json(optimisation.settings).model
    answers_cost = usages_cost([recorded_call_usage(_model_call(model, step)) for step in answers], prices)
    attempts = EvalAttempt.objects.filter(run__in=list_run_ids(optimisation))
    sums = attempts.aggregate(
        ended=Count("pk", filter=Q(finished_at__isnull=False)),
        tokens=Sum("total_tokens"),
        amount=Sum("cost"),
        unpriced=Count("pk", filter=Q(cost=None, total_tokens__gt=0)),
    )
    is_unknown = bool(sums["unpriced"]) or any(
        prices.find_unpriced([model], step.started_at) for step in answers if step.total_tokens
    )
    return OptimisationSpending(
        attempts=sums["ended"],
        search_attempts=_count_search_attempts(optimisation),
        model_calls=len(answers),
        tokens=(sums["tokens"] or 0) + sum(step.total_tokens for step in answers),
        cost=None if is_unknown else (sums["amount"] or 0.0) + (answers_cost.amount if answers_cost else 0.0),
        currency=prices.currency,
    )


def list_run_ids(optimisation: Optimisation) -> list[str]:
    """Return the ids of the runs of an optimisation: those of its candidates, and those of its comparison."""
    step_runs = optimisation.steps.exclude(run=None).values_list("run_id", flat=True)
    compared = EvalRun.objects.filter(
        Q(pk=optimisation.comparison_id) | Q(variant_of=optimisation.comparison_id, variant_of__isnull=False)
    )
    return [*filter(None, step_runs), *compared.values_list("pk", flat=True)]


def describe_reached_limit(
    optimisation: Optimisation, spending: OptimisationSpending, next_cases: Sequence[str] = ()
) -> str:
    """Return a sentence on the limit that an optimisation has reached; "" for none.

    `next_cases`: the batch that the optimiser wants to score next.
    """
    settings = OptimiserSettings.from_json(optimisation.settings)
    if spending.search_attempts + len(next_cases) > settings.max_search_attempts:
        return f"The limit of {settings.max_search_attempts:,} attempts of the search was reached."
    spent = EvalSpending(spending.tokens, spending.cost, spending.currency)
    return read_limits(optimisation).describe_reached(0.0, spent)


def remaining_limits(optimisation: Optimisation, spending: OptimisationSpending) -> EvalRunLimits:
    """Return the limits of the next run: what is left of the tokens and of the cost."""
    limits = read_limits(optimisation)
    return replace(
        limits,
        tokens=None if limits.tokens is None else limits.tokens - spending.tokens,
        cost=None if limits.cost is None else limits.cost - (spending.cost or 0.0),
    )


def read_limits(optimisation: Optimisation) -> EvalRunLimits:
    """Return the limits of an optimisation: tokens and cost of all of it, seconds of each attempt."""
    return EvalRunLimits.read(json.dumps(json.loads(optimisation.run_order)["limits"]))


def _count_search_attempts(optimisation: Optimisation) -> int:
    batches = optimisation.steps.filter(kind=Kind.EVALUATION).values_list("case_ids", flat=True)
    return sum(len(json.loads(case_ids)) for case_ids in batches)


def _model_call(model: str, step: OptimisationStep) -> ModelCall:
    """Return an unsaved model call with the time and the tokens of an answer."""
    columns = {column: getattr(step, column) for column in CALL_COLUMNS}
    return ModelCall(model=model, started_at=step.started_at, **columns)
