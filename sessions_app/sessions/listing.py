"""What lists of sessions show. Only columns that were derived when events were written; no event is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db.models import (
    Case,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)

from sessions_app import expiry, realms
from sessions_app.lookup import fetch_app_rows
from sessions_app.models import AgentSession, Run, SessionTag
from sessions_app.search import execution
from sessions_app.search.query import Query
from sessions_app.store import pagination

NEWEST_PER_APP = 3
MOST_PINNED = 20
"""Pinned sessions that stand above the others; what is pinned beyond that stands among them."""

MOST_COUNTED = 200_000
"""Sessions up to which it is told how many there are to look at."""

_TAGS = "_tag_names"
"""Attribute of sessions whose tags were read."""

MOST_NEW = 99
"""Sessions counted as new; there may be more."""

NEW_SCAN_S = 0.02
"""Seconds for which new ones are looked for: a list looks whenever something was written."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions a list shows. Empty entries do not filter.

    Attributes:
        text: what the title, the first or the last text, or the id holds.
        realm: start of the realm; empty: real life only.
        age: `idle` or `expired` by the app's TTL.
    """

    app: str = ""
    user: str = ""
    text: str = ""
    errors: bool = False
    realm: str = ""
    age: str = ""
    query: Query = field(default_factory=Query)

    @property
    def realms(self) -> str:
        """Start of the realms that are shown: eval attempts also when the query asks for them."""
        return self.realm or (realms.ATTEMPT if self.query.wants_evals else "")


def list_sessions(wanted: SessionFilter, search: execution.Search | None = None) -> QuerySet[AgentSession]:
    """Return the sessions wanted, each with `run_status`: how its newest run stands, or None; and with its TTL.

    `search` is that of the query wanted, where more is asked of it.
    """
    rows = _filter_sessions(wanted)
    return rows if wanted.query.is_empty else (search or execution.Search(wanted.query)).filter_rows(rows)


def _filter_sessions(wanted: SessionFilter) -> QuerySet[AgentSession]:
    """Return the sessions wanted, whatever their query asks for."""
    rows = with_list_columns(AgentSession.objects.all())
    rows = rows.filter(realm__startswith=wanted.realms) if wanted.realms else rows.filter(realm="")
    if wanted.realms:
        rows = realms.exclude_hidden(rows)
    if wanted.app:
        rows = rows.filter(app_name=wanted.app)
    if wanted.user:
        rows = rows.filter(user_id=wanted.user)
    if wanted.errors:
        rows = rows.filter(error_count__gt=0)
    if wanted.text:
        rows = rows.filter(_text_condition(wanted.text))
    if wanted.age:
        rows = expiry.filter_by_age(rows, expiry.Age(wanted.age))
    return rows


class ScanProgress(NamedTuple):
    """What looks before came to: how many sessions they looked at, and how many they found for the page."""

    looked: int = 0
    found: int = 0


NOT_STARTED = ScanProgress()


@dataclass(frozen=True, slots=True)
class PendingScan:
    """A look for the sessions of a page that has not come to its end.

    Attributes:
        place: the cursor behind which it goes on.
        so_far: what it came to.
        shown: how many sessions the page shows by now, pinned ones too.
        of: how many there are to look at; None: more than `MOST_TOLD`, or the look has just begun.
        back_to: time of the oldest session that was looked at, in epoch seconds.
    """

    place: str
    so_far: ScanProgress
    shown: int
    of: int | None
    back_to: float


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of sessions, each with its tags read. The pinned ones stand on the first page, above the others.

    `hits` tell by which event sessions are found, where a query says something about events.
    """

    pinned: list[AgentSession]
    others: pagination.Page[AgentSession]
    hits: dict[int, execution.Hit]
    looking: PendingScan | None

    @property
    def rows(self) -> list[AgentSession]:
        """All sessions of the page, in their order."""
        return [*self.pinned, *self.others.rows]


def list_page(wanted: SessionFilter, before: str = "", so_far: ScanProgress = NOT_STARTED) -> SessionPage:
    """Return a page of the sessions wanted: pinned ones first, then newest update first.

    Three queries, and those by which a query asks the indexes and what it finds is shown. What no index tells is looked
    for, for a short time: two queries for each window.

    Args:
        wanted: which sessions.
        before: the cursor that the page before ended with, or a look for this one.
        so_far: what looks for this page came to.

    Raises:
        BadInput: `before` is no cursor.
    """
    search = execution.Search(wanted.query, is_resumed=so_far.looked > 0)
    rows = _filter_sessions(wanted)
    found = rows if wanted.query.is_empty else search.filter_rows(rows)
    pinned_first = found.filter(pinned_at__isnull=False).order_by("-pinned_at", "-pk")
    pinned = list(pinned_first[:MOST_PINNED])
    others = found.exclude(pk__in=[row.pk for row in pinned]) if pinned else found
    looking = None
    if wanted.query.is_empty or not search.plan.tests:
        page_of_others = pagination.paginate(others, "updated_at", before)
    else:
        page_of_others, looking = _scan_page(rows.filter(*search.plan.of), others, before, so_far, pinned)
    above = [] if before else pinned
    shown = [*above, *page_of_others.rows]
    read_tags(shown)
    return SessionPage(above, page_of_others, search.hits(shown), looking)


