"""What an attempt left in the store: the state it reached, and the tokens and time of its models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals_app.engine.judges import Tokens
from sessions_app import history
from sessions_app.models import AgentSession, Event, ModelCall


@dataclass(frozen=True)
class States:
    """The state (keys with their prefixes) at the end of an attempt, and after each of its turns."""

    final: Mapping[str, Any] = field(default_factory=dict)
    turns: Sequence[Mapping[str, Any]] = ()

    def at(self, turn: int | None) -> Mapping[str, Any]:
        """Return the state after a turn, from 0 (of one that was not reached: nothing), or at the end (None)."""
        if turn is None:
            return self.final
        return self.turns[turn] if turn < len(self.turns) else {}


@dataclass(frozen=True)
class Usage:
    """What an attempt's models took. `seconds`: time with at least one call under way; None: no call was seen."""

    by_model: Mapping[str, Tokens] = field(default_factory=dict)
    seconds: float | None = None

    def total(self, name: str) -> int:
        """Return the sum over models of prompt, output, cached or calls."""
        return sum(used[name] for used in self.by_model.values())


def states_of(session_pk: int, invocation_ids: Sequence[str]) -> States:
    """Return the state that a session reached, and what it was after each of these invocations."""
    session = AgentSession.objects.get(pk=session_pk)
    turns = []
    for invocation_id in invocation_ids:
        events = Event.objects.filter(session=session, invocation_id=invocation_id)
        last = events.defer("data", "private").order_by("-seq").first()
        turns.append(history.state_at(session, last).merged() if last else {})
    return States(history.state_at(session).merged(), turns)


def usage_of(session_pk: int) -> Usage:
    """Return what the models of a session took, as the recorder saw it. What a callback answered took nothing."""
    rows = ModelCall.objects.filter(session=session_pk, by_callback=False).order_by("pk")
    by_model: dict[str, Tokens] = {}
    spans = []
    for call in rows.defer("request", "response"):
        used = by_model.setdefault(call.model, {"prompt": 0, "output": 0, "cached": 0, "calls": 0})
        used["prompt"] += call.prompt_tokens
        used["output"] += call.output_tokens + call.thought_tokens
        used["cached"] += call.cached_tokens
        used["calls"] += 1
        if call.finished_at is not None:
            spans.append((call.started_at, call.finished_at))
    return Usage(by_model, _covered(spans) if spans else None)


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that stretches cover; where they overlap, once."""
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered
