"""Tokens and time that an attempt's models used, from recorded model calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from evals_app.models import EvalAttempt
from evals_app.runs.writes.outcomes import Outcome
from sessions_app import prices
from sessions_app.delivery.failure import Failure
from sessions_app.store.database.compiled_query import CompiledQuery
from sessions_app.store.events.call_usage import CALL_COLUMNS, add_tokens, split_tokens
from sessions_app.store.models import AgentSession, ModelCall

VERSION_CALLS = 200
"""Model calls of a run of which the versions of models are read."""

Tokens = dict[str, int]
"""Prompt, output, thoughts (part of the output), cached (part of the prompt), calls."""


@dataclass(frozen=True)
class Usage:
    """Usage of an attempt's models.

    Attributes:
        tokens: of all calls, as reported by the models.
        seconds: time with at least one active call; None: no call was recorded.
    """

    by_model: Mapping[str, Tokens] = field(default_factory=dict)
    tokens: int = 0
    seconds: float | None = None

    def total(self, name: str) -> int:
        """Return the sum over models of prompt, output, thoughts, cached or calls."""
        return sum(used[name] for used in self.by_model.values())


def _answered_calls(session_pk: int) -> list[QuerySet[ModelCall, tuple[Any, ...]]]:
    calls = ModelCall.objects.filter(session=session_pk, by_callback=False)
    return [calls.values_list("pk", "model", "started_at", "finished_at", *CALL_COLUMNS)]


_CALLS = CompiledQuery(_answered_calls, -1)


def read_usage(session_pk: int) -> Usage:
    """Return the usage of a session's models. Calls that a callback answered are not counted."""
    by_model: dict[str, Tokens] = {}
    spans = []
    tokens = 0
    for _, _, model, started_at, finished_at, *counts in sorted(_CALLS.rows(session_pk)):
        add_tokens(by_model.setdefault(model, {}), split_tokens(*counts) | {"calls": 1})
        tokens += counts[CALL_COLUMNS.index("total_tokens")]
        if finished_at is not None:
            spans.append((started_at, finished_at))
    return Usage(by_model, tokens, _covered_seconds(spans) if spans else None)


def read_model_versions(run_id: str) -> dict[str, str]:
    """Return the versions of its models that the newest responses of a run named, such as `gemini-2.5-flash-002`."""
    calls = ModelCall.objects.filter(session__eval_attempts__run=run_id, response__isnull=False)
    versions: dict[str, set[str]] = {}
    for model, response in calls.order_by("-pk").values_list("model", "response")[:VERSION_CALLS]:
        named = (part.get("model_version") for part in json.loads(response or "[]"))
        versions.setdefault(model, set()).update(str(version) for version in named if version)
    return {model: ", ".join(sorted(names)) for model, names in versions.items() if names}


def with_spending(
    attempt: EvalAttempt, failure: Failure | None = None, status: str = EvalAttempt.Status.ERROR
) -> Outcome:
    """Return an outcome with session and spending of an interrupted attempt.

    Its cost is unknown if its process died before all calls were recorded: a cost is never too low.
    """
    session = AgentSession.objects.filter(realm=attempt.realm).order_by("pk").first()
    if session is None:
        return Outcome(status, failure=failure)
    used = read_usage(session.pk)
    costs = prices.prices_from_json(json.loads(attempt.run.prices))
    is_whole = used.tokens >= session.total_tokens
    return Outcome(
        status,
        session.pk,
        session.total_tokens,
        failure=failure,
        prompt_tokens=used.total("prompt"),
        output_tokens=used.total("output"),
        cached_tokens=used.total("cached"),
        by_model=used.by_model,
        cost=costs.cost(used.by_model, attempt.started_at or 0.0) if is_whole else None,
        model_seconds=used.seconds,
    )


def _covered_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that spans cover; overlaps count once."""
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered
