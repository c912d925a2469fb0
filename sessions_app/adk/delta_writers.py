"""Attribution of state writes to callbacks and tools while a delta grows.

ADK passes the same `EventActions` to every callback and tool that may write one event's delta, with plug-in hooks in
between (`flows/llm_flows/core/_finalizer.py`, `flows/llm_flows/tools/_caller.py`, `agents/base_agent.py`). At each hook
the recorder names the next writer, and changes since the previous hook are credited to the previous one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event_actions import EventActions
from google.adk.plugins.base_plugin import BasePlugin

from sessions_app.adk.partial_answers import StreamedAnswers
from sessions_app.store import scopes
from sessions_app.store.database.bounded_dict import BoundedDict
from sessions_app.store.events.attribution import Writer, join_alternatives
from sessions_app.store.events.call_pairing import CallPairing
from sessions_app.store.short_texts import join_names, truncate

EXPLICIT = Writer("delta", inferred=False)
"""Writer of an event that was created with its delta, outside hooks and tools."""

HARMLESS_PLUGINS = ("google.adk.", "devui.")
"""Beginnings of the modules of plug-ins that write no state."""

MAX_INVOCATIONS = 200

ITEMS_COMPARED = 300
"""Items of an overwritten list that are looked for in the value that was kept."""

WRITES_SHOWN, VALUE_SHOWN = 4, 60
"""Writes of a key that a description of lost ones has, and characters of each value."""


@dataclass(slots=True, eq=False)
class WatchedDelta:
    """An event's delta, its current writer, and the writers of its keys.

    `began` and `ended` order the tool calls of an invocation: two ran at once if each began before the other ended.
    """

    actions: EventActions
    writing: Writer = EXPLICIT
    writers: dict[str, Writer] = field(default_factory=dict)
    began: float = 0
    ended: float = math.inf
    _seen: dict[str, Any] = field(default_factory=dict)

    def hand_to(self, writer: Writer) -> None:
        """Credit changes to the current writer, then make `writer` the current one."""
        self.credit_changes()
        self.writing = writer

    def credit_changes(self) -> None:
        """Credit changes since the last call to the current writer."""
        for key in self.changed_keys():
            self.credit(key, self.writing)

    def changed_keys(self) -> list[str]:
        """Return the keys set since the last call, by object identity: `State` stores the object that it is given."""
        absent = object()
        delta = self.actions.state_delta
        return [key for key, value in delta.items() if self._seen.get(key, absent) is not value]

    def credit(self, key: str, writer: Writer) -> None:
        """Record the writer of a key's present value."""
        self._seen[key] = self.actions.state_delta[key]
        self.writers[key] = writer

    def ran_beside(self, other: WatchedDelta) -> bool:
        """Tell whether another tool call ran at the same time."""
        return other is not self and self.began < other.ended and other.began < self.ended


@dataclass(slots=True)
class WatchedInvocation:
    """Deltas of an invocation's events, and the agents and plug-ins that may write to them."""

    other_plugins: Sequence[BasePlugin] = ()
    agents: dict[str, BaseAgent] = field(default_factory=dict)
    calls: CallPairing[WatchedDelta] = field(default_factory=CallPairing)
    streams: StreamedAnswers = field(default_factory=StreamedAnswers)
    clock: Iterator[int] = field(default_factory=itertools.count)
    _deltas: dict[int, WatchedDelta] = field(default_factory=dict)

    def delta(self, actions: EventActions) -> WatchedDelta:
        """Return the watched delta of an event's actions, creating it if needed."""
        delta = self._deltas.get(id(actions))
        if delta is None:
            delta = self._deltas[id(actions)] = WatchedDelta(actions)
        return delta

    def callbacks(self, agent_name: str, hook: str) -> list[str]:
        """Return the names of the callbacks at a hook: the agent's and the other plug-ins'."""
        agent = self.agents.get(agent_name)
        callbacks = getattr(agent, f"canonical_{hook}s", ())
        return [*map(callback_name, callbacks), *self._plugins_with(hook)]

    def _plugins_with(self, hook: str) -> Iterable[str]:
        """Yield the plug-ins that implement a hook, except ADK's and our own ones, which write no state."""
        for plugin in self.other_plugins:
            is_known = type(plugin).__module__.startswith(HARMLESS_PLUGINS)
            if not is_known and getattr(type(plugin), hook) is not getattr(BasePlugin, hook):
                yield plugin.name


class WatchedInvocations:
    """Active invocations by id. The oldest are dropped, since an invocation may end without notice."""

    def __init__(self) -> None:
        self._by_id: BoundedDict[str, WatchedInvocation] = BoundedDict(MAX_INVOCATIONS)

    def __getitem__(self, invocation_id: str) -> WatchedInvocation:
        invocation = self._by_id.get(invocation_id)
        if invocation is None:
            invocation = self._by_id[invocation_id] = WatchedInvocation()
        return invocation

    def forget(self, invocation_id: str) -> None:
        """Drop an ended invocation."""
        self._by_id.pop(invocation_id, None)


def describe_lost_writes(calls: Sequence[WatchedDelta], delta: Mapping[str, Any]) -> Iterator[str]:
    """Describe each key of an event's delta that calls wrote at once, unless its value has all that they wrote."""
    for key, kept in delta.items():
        wrote = [call for call in calls if key in call.writers]
        lost = [call for call in wrote if not _keeps_value(kept, call.actions.state_delta.get(key))]
        if any(call.ran_beside(other) for call in lost for other in wrote):
            values = [
                f"{call.writers[key].name} wrote {_show_value(key, call.actions.state_delta.get(key))}"
                for call in wrote
            ]
            yield f"{key}: {join_names(values, WRITES_SHOWN)}; kept {_show_value(key, kept)}"


def _keeps_value(kept: Any, value: Any) -> bool:
    """Tell whether the value that was kept has all of another one, or may have: a number may count on from it."""
    if isinstance(value, dict) and isinstance(kept, dict):
        return all(key in kept and _keeps_value(kept[key], item) for key, item in value.items())
    if isinstance(value, list) and isinstance(kept, list):
        return kept[: len(value)] == value or _has_items(kept, value[:ITEMS_COMPARED])
    if isinstance(value, str) and isinstance(kept, str):
        return value in kept
    has_numbers = all(type(number) in (int, float) for number in (value, kept))
    return has_numbers or bool(value == kept)


def _has_items(kept: Sequence[Any], items: Sequence[Any]) -> bool:
    """Tell whether a list has all of some items, each as often."""
    unmatched = list(kept)
    for item in items:
        if item not in unmatched:
            return False
        unmatched.remove(item)
    return True


def _show_value(key: str, value: Any) -> str:
    return truncate(scopes.canonicalize(value, key).public, VALUE_SHOWN)


def callback_writer(names: Sequence[str]) -> Writer:
    """Return the writer for changes by these callbacks."""
    return Writer("callback", join_alternatives(names), inferred=False) if names else EXPLICIT


def callback_name(callback: Any) -> str:
    """Return the display name of a callback."""
    target = getattr(callback, "func", callback)  # functools.partial
    name = str(getattr(target, "__name__", type(target).__name__))
    owner = getattr(target, "__self__", None)
    return name if owner is None else f"{type(owner).__name__}.{name}"
