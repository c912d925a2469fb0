"""Read model of the list of runs.

It has runs, and invocations that another program ran, which have a trace but no run: recorded or received.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)

from sessions_app.lookup import parse_number
from sessions_app.prices.costs import Spending
from sessions_app.runs import rerun
from sessions_app.runs.pauses import IS_PAUSED
from sessions_app.runs.run_usage import read_invocations_spending, read_runs_spending
from sessions_app.search.execution.field_terms import id_starts_with
from sessions_app.store.database import pagination
from sessions_app.store.database.pagination import Order, Page
from sessions_app.store.models import (
    HAS_NO_RUN,
    RUN_DURATION,
    TRACE_DURATION,
    AgentSession,
    Event,
    ModelCall,
    Run,
    Trace,
)
from sessions_app.traces.waterfall import working_seconds

M = TypeVar("M", bound=Model)

MAX_ERROR_TYPES = 50

MAX_EVENTS = 2_000
"""Events of a run up to which its tokens are summed."""

PAUSED = "paused"
STATUSES = (("", "any"), *Run.Status.choices, (PAUSED, PAUSED))
"""Statuses by which rows are filtered, with their labels. A paused run waits for a decision and is not `running`."""

TRACE_KEY = "trace-"
"""Prefix of the keys of rows that have no run."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of the list.

    Attributes:
        record: a run of `filter_runs`, or the trace of an invocation without one, of `filter_invocations`.
        spending: tokens and cost; None: not known, or not read.
    """

    record: Run | Trace
    spending: Spending | None = None

    @property
    def pk(self) -> str:
        """Key of the row."""
        return f"{TRACE_KEY}{self.record.pk}" if isinstance(self.record, Trace) else self.record.pk

    @property
    def run(self) -> Run | None:
        """The run; None: another program ran the invocation."""
        return self.record if isinstance(self.record, Run) else None

    @property
    def session(self) -> AgentSession:
        """The session of the turn."""
        return self.record.session

    @property
    def invocation(self) -> tuple[int, str]:
        """The primary key of the session, and the invocation's id; it is empty until known."""
        return self.record.session_id, self.record.invocation_id

    @property
    def status(self) -> str:
        """A value of `Run.Status`, or `PAUSED`."""
        if isinstance(self.record, Trace):
            return self.record.own_status
        return PAUSED if self._annotation("is_paused") else self.record.status

    @property
    def status_label(self) -> str:
        """The status in words."""
        return dict[str, str](STATUSES)[self.status]

    @property
    def message(self) -> str:
        """Text of the message that began the turn; empty: none."""
        summary = json.loads(self._annotation("message_summary") or "{}")
        return str(summary.get("text") or "").strip()

    @property
    def seq(self) -> int | None:
        """Number of the event at which the turn began; None: unknown."""
        seq: int | None = self._annotation("message_seq")
        return seq

    @property
    def created_at(self) -> float:
        """Time at which the run was queued, or the invocation began, in epoch seconds."""
        created_at: float = self._annotation("created_at")
        return created_at

    @property
    def seconds(self) -> float | None:
        """Working time without pauses; None until the end, and of a run that never began."""
        if isinstance(self.record, Trace):
            return working_seconds(self.record)
        return self.record.seconds

    @property
    def trace_pk(self) -> int | None:
        """Primary key of the trace; None: there is none."""
        pk: int | None = self._annotation("trace")
        return pk

    @property
    def calls(self) -> int:
        """Number of recorded model calls."""
        return self._annotation("call_count") or 0

    @property
    def failed_calls(self) -> int:
        """Number of recorded model calls that failed."""
        return self._annotation("failed_count") or 0

    @property
    def exception(self) -> str:
        """Type of the exception that ended an invocation without a run; empty: none, or unknown."""
        if isinstance(self.record, Run) or self.status != Run.Status.FAILED:
            return ""
        stages = self.record.decoded_stages
        return str(stages[-1][2]) if stages else ""

    @property
    def is_active(self) -> bool:
        """Tell whether the run can be cancelled."""
        return bool(self.run and self.run.status in Run.ACTIVE)

    @property
    def can_repeat(self) -> bool:
        """Tell whether the message of the run can be sent again."""
        return bool(self.run and not self.is_active and self._annotation("is_repeatable"))

    def _annotation(self, name: str) -> Any:
        """Return what `filter_runs` or `filter_invocations` reads beside the columns."""
        return getattr(self.record, name)


