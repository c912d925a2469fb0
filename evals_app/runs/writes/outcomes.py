"""Data classes in which the execution reports the results of attempts and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sessions_app.delivery.failure import Failure


@dataclass(frozen=True)
class MetricScore:
    """Score of a metric for one turn, or for the whole attempt (invocation None)."""

    position: int
    metric: str
    invocation: int | None
    score: float | None
    threshold: float | None
    status: str
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Result of an attempt.

    Attributes:
        by_model: model → {prompt, output, cached, calls}: tokens, and number of calls.
        cost: in the currency of the run's price table; None: unknown.
        model_seconds: time spent waiting for models; None: unknown.
        judge: like `by_model`, of judges and simulated users.
        differences: requests of a replay that differ from the recording.
        fixture_answers: tool calls that fixtures answered.
    """

    status: str
    session_pk: int | None = None
    total_tokens: int = 0
    actual: Sequence[Mapping[str, Any]] = ()
    scores: Sequence[MetricScore] = ()
    failure: Failure | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    by_model: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cost: float | None = None
    model_seconds: float | None = None
    judge: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    differences: Sequence[Mapping[str, Any]] = ()
    fixture_answers: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class RunFacts:
    """Facts in which a later run may differ: code, commit, ADK version, models."""

    code_version: str = ""
    git_revision: str = ""
    adk_version: str = ""
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessFacts:
    """Facts of the process that ran an agent, known at its end.

    Attributes:
        packages: package → version, of those that were imported.
        environment: variable that the agent read → digest of its value; empty: not set.
        model_versions: model → versions that its responses named.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    model_versions: Mapping[str, str] = field(default_factory=dict)
