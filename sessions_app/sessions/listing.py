"""Read models of session lists. They use columns derived when events were written, and read no event."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
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

from sessions_app.prices.costs import Cost
from sessions_app.prices.session_usage import read_session_costs
from sessions_app.search.execution import scans, session_queries
from sessions_app.search.execution.session_queries import Hit
from sessions_app.search.query.terms import Query
from sessions_app.sessions.list_updates import MAX_NEW
from sessions_app.store import expiry, realms
from sessions_app.store.database import pagination
from sessions_app.store.database.skip_scan import distinct_rows
from sessions_app.store.models import AgentSession, Run, SessionTag

NEWEST_PER_APP = 3
MAX_PINNED = 20
"""Maximum pinned sessions shown above the others; further ones are listed among them."""

NEWEST_FIRST = scans.NEWEST_FIRST
"""Default order. Only in this one pinned sessions come first."""

MAX_COUNTED = 200_000
"""Number of sessions up to which the size of a scan is counted."""

_TAGS = "_tags"
"""Attribute of sessions that caches their tags, with the person who added each."""

_COST = "_cost"
"""Attribute of sessions that caches their cost."""

MAX_WORDS = 8
"""Maximum words of a text that `find_by_names` uses."""

NEW_SCAN_S = 0.02
"""Time budget in seconds for finding new sessions: a list searches after every write."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Filter of a session list. Empty values do not filter.

    Attributes:
        text: text in the title, the first or last text, or the id.
        realm: prefix of the realm; empty: only sessions outside isolated realms.
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
        """Prefix of the shown realms: of eval attempts or traced sessions if the query asks for them."""
        if self.realm or self.query.wants_evals:
            return self.realm or realms.ATTEMPT
        return realms.TRACED if self.query.wants_traced else ""


def list_newest_sessions(app_name: str, user_id: str = "") -> QuerySet[AgentSession]:
    """Return the sessions of an app, or of a user in it, newest update first."""
    return list_sessions(SessionFilter(app_name, user_id)).order_by("-updated_at", "-pk")


def list_sessions(
    filters: SessionFilter, search: session_queries.Search | None = None
) -> QuerySet[AgentSession]:
    """Return the matching sessions, each with `run_status` (status of its newest run, or None) and its TTL.

    `search` is the search of the filter's query, if the caller already has it.
    """
    rows = _filter_sessions(filters)
    return (
        rows
        if filters.query.is_empty
        else (search or session_queries.Search(filters.query)).filter_rows(rows)
    )


def _filter_sessions(filters: SessionFilter) -> QuerySet[AgentSession]:
    """Return the sessions that match the filter apart from its query."""
    rows = with_list_columns(AgentSession.objects.all())
    rows = rows.filter(realm__startswith=filters.realms) if filters.realms else rows.filter(realm="")
    if filters.realms:
        rows = realms.exclude_inside_hidden(realms.exclude_hidden(rows))
    if filters.app:
        rows = rows.filter(app_name=filters.app)
    if filters.user:
        rows = rows.filter(user_id=filters.user)
    if filters.errors:
        rows = rows.filter(error_count__gt=0)
    if filters.text:
        rows = rows.filter(_contains_text(filters.text, ("title", "first_text", "last_text", "session_id")))
    if filters.age:
        rows = expiry.filter_by_age(rows, expiry.Age(filters.age))
    return rows


class ScanProgress(NamedTuple):
    """Progress of earlier scans for a page: the number of scanned and of matching sessions."""

    sessions: int = 0
    matches: int = 0


NOT_STARTED = ScanProgress()


@dataclass(frozen=True, slots=True)
class PendingScan:
    """An unfinished scan for the sessions of a page.

    Attributes:
        place: cursor from which the scan resumes.
        progress: its progress.
        row_count: number of sessions on the page so far, including pinned ones.
        total: number of sessions to scan; None: more than `MAX_COUNTED`, or the scan has just begun.
    """

    place: str
    progress: ScanProgress
    row_count: int
    total: int | None


@dataclass(frozen=True, slots=True)
class SessionListPage:
    """A page of sessions with their tags. Pinned sessions come first, on the first page only.

    `hits` has the matching event of each session, if the query is about events.
    """

    pinned: list[AgentSession]
    others: pagination.Page[AgentSession]
    hits: dict[int, Hit]
    pending: PendingScan | None

    @property
    def rows(self) -> list[AgentSession]:
        """All sessions of the page, in order."""
        return [*self.pinned, *self.others.rows]

    @property
    def total(self) -> int | None:
        """The number of matching sessions, as in `pagination.Page`; None: not counted, as on later pages."""
        counted = self.others.total if self.others.is_first else None
        return None if counted is None or self.pending else counted + len(self.pinned)

    def without(self, shown: Container[int]) -> SessionListPage:
        """Return the page without sessions that are shown already: a change may move one ahead of a scan."""
        rows = [row for row in self.others.rows if row.pk not in shown]
        repeated = len(self.others.rows) - len(rows)
        if not repeated:
            return self
        pending = self.pending
        if pending:
            matches = pending.progress.matches - repeated
            pending = replace(pending, progress=pending.progress._replace(matches=matches))
        return replace(self, others=replace(self.others, rows=rows), pending=pending)


