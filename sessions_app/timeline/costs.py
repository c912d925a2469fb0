"""Costs of events and invocations, from the summaries of events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from sessions_app.prices import current_prices
from sessions_app.prices.costs import Cost, usages_cost
from sessions_app.store.events.call_usage import CallUsage, parse_call_usage, read_call_usage
from sessions_app.store.models import AgentSession, Event


def read_invocation_costs(
    session: AgentSession, events: Sequence[Event], continued: Collection[str], low: int, high: int
) -> dict[str, Cost | None]:
    """Return the costs of the events' invocations. At most one query.

    Args:
        events: consecutive events.
        continued: invocations with tokens outside of `events`; those from seq `low` to `high` are added.
    """
    prices = current_prices()
    if not prices.has_prices:
        return {}
    calls: dict[str, list[CallUsage | None]] = defaultdict(list)
    for event in events:
        calls[event.invocation_id].append(_call_usage(event))
    if continued:
        window = (events[0].seq, events[-1].seq)
        continued_events = Event.objects.filter(
            session=session, invocation_id__in=continued, total_tokens__gt=0
        )
        rows = continued_events.filter(seq__range=(low, high)).exclude(seq__range=window)
        for name, summary, used_at in rows.values_list("invocation_id", "summary", "timestamp"):
            calls[name].append(parse_call_usage(summary, used_at))
    return {name: usages_cost(usages, prices) for name, usages in calls.items()}


def event_costs(events: Iterable[Event]) -> dict[int, Cost | None]:
    """Return the costs of events by seq."""
    prices = current_prices()
    if not prices.has_prices:
        return {}
    return {event.seq: usages_cost([_call_usage(event)], prices) for event in events if event.total_tokens}


def _call_usage(event: Event) -> CallUsage | None:
    return read_call_usage(event.decoded_summary, event.timestamp)
