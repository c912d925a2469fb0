"""Pause points of a run: calls of models and tools, outcomes and writes of state where it waits for a person. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from sessions_app.search.query.matching import matches_values, parse_condition

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


@dataclass(frozen=True, slots=True)
class PausePoints:
    """Points at which a run pauses.

    Attributes:
        model_calls, tool_calls: whether it pauses before calls of models and of tools.
        tool_results: whether it pauses after calls of tools.
        errors: whether it pauses when a tool or a model raises.
        state_keys: keys, with their prefixes, at whose writes it pauses.
        tools, agents: names to which its pauses are limited; empty: any. `tools` limits calls of tools, their results
            and errors only.
        condition: query (`parse_condition`) about arguments and state that must match; empty: none.
        limit_s: seconds that a pause may last.
    """

    model_calls: bool = False
    tool_calls: bool = False
    tool_results: bool = False
    errors: bool = False
    state_keys: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    condition: str = ""
    limit_s: float = DEFAULT_LIMIT_S

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(
            self.model_calls or self.tool_calls or self.tool_results or self.errors or self.state_keys
        )

    @classmethod
    def read_request(cls, request: Mapping[str, Any]) -> Self:
        """Return the pause points in a `Run.request`."""
        stored = request.get(REQUEST_KEY) or {}
        return cls(
            model_calls=bool(stored.get("model_calls")),
            tool_calls=bool(stored.get("tool_calls")),
            tool_results=bool(stored.get("tool_results")),
            errors=bool(stored.get("errors")),
            state_keys=tuple(stored.get("state_keys") or ()),
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
            "tool_results": self.tool_results,
            "errors": self.errors,
            "state_keys": list(self.state_keys),
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
    def key_text(self) -> str:
        """The state keys as the form shows them."""
        return ", ".join(self.state_keys)

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
        return self.tool_calls and self._is_chosen_call(agent, tool, args, read_state)

    def matches_tool_result(
        self, agent: str, tool: str, args: Mapping[str, Any], read_state: ReadState
    ) -> bool:
        """Tell whether a run pauses after a call of a tool."""
        return self.tool_results and self._is_chosen_call(agent, tool, args, read_state)

    def matches_tool_error(
        self, agent: str, tool: str, args: Mapping[str, Any], read_state: ReadState
    ) -> bool:
        """Tell whether a run pauses at an error of a tool."""
        return self.errors and self._is_chosen_call(agent, tool, args, read_state)

    def matches_model_error(self, agent: str, read_state: ReadState) -> bool:
        """Tell whether a run pauses at an error of a model."""
        return self.errors and self._has_agent(agent) and self._meets_condition({}, read_state)

    def find_writes(self, agent: str, state_delta: Mapping[str, Any], read_state: ReadState) -> list[str]:
        """Return the keys of a state delta at whose write a run pauses."""
        keys = [key for key in self.state_keys if key in state_delta]
        return (
            keys if keys and self._has_agent(agent) and self._meets_condition(state_delta, read_state) else []
        )

    def _is_chosen_call(self, agent: str, tool: str, args: Mapping[str, Any], read_state: ReadState) -> bool:
        is_chosen = (not self.tools or tool in self.tools) and self._has_agent(agent)
        return is_chosen and self._meets_condition(args, read_state)

    def _has_agent(self, agent: str) -> bool:
        return not self.agents or agent in self.agents

    def _meets_condition(self, args: Mapping[str, Any], read_state: ReadState) -> bool:
        if not self.condition:
            return True
        return matches_values(parse_condition(self.condition), {**read_state(), **args})