def list_page(
    filters: SessionFilter,
    before: str = "",
    progress: ScanProgress = NOT_STARTED,
    *,
    size: int = pagination.PAGE_SIZE,
    most_pinned: int = MAX_PINNED,
    order: pagination.Order = NEWEST_FIRST,
) -> SessionListPage:
    """Return a page of the matching sessions. In the default order pinned ones come first.

    Three queries, plus those of the search. What no index answers is scanned for a short time: two queries a window.

    Args:
        filters: the filter.
        before: cursor at the end of the previous page, or of an earlier scan for this page.
        progress: progress of earlier scans for this page.
        size, most_pinned: maximum number of other and of pinned sessions.
        order: order of the list.

    Raises:
        BadInput: `before` is not a cursor of the order.
    """
    search = session_queries.Search(filters.query)
    rows = _filter_sessions(filters)
    matching = rows if filters.query.is_empty else search.filter_rows(rows)
    pinned = _read_pinned(matching, most_pinned) if order == NEWEST_FIRST else []
    unpinned = matching.exclude(pk__in=[row.pk for row in pinned]) if pinned else matching
    pending = None
    if filters.query.is_empty or not search.plan.tests:
        is_counted = filters.query.is_empty
        page_of_others = pagination.paginate(unpinned, order, before, size=size, is_counted=is_counted)
    else:
        page_of_others, pending = _scan_page(
            rows.filter(*search.plan.indexed), unpinned, before, progress, pinned, size, order
        )
    above = [] if before else pinned
    rows_shown = [*above, *page_of_others.rows]
    read_tags(rows_shown)
    read_costs(rows_shown)
    return SessionListPage(above, page_of_others, search.hits(rows_shown), pending)


def read_pages(filters: SessionFilter, order: pagination.Order) -> Iterator[SessionListPage]:
    """Yield all matching sessions in pages, without pinned ones first, as far as they are asked for."""
    cursor, is_first = "", True
    while cursor or is_first:
        page = list_page(filters, cursor, size=pagination.BATCH_SIZE, most_pinned=0, order=order)
        yield page
        cursor, is_first = page.pending.place if page.pending else page.others.next, False


def _read_pinned(matching: QuerySet[AgentSession], limit: int) -> list[AgentSession]:
    return list(matching.filter(pinned_at__isnull=False).order_by("-pinned_at", "-pk")[:limit])


def _scan_page(
    of: QuerySet[AgentSession],
    matching: QuerySet[AgentSession],
    before: str,
    progress: ScanProgress,
    pinned: Collection[AgentSession],
    size: int,
    order: pagination.Order,
) -> tuple[pagination.Page[AgentSession], PendingScan | None]:
    """Return the page as far as a scan gets, and the pending scan if there is more to scan."""
    limit = max(0, size - progress.matches)
    result = scans.scan(of, matching, before, limit + 1, order=order)
    rows = result.rows[:limit]
    if len(result.rows) > limit:
        return pagination.Page(rows, order.cursor(rows[-1]) if rows else before, not before), None
    pending = None
    found_by_now = progress.matches + len(rows)
    if result.to:
        number = _count_to_scan(of) if progress.sessions else None
        pending = PendingScan(
            result.to,
            ScanProgress(progress.sessions + result.sessions, found_by_now),
            found_by_now + len(pinned),
            number,
        )
    return pagination.Page(rows, "", not before), pending


def _count_to_scan(of: QuerySet[AgentSession]) -> int | None:
    """Return the number of sessions to scan; None: more than `MAX_COUNTED`."""
    number = pagination.count_rows(of, MAX_COUNTED)
    return number if number <= MAX_COUNTED else None


def read_tags(rows: Iterable[AgentSession]) -> None:
    """Read the tags of sessions for `tag_names` and `tag_persons`. One query."""
    by_pk = {row.pk: row for row in rows}
    for row in by_pk.values():
        setattr(row, _TAGS, {})
    tags = SessionTag.objects.filter(session__in=by_pk).order_by("name")
    for pk, name, person in tags.values_list("session_id", "name", "person"):
        getattr(by_pk[pk], _TAGS)[name] = person


def tag_names(session: AgentSession) -> list[str]:
    """Return the tags of a session, sorted. One query, unless `read_tags` has read them."""
    return list(_row_tags(session))


