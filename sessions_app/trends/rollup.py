"""Roll-up of ended invocations into trend buckets, in the background.

Each trace has a cursor, `counted_until`: the time up to which its calls are counted. The cursor moves in the
transaction that changes the buckets, so each call is counted once, even if a process dies. When a resumed invocation
ends again, its later calls are counted. Buckets do not refer to sessions: deleting or purging one changes no trend,
because its tokens were spent. Eval attempts are not counted; the pages of eval runs show them.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Subquery

from sessions_app.problems import Severity
from sessions_app.statistics import MAX_GROUPS
from sessions_app.store import realms, scopes
from sessions_app.store.database import named_locks
from sessions_app.store.events.call_usage import END_OF_TIME_S, add_tokens, split_tokens
from sessions_app.store.models import (
    UNCOUNTED,
    Event,
    ModelCall,
    Run,
    SessionProblem,
    Span,
    Trace,
    TrendBucket,
)
from sessions_app.traces.waterfall import ENDS
from sessions_app.trends import histogram
from sessions_app.trends.histogram import Histogram

BATCH_TRACES = 50
"""Invocations counted in one transaction, which holds SQLite's only write lock."""

HOUR, DAY = 3_600, 86_400
MAX_NAME = 200
"""Characters of a name that are stored; longer names with the same start are counted together."""

MERGED_TOOLS = "execute_tool (merged)"
"""Name of ADK's span around parallel tool calls, which have spans of their own."""

CRASHED = (Run.Status.CRASHED, Run.Status.FAILED)

_LOCK_NAME = "devui trends"

Measure, Dimension = TrendBucket.Measure, TrendBucket.Dimension

MEASURES_IN_SAMPLES = (Measure.INVOCATION, Measure.MODEL)
"""Measures that the comparison of code versions needs."""

Row = TypeVar("Row", bound=Any)
Invocation = tuple[int, str]
"""Primary key of the session, and invocation id."""


class BucketKey(NamedTuple):
    """Identifying columns of a bucket."""

    measure: str
    dimension: str
    hourly: bool
    start: int
    app_name: str
    value: str
    sample: int
    name: str

    @property
    def digest(self) -> str:
        """The bucket's primary key."""
        return hashlib.blake2b(json.dumps(self).encode(), digest_size=16).hexdigest()


@dataclass(slots=True)
class Totals:
    """Totals of observations. `tokens` are those of `split_tokens`."""

    first_at: float = float("inf")
    count: int = 0
    errors: int = 0
    label: str = ""
    latency: Histogram = field(default_factory=Counter)
    first_token: Histogram = field(default_factory=Counter)
    tokens: dict[str, int] = field(default_factory=dict)

    def add(self, other: Totals) -> None:
        """Add other totals."""
        self.first_at = min(self.first_at, other.first_at)
        self.count += other.count
        self.errors += other.errors
        self.label = other.label or self.label
        self.latency.update(other.latency)
        self.first_token.update(other.first_token)
        add_tokens(self.tokens, other.tokens)

    @classmethod
    def of(cls, row: TrendBucket) -> Totals:
        """Return the totals of a bucket."""
        tokens = {kind: getattr(row, column) for kind, column in TOKEN_COLUMNS.items()}
        histograms = histogram.load(row.latency), histogram.load(row.first_token)
        return cls(row.first_at, row.count, row.errors, row.label, *histograms, tokens)

    def row(self, key: BucketKey, digest: str) -> TrendBucket:
        """Return the bucket with these totals."""
        return TrendBucket(
            key=digest,
            **key._asdict(),
            label=self.label,
            first_at=self.first_at,
            count=self.count,
            errors=self.errors,
            latency=histogram.dump(self.latency),
            first_token=histogram.dump(self.first_token),
            **{column: self.tokens.get(kind, 0) for kind, column in TOKEN_COLUMNS.items()},
        )


TOKEN_COLUMNS = {
    "prompt": "prompt_tokens",
    "cached": "cached_tokens",
    "output": "output_tokens",
    "thoughts": "thought_tokens",
}
SUMS = ("label", "first_at", "count", "errors", "latency", "first_token", *TOKEN_COLUMNS.values())
"""Columns that change when observations are added."""

_COLUMNS = [column.attname for column in TrendBucket._meta.concrete_fields]
_PUT_BUCKET = (
    f"INSERT INTO {TrendBucket._meta.db_table} ({', '.join(_COLUMNS)})"  # noqa: S608 - our own names
    f" VALUES ({', '.join(['%s'] * len(_COLUMNS))}) ON CONFLICT (key) DO UPDATE SET"
    f" {', '.join(f'{column} = excluded.{column}' for column in SUMS)}"
)

