"""Pause points of a run: the calls of models and tools before which it waits for a person's decision. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from sessions_app.search.query.matching import matches_values, parse_condition
from sessions_app.search.query.scanner import QueryError

REQUEST_KEY = "pause_at"
"""Key of the pause points in `Run.request`."""


def may_pause(request_text: str) -> bool:
    """Tell whether a run with this `Run.request` may have pause points; no JSON is parsed."""
    return f'"{REQUEST_KEY}"' in request_text


DEFAULT_LIMIT_S = 600.0
MAX_LIMIT_S = 86_400.0
"""Seconds that a pause may last: unless a person says otherwise, and at most. Then the run ends."""

MINUTE_S = 60.0

ReadState = Callable[[], Mapping[str, Any]]
"""Returns the state before a call by its keys."""

MAX_NAMES = 50
"""Names of tools or agents."""

MODEL_INPUT, TOOL_INPUT = "pause_model", "pause_tool"
TOOLS_INPUT, AGENTS_INPUT = "pause_tools", "pause_agents"
CONDITION_INPUT, MINUTES_INPUT = "pause_if", "pause_minutes"
"""Names of the inputs of the form."""

LABELS = {
    MODEL_INPUT: "Pause at",
    TOOLS_INPUT: "Only these tools",
    AGENTS_INPUT: "Only these agents",
    CONDITION_INPUT: "Pause if",
    MINUTES_INPUT: "Minutes to wait",
}
"""Labels of the inputs that can be wrong."""


@dataclass(frozen=True, slots=True)
class PausePoints:
    """The calls at which a run pauses.

    Attributes:
        model_calls, tool_calls: whether it pauses before calls of models and of tools.
        tools, agents: names to which its pauses are limited; empty: any. `tools` limits calls of tools only.
        condition: query (`parse_condition`) about arguments and state that must match; empty: none.
        limit_s: seconds that a pause may last.
    """

    model_calls: bool = False
    tool_calls: bool = False
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    condition: str = ""
    limit_s: float = DEFAULT_LIMIT_S

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return self.model_calls or self.tool_calls

    @classmethod
    def read_request(cls, request: Mapping[str, Any]) -> Self:
        """Return the pause points in a `Run.request`."""
        stored = request.get(REQUEST_KEY) or {}
        return cls(
            model_calls=bool(stored.get("model_calls")),
            tool_calls=bool(stored.get("tool_calls")),
            tools=tuple(stored.get("tools") or ()),
            agents=tuple(stored.get("agents") or ()),
            condition=stored.get("condition") or "",
            limit_s=stored.get("limit_s") or DEFAULT_LIMIT_S,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the value of `REQUEST_KEY` in `Run.request`."""
        return {
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "tools": list(self.tools),
            "agents": list(self.agents),
            "condition": self.condition,
            "limit_s": self.limit_s,
        }

    @property
    def tool_text(self) -> str:
        """The names of tools as the form shows them."""
        return ", ".join(self.tools)

    @property
    def agent_text(self) -> str:
        """The names of agents as the form shows them."""
        return ", ".join(self.agents)

    @property
    def minutes(self) -> str:
        """The limit in minutes as the form shows it."""
        return f"{self.limit_s / MINUTE_S:g}"

    def matches_model_call(self, agent: str, read_state: ReadState) -> bool:
        """Tell whether a run pauses before a model call of an agent. The state is read if there is a condition."""
        return self.model_calls and self._has_agent(agent) and self._meets_condition({}, read_state)

    def matches_tool_call(
        self, agent: str, tool: str, args: Mapping[str, Any], read_state: ReadState
    ) -> bool:
        """Tell whether a run pauses before a call of a tool. Arguments hide state keys of the same name."""
        is_chosen = self.tool_calls and (not self.tools or tool in self.tools) and self._has_agent(agent)
        return is_chosen and self._meets_condition(args, read_state)

    def _has_agent(self, agent: str) -> bool:
        return not self.agents or agent in self.agents

    def _meets_condition(self, args: Mapping[str, Any], read_state: ReadState) -> bool:
        if not self.condition:
            return True
        return matches_values(parse_condition(self.condition), {**read_state(), **args})


def read_form(posted: Mapping[str, str]) -> tuple[PausePoints, dict[str, str], dict[str, str]]:
    """Return the pause points in a form, the texts of its inputs, and the errors by input.

    Names of tools imply that calls of tools are meant.
    """
    texts = {name: posted.get(name, "").strip() for name in (*LABELS, TOOL_INPUT)}
    errors: dict[str, str] = {}
    names = {name: _split_names(texts[name]) for name in (TOOLS_INPUT, AGENTS_INPUT)}
    errors |= {
        name: f"{len(values)} names are too many: at most {MAX_NAMES}."
        for name, values in names.items()
        if len(values) > MAX_NAMES
    }
    points = PausePoints(
        model_calls=bool(texts[MODEL_INPUT]),
        tool_calls=bool(texts[TOOL_INPUT] or names[TOOLS_INPUT]),
        tools=names[TOOLS_INPUT],
        agents=names[AGENTS_INPUT],
        condition=texts[CONDITION_INPUT],
        limit_s=_read_limit(texts[MINUTES_INPUT], errors),
    )
    try:
        parse_condition(points.condition)
    except QueryError as error:
        errors[CONDITION_INPUT] = f"{error.message} {error.hint}".strip()
    if (points.agents or points.condition) and not points:
        errors[MODEL_INPUT] = "Nothing is chosen to pause at. Tick model calls, tool calls or both."
    return points, texts, errors


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _read_limit(text: str, errors: dict[str, str]) -> float:
    """Return the limit in seconds; note an error if the text is not a number of minutes in the range."""
    try:
        limit_s = float(text) * MINUTE_S if text else DEFAULT_LIMIT_S
    except ValueError:
        limit_s = math.nan
    if MINUTE_S <= limit_s <= MAX_LIMIT_S:
        return limit_s
    errors[MINUTES_INPUT] = (
        f"{text[:20]!r} is no number from 1 to {MAX_LIMIT_S / MINUTE_S:g}. Write the minutes a pause may last."
    )
    return DEFAULT_LIMIT_S