def filter_runs(filters: Mapping[str, str]) -> QuerySet[Run]:
    """Return the runs that match, without their large requests; empty filters match all."""
    messages = Event.objects.filter(session=OuterRef("session"), seq=OuterRef("first_seq") + 1, author="user")
    traces = Trace.objects.filter(session=OuterRef("session"), invocation_id=OuterRef("invocation_id"))
    is_repeatable = ExpressionWrapper(rerun.REPEATABLE, output_field=BooleanField())
    runs = (
        Run.objects.select_related("session")
        .annotate(
            is_repeatable=is_repeatable,
            message_seq=F("first_seq") + 1,
            message_summary=Subquery(messages.values("summary")[:1]),
            duration=RUN_DURATION,
            is_paused=IS_PAUSED,
            trace=Subquery(traces.values("pk")[:1]),
        )
        .defer("request")
    )
    runs = _filter_owners(_with_calls(runs), filters)
    if status := filters["status"]:
        runs = (
            runs.filter(is_paused=True, status=Run.Status.RUNNING)
            if status == PAUSED
            else runs.filter(status=status, is_paused=False)
        )
    if filters["error"]:
        runs = runs.filter(error_type=filters["error"])
    return runs.filter(Q(error_type__gt="") | Exists(_failed_calls())) if filters["only"] else runs


def filter_invocations(filters: Mapping[str, str]) -> QuerySet[Trace]:
    """Return the traces that match of invocations without a run; empty filters match all."""
    messages = Event.objects.filter(
        session=OuterRef("session"), invocation_id=OuterRef("invocation_id"), author="user"
    ).order_by("seq")
    traces = (
        Trace.objects.select_related("session")
        .annotate(
            message_seq=Subquery(messages.values("seq")[:1]),
            message_summary=Subquery(messages.values("summary")[:1]),
            created_at=F("started_at"),
            duration=TRACE_DURATION,
            trace=F("pk"),
        )
        .filter(HAS_NO_RUN)
    )
    traces = _filter_owners(_with_calls(traces), filters)
    if filters["status"]:
        traces = traces.filter(own_status=filters["status"])
    if filters["error"]:
        traces = traces.filter(Exists(_failed_calls().filter(error_type=filters["error"])))
    return traces.filter(Exists(_failed_calls())) if filters["only"] else traces


NO_FILTERS = dict.fromkeys(("app", "status", "user", "session", "error", "only"), "")


def _filter_owners(rows: QuerySet[M], filters: Mapping[str, str]) -> QuerySet[M]:
    """Return the rows of an app and a user, and of the sessions whose ids begin with a text."""
    columns = {"app_name": filters["app"], "user_id": filters["user"]}
    sessions = AgentSession.objects.filter(**{name: value for name, value in columns.items() if value})
    if filters["session"]:
        sessions = sessions.filter(id_starts_with(filters["session"]))
    if not any((filters["app"], filters["user"], filters["session"])):
        return rows
    # EXISTS instead of a join: with a join the planner starts with the sessions and sorts all their rows.
    return rows.filter(Exists(sessions.filter(pk=OuterRef("session"))))