CALL_COLUMNS = (
    *("session_id", "invocation_id", "agent", "model", "started_at", "first_at", "finished_at", "error_type"),
    *("prompt_tokens", "output_tokens", "thought_tokens", "cached_tokens", "total_tokens"),
)


@dataclass(frozen=True, slots=True)
class Observation:
    """An invocation, a call or a problem to count. `totals` has its time, duration, tokens and failure."""

    measure: str
    agent: str
    totals: Totals
    name: str = ""


@dataclass(slots=True)
class Batch:
    """Ended invocations, and the totals to add to the buckets for them."""

    traces: list[Trace]
    totals: defaultdict[BucketKey, Totals] = field(default_factory=lambda: defaultdict(Totals))


@dataclass(slots=True)
class Records:
    """Recorded calls, spans, runs and problems by invocation."""

    calls: Mapping[Invocation, list[ModelCall]]
    spans: Mapping[Invocation, list[Span]]
    runs: Mapping[Invocation, list[Run]]
    problems: Mapping[Invocation, list[SessionProblem]]


def read_batch() -> Batch | None:
    """Read the newest ended invocations that are not counted; None if there are none."""
    traces = list(_countable_traces()[:BATCH_TRACES])
    if not traces:
        return None
    batch = Batch(traces)
    records = _read_records(traces)
    for trace in traces:
        former_realm: str = trace.former_realm  # type: ignore[attr-defined]  # annotated by `_countable_traces`
        if not (former_realm or trace.session.realm).startswith(realms.ATTEMPT):
            add_invocation(batch, trace, records)
    return batch


def store(batch: Batch) -> bool:
    """Add a batch to the buckets. Return False and change nothing if one of its invocations has changed since."""
    with transaction.atomic():
        named_locks.take_lock(_LOCK_NAME)
        is_current = all(_move_cursor(trace) for trace in batch.traces)
        if is_current:
            add_to_buckets(batch.totals)
        else:
            transaction.set_rollback(True)
    return is_current


def count_all() -> int:
    """Count all ended invocations. Return the number of batches."""
    batches = 0
    while batch := read_batch():
        store(batch)
        batches += 1
    return batches


def _countable_traces() -> QuerySet[Trace]:
    """Return the uncounted traces whose session was checked for problems and has no active run."""
    active = Run.objects.filter(session=OuterRef("session"), status__in=Run.ACTIVE)
    rows = Trace.objects.filter(UNCOUNTED, ~Exists(active), session__problems_seq__gte=F("session__last_seq"))
    return rows.select_related("session").annotate(former_realm=F("session__deletion__realm")).order_by("-pk")


def _read_records(traces: Iterable[Trace]) -> Records:
    conditions = {
        "session__in": {trace.session_id for trace in traces},
        "invocation_id__in": {trace.invocation_id for trace in traces},
    }
    event = Event.objects.filter(session=OuterRef("session"), seq=OuterRef("seq"))
    return Records(
        _by_invocation(ModelCall.objects.filter(by_callback=False, **conditions).only(*CALL_COLUMNS)),
        _by_invocation(Span.objects.filter(kind=Span.Kind.TOOL, **conditions).exclude(name=MERGED_TOOLS)),
        _by_invocation(Run.objects.filter(**conditions).defer("request", "traceback").order_by("created_at")),
        _by_invocation(
            SessionProblem.objects.filter(**conditions)
            .exclude(severity=Severity.NOTE)
            .annotate(event_at=Subquery(event.values("timestamp")))
        ),
    )


def _by_invocation(rows: Iterable[Row]) -> defaultdict[Invocation, list[Row]]:
    grouped: defaultdict[Invocation, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row.session_id, row.invocation_id].append(row)
    return grouped


def add_invocation(batch: Batch, trace: Trace, records: Records) -> None:
    """Add an ended invocation to a batch."""
    invocation = (trace.session_id, trace.invocation_id)
    runs = records.runs.get(invocation, [])
    sample = zlib.crc32(f"{trace.session_id} {trace.invocation_id}".encode()) % MAX_GROUPS
    observations = [
        *_active_periods(trace, runs),
        *map(_model_call, records.calls.get(invocation, ())),
        *map(_tool_call, records.spans.get(invocation, ())),
        *(_problem_observation(problem, trace) for problem in records.problems.get(invocation, ())),
    ]
    for observation in observations:
        began_at = observation.totals.first_at
        if began_at <= trace.counted_until:
            continue
        run = _run_at(runs, began_at)
        observation.totals.label = run.git_revision if run else ""
        for key in _bucket_keys(observation, trace, run.code_version if run else "", sample):
            batch.totals[key].add(observation.totals)


