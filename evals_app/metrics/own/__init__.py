"""Metrics of DevUI's own: each module of this package has one or more `OwnMetric` objects.

An installed package adds one by an entry point of the group `devui.metrics`, which names an `OwnMetric` or a module
with some. docs/contributing.md explains it under "Add a metric"; `examples/plugin/` has one. These modules never import
`google.adk`: the web process reads them, too.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals_app.metrics.criterion_options import Option, Widget
from evals_app.metrics.metric import Metric, MetricKind
from sessions_app.plugins import require_texts

__all__ = ["BadOutcome", "MetricInput", "MetricOutcome", "Option", "OwnMetric", "ReachedStates", "Widget"]

Json = Mapping[str, Any]

log = logging.getLogger(__name__)

OBJECT_LISTS = frozenset({"rubrics", "state"})
"""Names of details that the page of an attempt shows in tables: lists of objects."""

_NAME = re.compile(r"[A-Za-z]\w*")
_OUR_PACKAGE = "evals_app."


class BadOutcome(ValueError):
    """A metric returned no valid score. The message completes a sentence that begins with the metric's name."""


@dataclass(frozen=True)
class ReachedStates:
    """State (keys with their prefixes) at the end of an attempt, and after each of its turns."""

    final: Json = field(default_factory=dict)
    turns: Sequence[Json] = ()

    def at(self, turn: int | None) -> Json:
        """Return the state after a turn, counted from 0 (empty if it was not reached), or at the end (None)."""
        if turn is None:
            return self.final
        return self.turns[turn] if turn < len(self.turns) else {}


@dataclass(frozen=True)
class MetricInput:
    """One attempt of an eval case, as JSON in ADK's snake case. `metrics.invocations` reads the turns.

    Attributes:
        case: the eval case.
        expected: its expected invocations; empty for a scenario.
        actual: the actual invocations.
        states: the session's state.
        options: value of every option of the metric.
    """

    case: Json
    expected: Sequence[Json]
    actual: Sequence[Json]
    states: ReachedStates = field(default_factory=ReachedStates)
    options: Json = field(default_factory=dict)


@dataclass(frozen=True)
class MetricOutcome:
    """A score with its reason, and the scores of single turns by their index from 0.

    Attributes:
        details: JSON that is stored with the score. `state` holds checks of state keys (`expected_state.StateCheck`),
            which the page of an attempt shows; numbers are shown beside the score.
    """

    score: float
    reason: str = ""
    details: Json = field(default_factory=dict)
    turns: Mapping[int, MetricOutcome] = field(default_factory=dict)


Score = Callable[[MetricInput], float | MetricOutcome | Awaitable[float | MetricOutcome]]


@dataclass(frozen=True, kw_only=True)
class OwnMetric(Metric):
    """A metric that DevUI or an installed package computes.

    Attributes:
        name: a Python identifier, as in `test_config.json`.
        score: computes the score of one attempt in the agent's process. It may be async. An attempt passes from the
            threshold on. A metric that raises or returns no number within its range is not evaluated, with the reason.
        applies: tells whether the metric judges a case (JSON). If given, the metric is added to every run with such a
            case, and omits other cases. None: a run has the metric only if it is chosen.
        otherwise: reason shown for a case without a score because the metric does not apply to it.
        cause: short text for the details of a failed attempt, equal for attempts that failed for the same cause; "" or
            None: "below its threshold".
        computed: text for pages on how the score is computed.
        former_names: other names, for which this one is suggested.
    """

    kind: MetricKind = MetricKind.OWN
    score: Score
    default: float | None = 1.0
    applies: Callable[[Json], bool] | None = None
    otherwise: str = "The metric does not apply to the case"
    cause: Callable[[Json], str] | None = None
    computed: str = ""
    former_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the description.

        Raises:
            ValueError: the name is no identifier, a number is not finite, or `score` cannot be called.
            TypeError: a text or an option has another type.
        """
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(f"A metric's name consists of letters, digits and underscores: {self.name!r}")
        if not callable(self.score):
            raise ValueError(f"score of the metric {self.name} is not callable: {self.score!r}")
        require_texts(self, "description", "otherwise", "computed")
        for number in (self.low, self.high, self.default):
            if number is not None and not (isinstance(number, int | float) and math.isfinite(number)):
                raise ValueError(f"a bound or the threshold of the metric {self.name} is {number!r}")
        for option in self.options:
            if not isinstance(option, Option):
                raise TypeError(f"an option of the metric {self.name} is {option!r}")
            require_texts(option, "name", "label")

    @property
    def how(self) -> str:
        """The way in which the metric computes its score, in words."""
        return self.computed or (f"computed by {self.module}" if self.is_foreign else super().how)

    def is_automatic_for(self, case: Json) -> bool:
        """Tell whether a run with this case has the metric without choosing it."""
        try:
            return self.applies is not None and bool(self.applies(case))
        except Exception:
            log.exception("The metric %r cannot tell whether it applies to a case.", self.name)
            return True  # scoring states the error

    def describe_cause(self, details: Json) -> str:
        """Return the cause of a failed attempt; "" if the metric cannot tell."""
        try:
            return str(self.cause(details)) if self.cause else ""
        except Exception:
            log.exception("The metric %r cannot name the cause of a failure.", self.name)
            return ""

    @property
    def module(self) -> str:
        """The module that computes the score."""
        return str(getattr(self.score, "__module__", None) or type(self.score).__module__)

    @property
    def is_foreign(self) -> bool:
        """Tell whether the metric belongs to an installed package."""
        return not self.module.startswith(_OUR_PACKAGE)

    def check_outcome(self, returned: object, turns: int) -> MetricOutcome:
        """Return what `score` returned for an attempt with this many turns as a checked outcome.

        Raises:
            BadOutcome: a score is no number within the range of the metric, a turn is no index, or the details are no
                JSON or not of the form that pages show.
        """
        outcome = MetricOutcome(returned) if isinstance(returned, int | float) else returned
        if not isinstance(outcome, MetricOutcome):
            raise BadOutcome(f"returned {type(returned).__name__}, not a number or a MetricOutcome.")
        score = outcome.score
        if not isinstance(score, int | float) or not math.isfinite(score):
            raise BadOutcome(f"gave {score!r}, which is no score.")
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low <= score <= high:
            raise BadOutcome(f"gave {score:g}, which is outside its range {low:g} to {high:g}.")
        if not all(type(turn) is int and 0 <= turn < turns for turn in outcome.turns):
            raise BadOutcome(
                f"gave scores of the turns {[*outcome.turns]}, which are no indexes from 0 to {turns - 1}."
            )
        try:
            details = json.loads(json.dumps(dict(outcome.details)))
        except (TypeError, ValueError) as error:
            raise BadOutcome(f"gave details that are no JSON: {error}.") from error
        for name in OBJECT_LISTS & details.keys():
            if not isinstance(details[name], list) or not all(
                isinstance(item, dict) for item in details[name]
            ):
                raise BadOutcome(f"gave details whose {name!r} is no list of objects.")
        if not all(isinstance(check.get("turn"), int | None) for check in details.get("state", ())):
            raise BadOutcome("gave details whose 'state' has a turn that is no index.")
        inner = {turn: self.check_outcome(value, turns) for turn, value in outcome.turns.items()}
        return MetricOutcome(float(score), str(outcome.reason), details, inner)