def _with_calls(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Annotate rows with the numbers of their model calls and of those that failed."""
    count = partial(_count_rows, name="call_count")
    annotated: QuerySet[Any] = rows.annotate(call_count=count(_calls()), failed_count=count(_failed_calls()))
    return annotated


def _count_rows(rows: QuerySet[Any], name: str) -> Subquery:
    return Subquery(rows.order_by().values("session").annotate(**{name: Count("pk")}).values(name))


def _calls() -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(session=OuterRef("session"), invocation_id=OuterRef("invocation_id"))


def _failed_calls() -> QuerySet[ModelCall]:
    return _calls().filter(error_type__gt="")


def _filter_lists(filters: Mapping[str, str]) -> tuple[QuerySet[Run], QuerySet[Trace]]:
    return filter_runs(filters), filter_invocations(filters)


def read_page(
    filters: Mapping[str, str], order: Order, cursor: str = "", *, size: int = pagination.PAGE_SIZE
) -> Page[Any]:
    """Return a page of `RunRow`s without spending. Four queries at most.

    Raises:
        BadInput: `cursor` is not a cursor of this order.
    """
    page = pagination.paginate_together(
        _filter_lists(filters), order, cursor, size=size, is_counted=size == pagination.PAGE_SIZE
    )
    return replace(page, rows=[RunRow(record) for record in page.rows])


def read_batches(filters: Mapping[str, str], order: Order) -> Iterator[list[RunRow]]:
    """Yield all rows in batches, as far as they are asked for."""
    return pagination.follow_pages(partial(read_page, filters, order, size=pagination.BATCH_SIZE))


def read_rows(keys: Collection[str]) -> list[RunRow]:
    """Return the rows with these keys that still exist. Two queries."""
    run_ids, trace_pks = _split_keys(keys)
    runs = [RunRow(run) for run in filter_runs(NO_FILTERS).filter(pk__in=run_ids)]
    traces = filter_invocations(NO_FILTERS).filter(pk__in=trace_pks)
    return runs + [RunRow(trace) for trace in traces]


def newest_time(filters: Mapping[str, str]) -> float:
    """Return when the newest matching row was created; 0 if none matches. Two queries."""
    page = read_page(filters, Order("-created_at"), size=1)
    return page.rows[0].created_at if page.rows else 0.0


def list_unshown(filters: Mapping[str, str], shown_keys: Collection[str]) -> list[QuerySet[Any]]:
    """Return the matching runs, and traces without a run, that a page does not show."""
    lists = zip(_filter_lists(filters), _split_keys(shown_keys), strict=True)
    return [rows.exclude(pk__in=pks) for rows, pks in lists]


def _split_keys(keys: Collection[str]) -> tuple[list[str], list[int]]:
    """Return the ids of runs and the primary keys of traces among the keys of rows."""
    numbers = {key: parse_number(key.removeprefix(TRACE_KEY)) for key in keys if key.startswith(TRACE_KEY)}
    trace_pks = {key: number for key, number in numbers.items() if number is not None}
    return [key for key in keys if key not in trace_pks], list(trace_pks.values())


def list_error_types(chosen: str) -> list[str]:
    """Return the error types of failed runs, and the chosen one."""
    failed = Run.objects.exclude(error_type="").order_by("error_type")
    names = failed.values_list("error_type", flat=True).distinct()[:MAX_ERROR_TYPES]
    return sorted({*names, *filter(None, [chosen])})


def add_spending(rows: Sequence[RunRow]) -> list[RunRow]:
    """Return rows with their tokens and costs. At most five queries."""
    of_runs = read_listed_spending([row.run for row in rows if row.run])
    of_traces = read_invocations_spending([row.invocation for row in rows if not row.run])
    return [
        replace(row, spending=of_runs.get(row.pk) if row.run else of_traces.get(row.invocation))
        for row in rows
    ]


def read_listed_spending(runs: Sequence[Run]) -> dict[str, Spending]:
    """Return tokens and costs of runs by id, without very long ones. At most four queries."""
    return read_runs_spending(
        [run for run in runs if (run.last_seq or 0) - (run.first_seq or 0) <= MAX_EVENTS]
    )
