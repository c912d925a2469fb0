"""Tool calls of nested agents (`AgentTool`) during an attempt, read from the store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evals_app.metrics.invocations import NestedCalls
from sessions_app.store.events.call_pairing import name_occurrences, pair_starts
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.events.content import function_calls
from sessions_app.store.events.summary import CALLS_IN_SUMMARY
from sessions_app.store.models import Event, NestedEvent, NestedRun

Json = Mapping[str, Any]
T = TypeVar("T")


def read_nested_calls(session_pk: int, invocation_ids: Sequence[str]) -> list[NestedCalls]:
    """Return the nested calls of each of these invocations, depth first. Three queries."""
    runs: dict[str | int, list[NestedRun]] = defaultdict(list)
    for run in NestedRun.objects.filter(session=session_pk).defer("state").order_by("pk"):
        runs[run.parent_ref or run.seq or 0].append(run)
    calls: dict[str, list[tuple[float, Sequence[Json]]]] = defaultdict(list)
    rows = NestedEvent.objects.filter(session=session_pk, summary__contains=CALLS_IN_SUMMARY)
    for ref, at, data in rows.order_by("number").values_list("ref", "timestamp", "data"):
        calls[ref].append((at, function_calls(json.loads(data))))
    tree = _NestedTree(runs, calls)
    own: dict[str, list[tuple[int, Json]]] = defaultdict(list)
    events = Event.objects.filter(HAS_CALLS, session=session_pk, invocation_id__in=invocation_ids)
    for invocation_id, seq, data in events.order_by("seq").values_list("invocation_id", "seq", "data"):
        own[invocation_id] += ((seq, call) for call in function_calls(json.loads(data)))
    return [tree.calls_inside(own[invocation_id]) for invocation_id in invocation_ids]


@dataclass(frozen=True)
class _NestedTree:
    """Nested runs by the `ref` of their parent or the seq of their event, and the calls of their events by `ref`."""

    runs: Mapping[str | int, Sequence[NestedRun]]
    calls: Mapping[str, Sequence[tuple[float, Sequence[Json]]]]

    def calls_inside(self, calls: Sequence[tuple[int, Json]]) -> NestedCalls:
        """Return the nested calls of the calls of a turn, each with the seq of its event."""
        names = name_occurrences(call.get("id") or "" for _, call in calls)
        by_seq: dict[int, list[tuple[Json, str]]] = defaultdict(list)
        for name, (seq, call) in zip(names, calls, strict=True):
            by_seq[seq].append((call, name))
        return {
            name: [inner for run in runs for inner in self._list_calls(run)]
            for seq, placed in by_seq.items()
            for name, runs in _runs_by_call([(0.0, placed)], self.runs.get(seq, ())).items()
        }

    def _list_calls(self, run: NestedRun) -> Iterable[Json]:
        """Yield the calls of a run, each followed by the calls of the runs inside it."""
        events = self.calls.get(run.ref, ())
        placed = [
            (at, [(call, (number, place)) for place, call in enumerate(calls)])
            for number, (at, calls) in enumerate(events)
        ]
        runs = _runs_by_call(placed, self.runs.get(run.ref, ()))
        for number, (_, calls) in enumerate(events):
            for place, call in enumerate(calls):
                fields = {
                    "id": call.get("id") or "",
                    "name": call.get("name") or "",
                    "args": call.get("args") or {},
                }
                yield {**fields, "agent": run.agent}
                for inner in runs.get((number, place), ()):
                    yield from self._list_calls(inner)


def _runs_by_call(
    calls: Iterable[tuple[float, Iterable[tuple[Json, T]]]], runs: Sequence[NestedRun]
) -> dict[T, list[NestedRun]]:
    """Return runs by the values of the calls that ran them. Usually a call has the name of the agent."""
    starts = [(run.started_at, {"id": run.call_id, "name": run.agent}) for run in runs]
    by_call: dict[T, list[NestedRun]] = defaultdict(list)
    for run, value in zip(runs, pair_starts(calls, starts), strict=True):
        if value is not None:
            by_call[value].append(run)
    return by_call
