"""Queries of nested runs for the timeline and the API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from sessions_app.prices.costs import Cost, Spending, sum_costs
from sessions_app.prices.session_usage import read_session_costs
from sessions_app.store.events.call_pairing import pair_starts, place_calls
from sessions_app.store.models import AgentSession, Event, NestedRun
from sessions_app.store.realms import find_nested_run

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
        return self.run.child.total_tokens + self.deeper_tokens

    @property
    def seconds(self) -> float | None:
        """Duration in seconds; None during the run."""
        end = self.run.finished_at
        return None if end is None else max(0.0, end - self.run.started_at)


HeadsByCall = Mapping[int, Sequence[NestedHead]]
"""Nested runs of an event by the place of their call in it, from 0."""


def read_nested_runs(session: AgentSession, events: Iterable[Event]) -> dict[int, HeadsByCall]:
    """Return the nested runs inside events, by seq. At most one query; in a nested session, and with tokens, more."""
    calling = {event.seq: event for event in events if event.decoded_summary["calls"]}
    if not calling:
        return {}
    by_seq: dict[int, list[NestedHead]] = defaultdict(list)
    for head in _with_totals(_runs_inside_calls(session, calling.keys())):
        if head.run.caller_id == session.pk and head.run.caller_seq in calling:
            by_seq[head.run.caller_seq].append(head)
    return {seq: _by_call(calling[seq], heads) for seq, heads in by_seq.items()}


def runs_changed_after(session: AgentSession, changed_at: float) -> list[NestedHead]:
    """Return the nested runs of a session that changed after a time, and the runs that contain them."""
    rows = _runs_inside_calls(session).filter(outer_seq__isnull=False, caller_seq__isnull=False)
    changed = list(rows.filter(changed_at__gt=changed_at).order_by("changed_at")[:RUNS_SENT])
    if not changed:
        return []
    heads = _with_totals(rows.filter(outer_seq__in={run.outer_seq for run in changed}))
    parents = {head.run.child_id: head.run.caller_id for head in heads}
    shown: set[int] = set()
    for run in changed:
        path = list(_enclosing_pks(run.child_id, parents))
        if session.pk in path:
            shown.update(path[: path.index(session.pk)])
    return [head for head in heads if head.run.child_id in shown]


def nested_usage(session: AgentSession) -> Spending:
    """Return tokens and cost of the nested runs inside a session, at all depths."""
    called = [head for head in _with_totals(_runs_inside_calls(session)) if head.run.caller_id == session.pk]
    return Spending(sum(head.tokens for head in called), sum_costs(head.cost for head in called))


def _runs_inside_calls(session: AgentSession, seqs: Collection[int] | None = None) -> QuerySet[NestedRun]:
    """Return the runs inside events of a session, at all depths, outer ones first.

    Args:
        session: the session; of a nested one, all runs of the same outermost call are returned.
        seqs: numbers of the events, unless the session is nested; None: all events.
    """
    rows = NestedRun.objects.select_related("child").order_by("pk")
    if nested := find_nested_run(session):
        return rows.filter(outer=nested.outer_id, outer_seq=nested.outer_seq)
    rows = rows.filter(outer=session)
    return rows if seqs is None else rows.filter(outer_seq__in=seqs)


def _enclosing_pks(child_pk: int, parents: Mapping[int, int]) -> Iterator[int]:
    """Yield the primary keys of a nested session and of the sessions around it, from the inside."""
    pk: int | None = child_pk
    while pk is not None:
        yield pk
        pk = parents.get(pk)


def _by_call(event: Event, heads: Sequence[NestedHead]) -> HeadsByCall:
    """Return the runs inside an event by the place of their call. Usually a call has the name of the agent."""
    starts = [{"id": head.run.call_id, "name": head.run.agent} for head in heads]
    by_place: dict[int, list[NestedHead]] = defaultdict(list)
    for head, call in zip(heads, pair_starts(place_calls(event), starts), strict=True):
        if call is not None:
            by_place[call.place].append(head)
    return by_place


def _with_totals(runs: QuerySet[NestedRun]) -> list[NestedHead]:
    """Return the heads of runs with the totals of the runs inside them, which `runs` has after their outer runs."""
    read_runs = list(runs[:RUNS_READ])
    costs = read_session_costs([run.child for run in read_runs])
    heads = {run.child_id: NestedHead(run, costs.get(run.child_id)) for run in read_runs}
    for head in reversed(heads.values()):
        if parent := heads.get(head.run.caller_id):
            parent.deeper_events += head.run.event_count + head.deeper_events
            parent.deeper_tokens += head.tokens
            parent.cost = sum_costs([parent.cost, head.cost])
    return list(heads.values())
