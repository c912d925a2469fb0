"""How attempts and runs end, and what ran, in the words of whoever carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Failure:
    """Why something could not run."""

    type: str
    message: str
    traceback: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Score:
    """What a metric said: of one turn, or (invocation None) of the whole attempt."""

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
    """How an attempt ended.

    Attributes:
        by_model: model → {prompt, output, cached, calls}: tokens, and how often it was asked.
        cost: in the currency of the run's price table; None: unknown.
        model_seconds: time spent waiting for models; None: unknown.
        judge: as `by_model`, of judges and simulated users.
        differences: replay's requests that differ from the recording.
    """

    status: str
    session_pk: int | None = None
    total_tokens: int = 0
    actual: Sequence[Mapping[str, Any]] = ()
    scores: Sequence[Score] = ()
    failure: Failure | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    by_model: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cost: float | None = None
    model_seconds: float | None = None
    judge: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    differences: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class ImportedAttempt:
    """An attempt that somebody else carried out."""

    case_index: int
    case_id: str
    repetition: int
    realm: str
    outcome: Outcome


@dataclass(frozen=True)
class RunFacts:
    """What ran: everything about the agent that a later run may differ in."""

    code_version: str = ""
    git_revision: str = ""
    adk_version: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
