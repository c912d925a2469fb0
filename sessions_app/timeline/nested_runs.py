"""Queries of nested runs for the timeline and the API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from sessions_app.prices import current_prices
from sessions_app.prices.costs import Cost, Spending, cost_of, sum_costs
from sessions_app.prices.session_usage import calls_of_nested_run
from sessions_app.store.errors import NotFound
from sessions_app.store.events.call_pairing import pair_starts, place_calls
from sessions_app.store.models import AgentSession, Event, NestedEvent, NestedRun

RUNS_READ = 2_000
"""Maximum nested runs that are read at once: as many as there can be events of a call."""

RUNS_SENT = 100
"""Maximum nested runs in one message to a live page."""


@dataclass(slots=True)
class NestedHead:
    """A nested run, as the line below its call shows it, with the totals of the runs inside it. `cost` is of all."""

    run: NestedRun
    cost: Cost | None
    deeper_events: int = 0
    deeper_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of its model calls, with those of the runs inside it."""
        return self.run.total_tokens + self.deeper_tokens

    @property
    def seconds(self) -> float | None:
        """Duration in seconds; None during the run."""
        end = self.run.finished_at
        return None if end is None else max(0.0, end - self.run.started_at)


HeadsByCall = Mapping[int, Sequence[NestedHead]]
"""Nested runs of an event by the place of their call in it, from 0."""


def nested_runs_of(session: AgentSession, events: Iterable[Event]) -> dict[int, HeadsByCall]:
    """Return the nested runs inside events, by seq. At most one query."""
    calling = {event.seq: event for event in events if event.decoded_summary["calls"]}
    if not calling:
        return {}
    rows = NestedRun.objects.filter(session=session, seq__in=calling.keys()).defer("state").order_by("pk")
    by_seq: dict[int, list[NestedHead]] = defaultdict(list)
    for head in _with_totals(rows[:RUNS_READ]):
        if not head.run.parent_ref and head.run.seq is not None:
            by_seq[head.run.seq].append(head)
    return {seq: _by_call([calling[seq]], heads).get(seq, {}) for seq, heads in by_seq.items()}


def runs_changed_after(session_pk: int, changed_at: float) -> list[NestedHead]:
    """Return the nested runs that changed after a time, and the runs that contain them. At most two queries."""
    rows = NestedRun.objects.filter(session=session_pk, seq__isnull=False).defer("state")
    changed = list(rows.filter(changed_at__gt=changed_at).order_by("changed_at")[:RUNS_SENT])
    if not changed:
        return []
    seqs = {run.seq for run in changed}
    heads = _with_totals(rows.filter(seq__in=seqs).order_by("pk")[:RUNS_READ])
    parents = {head.run.ref: head.run.parent_ref for head in heads}
    refs: set[str] = set()
    for run in changed:
        ref = run.ref
        while ref and ref not in refs:
            refs.add(ref)
            ref = parents.get(ref, "")
    return [head for head in heads if head.run.ref in refs]


def nested_usage(session: AgentSession) -> Spending:
    """Return tokens and cost of the newest nested runs of a session."""
    runs = (
        NestedRun.objects.filter(session=session, total_tokens__gt=0)
        .defer("state")
        .order_by("-pk")[:RUNS_READ]
    )
    calls = [call for run in runs for call in calls_of_nested_run(run)]
    return Spending(sum(run.total_tokens for run in runs), cost_of(calls, current_prices()))


def cost_of_run(run: NestedRun) -> Cost | None:
    """Return the cost of the own model calls of a nested run."""
    return cost_of(calls_of_nested_run(run), current_prices())


def find_nested_run(session: AgentSession, pk: int) -> NestedRun:
    """Return a nested run of a session.

    Raises:
        NotFound: the session has no such run.
    """
    run = NestedRun.objects.filter(session=session, pk=pk).first()
    if run is None:
        raise NotFound(
            f"Session {session.session_id!r} has no nested run {pk}.",
            hint=f"GET /api/v1/sessions/{session.pk}/nested-runs lists them.",
        )
    return run


def find_nested_event(run: NestedRun, number: int) -> NestedEvent:
    """Return an event of a nested run.

    Raises:
        NotFound: the run has no such event, or it is not stored.
    """
    event = events_of(run).filter(number=number).first()
    if event is None:
        raise NotFound(
            f"The nested run {run.pk} of agent {run.agent!r} has no stored event {number}.",
            hint=f"It has {run.event_count:,} events, of which {run.stored_count:,} are stored.",
        )
    return event


def events_of(run: NestedRun) -> QuerySet[NestedEvent]:
    """Return the stored events of a nested run."""
    return NestedEvent.objects.filter(session=run.session_id, ref=run.ref).order_by("number")


def runs_inside(run: NestedRun, events: Sequence[Event]) -> Mapping[int, HeadsByCall]:
    """Return the runs directly inside the calls of consecutive events of a nested run, by the events' `seq`."""
    rows = NestedRun.objects.filter(session=run.session_id, seq=run.seq).defer("state").order_by("pk")
    heads = [head for head in _with_totals(rows[:RUNS_READ]) if head.run.parent_ref == run.ref]
    return _by_call(events, heads)


def _by_call(events: Iterable[Event], heads: Sequence[NestedHead]) -> Mapping[int, HeadsByCall]:
    """Return the runs by the `seq` of the events with their calls. Usually a call has the name of the agent."""
    placed_calls = [(event.timestamp, place_calls(event)) for event in events]
    starts = [(head.run.started_at, {"id": head.run.call_id, "name": head.run.agent}) for head in heads]
    by_call: dict[int, dict[int, list[NestedHead]]] = defaultdict(lambda: defaultdict(list))
    for head, call in zip(heads, pair_starts(placed_calls, starts), strict=True):
        if call is not None:
            by_call[call.event.seq][call.place].append(head)
    return by_call


def _with_totals(runs: Iterable[NestedRun]) -> list[NestedHead]:
    """Return the heads of runs with the totals of the runs inside them, which `runs` has after their outer runs."""
    prices = current_prices()
    heads = {run.ref: NestedHead(run, cost_of(calls_of_nested_run(run), prices)) for run in runs}
    for head in reversed(heads.values()):
        if parent := heads.get(head.run.parent_ref):
            parent.deeper_events += head.run.event_count + head.deeper_events
            parent.deeper_tokens += head.tokens
            parent.cost = sum_costs([parent.cost, head.cost])
    return list(heads.values())