def _scan_page(
    of: QuerySet[AgentSession],
    found: QuerySet[AgentSession],
    before: str,
    so_far: ScanProgress,
    pinned: Collection[AgentSession],
) -> tuple[pagination.Page[AgentSession], PendingScan | None]:
    """Return the page as far as a look comes, and what the look is when there is more to look at."""
    room = max(0, pagination.PAGE_SIZE - so_far.found)
    looked = execution.scan(of, found, before, room + 1)
    shown = looked.rows[:room]
    if len(looked.rows) > room:
        older = pagination.cursor_of(shown[-1], execution.ORDER_FIELD) if shown else before
        return pagination.Page(shown, older, not before), None
    looking = None
    found_by_now = so_far.found + len(shown)
    if looked.to:
        number = _count_to_scan(of) if so_far.looked else None
        looking = PendingScan(
            looked.to,
            ScanProgress(so_far.looked + looked.sessions, found_by_now),
            found_by_now + len(pinned),
            number,
            pagination.cursor_time(looked.to),
        )
    return pagination.Page(shown, "", not before), looking


def _count_to_scan(of: QuerySet[AgentSession]) -> int | None:
    """Return how many sessions there are to look at; None: more than `MOST_TOLD`."""
    number = of.order_by().values("pk")[: MOST_COUNTED + 1].count()
    return number if number <= MOST_COUNTED else None


def read_tags(rows: Iterable[AgentSession]) -> None:
    """Read the tags of sessions for `tag_names`. One query."""
    by_pk = {row.pk: row for row in rows}
    for row in by_pk.values():
        setattr(row, _TAGS, [])
    tags = SessionTag.objects.filter(session__in=by_pk).order_by("name")
    for pk, name in tags.values_list("session_id", "name"):
        getattr(by_pk[pk], _TAGS).append(name)


def tag_names(session: AgentSession) -> list[str]:
    """Return the tags of a session, sorted. One query, where `read_tags` has not read them."""
    if not hasattr(session, _TAGS):
        read_tags([session])
    found: list[str] = getattr(session, _TAGS)
    return found


def refresh_rows(pks: Collection[int]) -> list[AgentSession]:
    """Return sessions that a page shows, as they are now; those that were deleted are missing. Two queries."""
    rows = list(with_list_columns(realms.exclude_hidden(AgentSession.objects.filter(pk__in=pks))))
    read_tags(rows)
    return rows


def count_new_sessions(wanted: SessionFilter, since: float, shown: Collection[int]) -> int:
    """Return how many sessions wanted were written to after `since` and are not shown, at most `MOST_ARRIVED`."""
    newer = _filter_sessions(wanted).filter(updated_at__gt=since).exclude(pk__in=shown)
    if wanted.query.is_empty:
        return newer.order_by("-updated_at").values("pk")[:MOST_NEW].count()
    if not newer.exists():
        return 0  # as a rule, and the indexes are not asked
    plan = execution.Search(wanted.query, is_resumed=True).plan
    of = newer.filter(*plan.of)
    return len(execution.scan(of, of.filter(*plan.tests), "", MOST_NEW, NEW_SCAN_S).rows)


def newest_update(wanted: SessionFilter) -> float:
    """Return when the newest of the sessions was written to, whatever their query asks for; 0: there is none."""
    return (
        _filter_sessions(wanted).order_by("-updated_at").values_list("updated_at", flat=True).first() or 0.0
    )


def with_list_columns(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Add what a row of the list shows besides its columns."""
    return expiry.annotate_ttl(with_run_status(rows))


def with_run_status(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Add `run_status` to sessions: how the newest run stands, unless an older one waits for an answer.

    Two index seeks a row.
    """
    runs = Run.objects.filter(session=OuterRef("pk"))
    newest = Subquery(runs.order_by("-created_at", "-pk").values("status")[:1])
    waits = Exists(runs.filter(status=Run.Status.WAITING))
    rows = rows.alias(newest_run=newest)
    asks = When(waits & ~Q(newest_run__in=Run.ACTIVE), then=Value(str(Run.Status.WAITING)))
    return rows.annotate(run_status=Case(asks, default=F("newest_run")))


def _text_condition(text: str) -> Q:
    """Match the title, the first and the last text, and the id."""
    return (
        Q(title__icontains=text)
        | Q(first_text__icontains=text)
        | Q(last_text__icontains=text)
        | Q(session_id__icontains=text)
    )


_NTH_NEWEST = """,
    (SELECT id FROM sessions_app_agentsession s WHERE s.realm = '' AND s.app_name = apps.app_name
     ORDER BY updated_at DESC, id DESC LIMIT 1 OFFSET {n})"""


def newest_sessions() -> dict[str, list[AgentSession]]:
    """Return the newest sessions of every app that has any. Two queries."""
    columns = "".join(_NTH_NEWEST.format(n=n) for n in range(NEWEST_PER_APP))
    keys = [row[1:] for row in fetch_app_rows(columns)]
    rows = with_run_status(AgentSession.objects.filter(pk__in=[pk for pks in keys for pk in pks if pk]))
    by_pk = rows.in_bulk()
    found = [[by_pk[pk] for pk in pks if pk in by_pk] for pks in keys]
    return {rows[0].app_name: rows for rows in found if rows}