def _bucket_keys(observation: Observation, trace: Trace, code: str, sample: int) -> Iterator[BucketKey]:
    """Yield the keys of the buckets that an observation belongs to."""
    began_at, session = observation.totals.first_at, trace.session
    values = {Dimension.ALL: "", Dimension.AGENT: observation.agent, Dimension.CODE: code}
    buckets = [
        (dimension, hourly, value, 0) for dimension, value in values.items() for hourly in (True, False)
    ]
    buckets.append((Dimension.USER, False, session.user_id, 0))
    if observation.measure in MEASURES_IN_SAMPLES:
        buckets.append((Dimension.SAMPLE, False, code, sample))
    for dimension, hourly, value, sample_number in buckets:
        start = int(began_at // HOUR * HOUR if hourly else began_at // DAY * DAY)
        bucket = (session.app_name, value[:MAX_NAME], sample_number, observation.name[:MAX_NAME])
        yield BucketKey(observation.measure, dimension, hourly, start, *bucket)


def _active_periods(trace: Trace, runs: list[Run]) -> Iterator[Observation]:
    """Yield the periods in which an invocation ran: a period ends when it waits for an answer."""
    began: float | None = None
    for name, reached_at, _ in trace.decoded_stages:
        began = reached_at if began is None else began
        if name in ENDS:
            yield _active_period(trace, began, reached_at, name, runs)
            began = None
    if (
        began is not None and trace.finished_at is not None
    ):  # the end is missing if there were too many stages
        yield _active_period(trace, began, trace.finished_at, "", runs)


def _active_period(trace: Trace, began: float, ended: float, stage: str, runs: list[Run]) -> Observation:
    run = _run_at(runs, ended)
    has_crashed = stage == Trace.CUT_OFF and run is not None and run.status in CRASHED
    totals = _invocation_totals(began, ended, has_failed=stage == "failed" or has_crashed)
    return Observation(Measure.INVOCATION, trace.root_agent, totals)


def _model_call(call: ModelCall) -> Observation:
    totals = _invocation_totals(call.started_at, call.finished_at, has_failed=bool(call.error_type))
    if call.first_at is not None:
        totals.first_token[histogram.find_cell(call.first_at - call.started_at)] = 1
    totals.tokens = split_tokens(
        call.prompt_tokens, call.output_tokens, call.thought_tokens, call.cached_tokens, call.total_tokens
    )
    return Observation(Measure.MODEL, call.agent, totals, call.model)


def _tool_call(span: Span) -> Observation:
    totals = _invocation_totals(span.started_ns / 1e9, span.ended_ns / 1e9, has_failed=span.failed)
    attributes = json.loads(span.attributes)
    agent, name = attributes.get("gen_ai.agent.name") or "", attributes.get("gen_ai.tool.name") or span.name
    return Observation(Measure.TOOL, scopes.clean_text(str(agent)), totals, scopes.clean_text(str(name)))


def _problem_observation(problem: SessionProblem, trace: Trace) -> Observation:
    """Return a problem with its `more` similar ones.

    Without an event, or if the time of its event is no date, its time is the invocation's start.
    """
    event_at = problem.event_at  # type: ignore[attr-defined]  # annotated by `_read_records`
    problem_at = event_at if event_at and 0 < event_at < END_OF_TIME_S else trace.started_at
    count = 1 + problem.more
    totals = Totals(problem_at, count, count if problem.severity == Severity.ERROR else 0)
    return Observation(Measure.PROBLEM, problem.agent, totals, problem.code)


def _invocation_totals(began: float, ended: float | None, *, has_failed: bool) -> Totals:
    seconds: Histogram = Counter() if ended is None else Counter([histogram.find_cell(ended - began)])
    return Totals(began, 1, int(has_failed), latency=seconds)


def _run_at(runs: list[Run], moment: float) -> Run | None:
    """Return the run of an invocation at a time; None if DevUI did not run it."""
    started = [run for run in runs if run.created_at <= moment]
    return started[-1] if started else next(iter(runs), None)


def _move_cursor(trace: Trace) -> bool:
    """Mark an invocation as counted. Return False if it was resumed, or if another process counted it."""
    unchanged = Trace.objects.filter(
        pk=trace.pk, finished_at=trace.finished_at, counted_until=trace.counted_until
    )
    return bool(unchanged.update(counted_until=trace.finished_at))


def add_to_buckets(totals: Mapping[BucketKey, Totals]) -> None:
    """Add totals to the stored buckets."""
    keys = {key.digest: key for key in totals}
    stored = TrendBucket.objects.in_bulk(list(keys))
    for digest, row in stored.items():
        totals[keys[digest]].add(Totals.of(row))
    rows = [totals[key].row(key, digest) for digest, key in keys.items()]
    with connection.cursor() as cursor:  # plain SQL: Django's bulk_create takes five times as long
        cursor.executemany(_PUT_BUCKET, [[getattr(row, name) for name in _COLUMNS] for row in rows])