def tag_persons(session: AgentSession) -> dict[str, str]:
    """Return the names of the persons who added the tags of a session, by tag. Unknown ones are left out."""
    return {name: person for name, person in _row_tags(session).items() if person}


def _row_tags(session: AgentSession) -> dict[str, str]:
    if not hasattr(session, _TAGS):
        read_tags([session])
    tags: dict[str, str] = getattr(session, _TAGS)
    return tags


def read_costs(rows: Sequence[AgentSession]) -> None:
    """Read the costs of sessions for `session_cost`. At most two queries; none without prices."""
    costs = read_session_costs(rows)
    for row in rows:
        setattr(row, _COST, costs.get(row.pk))


def session_cost(session: AgentSession) -> Cost | None:
    """Return the cost of a session's events; None without tokens or without prices."""
    if not hasattr(session, _COST):
        read_costs([session])
    cost: Cost | None = getattr(session, _COST)
    return cost


def refresh_rows(pks: Collection[int]) -> list[AgentSession]:
    """Return the current rows of shown sessions, without deleted ones. Two queries, and two for costs."""
    rows = list(with_list_columns(realms.exclude_hidden(AgentSession.objects.filter(pk__in=pks))))
    read_tags(rows)
    read_costs(rows)
    return rows


def count_new_sessions(
    filters: SessionFilter, since: float, shown_pks: Collection[int], *, seconds: float = NEW_SCAN_S
) -> int:
    """Return how many matching sessions were updated after `since` and are not shown, at most `MAX_NEW`."""
    newer = _filter_sessions(filters).filter(updated_at__gt=since).exclude(pk__in=shown_pks)
    if filters.query.is_empty:
        return newer.order_by("-updated_at").values("pk")[:MAX_NEW].count()
    if not newer.exists():
        return 0  # as a rule, and the indexes are not asked
    plan = session_queries.Search(filters.query).plan
    candidates = newer.filter(*plan.indexed)
    return len(scans.scan(candidates, candidates.filter(*plan.tests), "", MAX_NEW, seconds).rows)


def newest_update(filters: SessionFilter) -> float:
    """Return the time of the latest update that matches the filter apart from its query; 0 without sessions."""
    return (
        _filter_sessions(filters).order_by("-updated_at").values_list("updated_at", flat=True).first() or 0.0
    )


def with_list_columns(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Annotate the further columns of a list row; `duration` is the time from creation to the latest update."""
    return expiry.annotate_ttl(with_run_status(rows)).annotate(duration=F("updated_at") - F("created_at"))


def with_run_status(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Annotate `run_status`: the status of the newest run, or `waiting` if an older run waits for an answer.

    Two index seeks a row.
    """
    runs = Run.objects.filter(session=OuterRef("pk"))
    newest = Subquery(runs.order_by("-created_at", "-pk").values("status")[:1])
    waits = Exists(runs.filter(status=Run.Status.WAITING))
    rows = rows.alias(newest_run=newest)
    asks = When(waits & ~Q(newest_run__in=Run.ACTIVE), then=Value(str(Run.Status.WAITING)))
    return rows.annotate(run_status=Case(asks, default=F("newest_run")))


def find_by_names(text: str, limit: int) -> list[AgentSession]:
    """Return the newest sessions whose names contain every word of `text`, with `run_status`. One query."""
    rows = AgentSession.objects.filter(realm="")
    for word in text.split()[:MAX_WORDS]:
        rows = rows.filter(_contains_text(word, ("title", "first_text", "session_id", "user_id", "app_name")))
    return list(with_run_status(rows).order_by("-updated_at", "-pk")[:limit])


def _contains_text(text: str, columns: Iterable[str]) -> Q:
    """Return the condition that any of the columns contains a text."""
    return reduce(or_, (Q(**{f"{column}__icontains": text}) for column in columns))


_NTH_NEWEST = """,
    (SELECT id FROM {table} s WHERE s.realm = '' AND s.app_name = names.name
     ORDER BY updated_at DESC, id DESC LIMIT 1 OFFSET {n})"""


def newest_sessions() -> dict[str, list[AgentSession]]:
    """Return the newest sessions of every app that has sessions. Two queries."""
    table = AgentSession._meta.db_table
    columns = "".join(_NTH_NEWEST.format(table=table, n=n) for n in range(NEWEST_PER_APP))
    apps = distinct_rows(table, "app_name", {"realm": ""}, further_columns=columns)
    keys = [pks for _, *pks in apps]
    rows = with_run_status(AgentSession.objects.filter(pk__in=[pk for pks in keys for pk in pks if pk]))
    by_pk = rows.in_bulk()
    sessions_by_app = [[by_pk[pk] for pk in pks if pk in by_pk] for pks in keys]
    return {rows[0].app_name: rows for rows in sessions_by_app if rows}
