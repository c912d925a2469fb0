"""Tokens of sessions by model and day: sums of the indexed events, and the events that are not indexed yet.

The indexer adds events in the transaction that moves the cursor, so each is counted once. Queries add the events that
are not indexed yet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.db.models import F, Q, Sum

from sessions_app.prices.costs import Cost, Spending, usages_cost
from sessions_app.prices.price_files import current_prices
from sessions_app.store.events.call_usage import (
    USAGE_COLUMNS,
    CallUsage,
    add_tokens,
    call_without_usage,
    parse_call_usage,
)
from sessions_app.store.models import UNINDEXED, AgentSession, Event, SessionUsage

MAX_UNINDEXED_SESSIONS = 50
"""Maximum number of sessions whose unindexed events a sum over all sessions adds."""

MAX_UNINDEXED_EVENTS = 2_000
"""Maximum number of unindexed events that a query adds."""


def sum_calls(calls: Iterable[CallUsage | None]) -> list[CallUsage]:
    """Return the sums of calls by model and day."""
    sums: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for call in calls:
        if call is not None:
            add_tokens(sums[call.model, call.day], call.tokens)
    return [CallUsage(model, day, tokens) for (model, day), tokens in sums.items()]


def add_usage(session_pk: int, calls: Iterable[CallUsage | None]) -> None:
    """Add calls to a session's sums."""
    for usage in sum_calls(calls):
        row, is_new = SessionUsage.objects.get_or_create(
            session_id=session_pk, model=usage.model, day=usage.day, defaults=dict(usage.tokens)
        )
        if not is_new:
            new_sums = {kind: F(kind) + count for kind, count in usage.tokens.items()}
            SessionUsage.objects.filter(pk=row.pk).update(**new_sums)


def read_session_costs(sessions: Sequence[AgentSession]) -> dict[int, Cost | None]:
    """Return the costs of sessions by primary key. At most two queries; none without prices."""
    prices = current_prices()
    if not prices.has_prices:
        return {}
    return {pk: usages_cost(calls, prices) for pk, calls in read_calls_by_session(sessions).items()}


def read_calls_by_session(sessions: Iterable[AgentSession]) -> dict[int, list[CallUsage]]:
    """Return the usage of the model calls of sessions with tokens, by primary key. At most two queries."""
    with_tokens = [row for row in sessions if row.total_tokens]
    if not with_tokens:
        return {}
    usages: dict[int, list[CallUsage]] = defaultdict(list)
    for row in SessionUsage.objects.filter(session__in=[session.pk for session in with_tokens]):
        usages[row.session_id].append(_row_usage(row))
    for pk, call in _unindexed_calls(with_tokens):
        usages[pk].append(call)
    for session in with_tokens:
        usages[session.pk].extend(_missing_usage(session.total_tokens, usages[session.pk]))
    return usages


def _missing_usage(total: int, usages: Iterable[CallUsage]) -> list[CallUsage]:
    """Return a call without a price if the usages lack tokens of the session, so that its cost is a minimum."""
    if sum(usage.tokens["total"] for usage in usages) >= total:
        return []
    return [call_without_usage()]


def total_spending(app: str, user: str) -> Spending:
    """Return tokens and cost of the sessions of an app, a user or both, without those of realms and nested runs."""
    columns = {"app_name": app, "user_id": user}
    calls = _read_sessions_usage(realm="", **{name: value for name, value in columns.items() if value})
    return Spending(sum(call.tokens["total"] for call in calls), usages_cost(calls, current_prices()))


def usage_by_model() -> dict[str, int]:
    """Return the tokens of the models that sessions called; "" for an unknown model."""
    tokens: Counter[str] = Counter()
    for call in _read_sessions_usage():
        tokens[call.model] += call.tokens["total"]
    return tokens


def _read_sessions_usage(**columns: str) -> list[CallUsage]:
    """Return the usage of sessions by model and day. Two queries, and a third if events are not indexed yet."""
    of_sessions = {f"session__{name}": value for name, value in columns.items()}
    rows = SessionUsage.objects.filter(**of_sessions).values_list("model", "day").order_by("model", "day")
    usages = [
        CallUsage(model, day, dict(zip(USAGE_COLUMNS, sums, strict=True)))
        for model, day, *sums in rows.annotate(*(Sum(kind) for kind in USAGE_COLUMNS))
    ]
    unindexed = AgentSession.objects.filter(UNINDEXED, total_tokens__gt=0, **columns).order_by("-pk")
    return [*usages, *(call for _, call in _unindexed_calls(unindexed[:MAX_UNINDEXED_SESSIONS]))]


def _row_usage(row: SessionUsage) -> CallUsage:
    return CallUsage(row.model, row.day, {kind: getattr(row, kind) for kind in USAGE_COLUMNS})


def _unindexed_calls(sessions: Iterable[AgentSession]) -> list[tuple[int, CallUsage]]:
    """Return the calls of at most `MAX_UNINDEXED_EVENTS` events after the cursors, with the key of their session."""
    conditions = [
        Q(session=row.pk, seq__gt=row.indexed_seq) for row in sessions if row.last_seq > row.indexed_seq
    ]
    if not conditions:
        return []
    rows = Event.objects.filter(reduce(or_, conditions), total_tokens__gt=0)
    calls = []
    for pk, summary, used_at in rows.values_list("session_id", "summary", "timestamp")[:MAX_UNINDEXED_EVENTS]:
        if call := parse_call_usage(summary, used_at):
            calls.append((pk, call))
    return calls
