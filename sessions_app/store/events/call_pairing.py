"""Pairs function responses with calls by occurrence: models and agents reuse the ids of calls. Pure.

A response belongs to the newest earlier event of its branch with a call of its id (as in ADK's
`flows/llm_flows/tools/_rearranger.py`), or of any branch if its own has none. If the event has several calls of the id,
those of the response's name come first, and among them the one with the fewest responses. If it has none of that name,
an earlier event may. Calls without ids are told apart by their names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from sessions_app.store.models import Event

Json = Mapping[str, Any]
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _PairedCall(Generic[T]):
    name: str
    value: T
    responses: int = 0


class CallPairing(Generic[T]):
    """Calls so far, each with a value of the caller, by id and branch."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, list[_PairedCall[T]]]] = defaultdict(dict)
        self._replaced: dict[tuple[str, str], _PairedCall[T]] = {}

    def add_event(self, calls: Iterable[tuple[Json, T]], branch: str = "") -> None:
        """Add the calls of an event, each {id, name}. Earlier calls of their ids and names get no more responses."""
        by_id: dict[str, list[_PairedCall[T]]] = defaultdict(list)
        for call, value in calls:
            by_id[_call_key(call)].append(_PairedCall(call.get("name") or "", value))
        for key, group in by_id.items():
            replaced = self._calls[key].pop(branch, ())  # so that the newest event is the last
            self._replaced |= {(key, call.name): call for call in replaced}
            self._calls[key][branch] = group

    def add_call(self, call: Json, value: T, branch: str = "") -> None:
        """Add a call whose event is unknown: earlier calls of its id that have no response yet come first."""
        self._calls[_call_key(call)].setdefault(branch, []).append(_PairedCall(call.get("name") or "", value))

    def take(self, response: Json, branch: str = "") -> T | None:
        """Return the value of the call to which the next response {id, name} belongs; None if there is none."""
        key, name = _call_key(response), response.get("name") or ""
        branches = self._calls.get(key)
        if not branches:
            return None
        group = branches.get(branch) or next(reversed(branches.values()))
        of_name = [call for call in group if call.name == name]
        if not of_name and (replaced := self._replaced.get((key, name))):
            of_name = [replaced]
        call = min(of_name or group, key=lambda call: call.responses)
        call.responses += 1
        return call.value

    def unanswered(self) -> list[T]:
        """Return the values of the newest calls of each id and branch that have no response."""
        groups = (group for branches in self._calls.values() for group in branches.values())
        return [call.value for group in groups for call in group if not call.responses]


class PlacedCall(NamedTuple):
    """A call: the `place`th of its event, from 0."""

    event: Event
    place: int

    @property
    def key(self) -> tuple[int, int]:
        """The seq of its event and its place, which name it within a session."""
        return self.event.seq, self.place

    @property
    def summary(self) -> dict[str, Any]:
        """The call in the event's summary."""
        call: dict[str, Any] = self.event.decoded_summary["calls"][self.place]
        return call


@dataclass(slots=True)
class PairedCalls:
    """The calls and results of events.

    Attributes:
        calls: calls to which the results of an event belong, by its seq; None for a result without a call.
        answers: events with the results of a call, by the call's `key`; empty: none.
    """

    calls: dict[int, list[PlacedCall | None]] = field(default_factory=dict)
    answers: dict[tuple[int, int], list[Event]] = field(default_factory=dict)

    def answered_calls(self, seq: int) -> list[PlacedCall]:
        """Return the known calls that the event at `seq` answers."""
        return [call for call in self.calls.get(seq, ()) if call is not None]

    def answering_events(self, event: Event) -> list[list[Event]]:
        """Return the events with results of each call of an event."""
        return [
            self.answers[event.seq, index] for index in range(len(event.decoded_summary.get("calls", ())))
        ]


def pair_events(events: Iterable[Event]) -> PairedCalls:
    """Pair the calls and results in the summaries of events, which are in order."""
    pairs, pairing = PairedCalls(), CallPairing[PlacedCall]()
    for event in events:
        summary = event.decoded_summary
        taken = [pairing.take(result, event.branch) for result in summary.get("results", ())]
        for call in taken:
            if call is not None:
                pairs.answers[call.key].append(event)
        placed = place_calls(event)
        pairing.add_event(placed, event.branch)
        pairs.answers |= {call.key: [] for _, call in placed}
        pairs.calls[event.seq] = taken
    return pairs


def place_calls(event: Event) -> list[tuple[Json, PlacedCall]]:
    """Return the calls in the summary of an event, each with its place."""
    return [
        (call, PlacedCall(event, index)) for index, call in enumerate(event.decoded_summary.get("calls", ()))
    ]


def pair_starts(calls: Iterable[tuple[Json, T]], starts: Iterable[Json]) -> list[T | None]:
    """Return, for each nested run of an event, the value of the call that started it; None: no call did.

    Args:
        calls: the calls of the event with their values, in order.
        starts: the id and name of the call of each start, in order.
    """
    pairing = CallPairing[T]()
    pairing.add_event(calls)
    return [pairing.take(start) for start in starts]


def name_occurrences(ids: Iterable[str]) -> list[str]:
    """Return distinct names of calls by their ids: `id` for the first call of an id, `id#2` for the second …"""
    counts: Counter[str] = Counter()
    names: dict[str, None] = {}
    for call_id in ids:
        name = call_id
        while name in names:
            counts[call_id] += 1
            name = f"{call_id}#{counts[call_id] + 1}"
        names[name] = None
    return list(names)


def _call_key(call: Json) -> str:
    """Return the id, or a key of the name that no id equals."""
    return call.get("id") or f"\0{call.get('name') or ''}"
