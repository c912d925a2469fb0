"""DevUI's API for model calls and traces."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import P, QueryEx, Schema
from pydantic import Field

from sessions_app.api.routing import Router
from sessions_app.api.schemas import COST, DECODED, REFUSALS, ROW_PK, CostOut, ErrorBody, Older, PageSize
from sessions_app.lookup import find_event, find_session
from sessions_app.prices import current_prices
from sessions_app.prices.costs import Cost, usages_cost
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.errors import EventMissing
from sessions_app.store.events.call_usage import recorded_call_usage
from sessions_app.store.models import LOG_LEVELS, ModelCall, Span, Trace
from sessions_app.store.traces import log_records
from sessions_app.traces import model_calls, waterfall

router = Router(tags=["traces"])

Level = Literal["", "debug", "info", "warning", "error", "critical"]
CALLS = "/sessions/{int:session}/model-calls"
TOKEN_KINDS = ("prompt", "output", "thought", "cached", "total")

Invocation = QueryEx[str | None, P(description="Only calls of this invocation.")]


class CallOut(Schema):
    """A model call without its request and responses."""

    id: int
    invocation_id: str
    number: int = Field(description="Number within the invocation, from 1.")
    agent: str
    branch: str
    model: str
    event_ids: Annotated[list[str], DECODED] = Field(description="Events that the call produced.")
    started_at: float
    first_at: float | None = Field(description="Time of the first response chunk.")
    finished_at: float | None
    chunks: int
    tokens: dict[str, int] = Field(description="prompt, output, thought, cached, total.")
    cost: CostOut | None = COST
    by_callback: bool = Field(description="A callback or plug-in responded in place of the model.")
    error_type: str
    error: str

    @staticmethod
    def resolve_tokens(row: ModelCall) -> dict[str, int]:
        """Return the tokens by kind."""
        return {kind: getattr(row, f"{kind}_tokens") for kind in TOKEN_KINDS}

    @staticmethod
    def resolve_cost(row: ModelCall) -> Cost | None:
        """Return the cost by the current prices."""
        return usages_cost([recorded_call_usage(row)], current_prices())


class WholeCall(CallOut):
    """A model call with its request and responses, without credentials."""

    request: dict[str, Any] = Field(description="model, system_instruction, contents, tools, config, …")
    responses: list[dict[str, Any]]
    before: Annotated[int, ROW_PK] | None = Field(
        description="Previous call of the same agent, to compare with."
    )

    resolve_request = staticmethod(model_calls.request_json)
    resolve_responses = staticmethod(model_calls.responses)
    resolve_before = staticmethod(model_calls.call_before)


class CallPage(Schema):
    """Model calls of a session, newest first."""

    items: list[CallOut] = Field(validation_alias="rows")
    next: str


class SpanOut(Schema):
    """A span of OpenTelemetry that ADK made. Times are in nanoseconds since the epoch."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    started_ns: int
    ended_ns: int
    failed: bool
    message: str
    event_id: str
    attributes: Annotated[dict[str, Any], DECODED]


class StageOut(Schema):
    """A stage that an invocation reached."""

    name: str
    of: str = Field(description="Name of the agent or tool.")
    at: float


class TraceOut(Schema):
    """The trace of an invocation."""

    id: int
    session: int = Field(validation_alias="session_id")
    invocation_id: str
    trace_id: str
    root_agent: str
    started_at: float
    finished_at: float | None
    working_seconds: float | None = Field(
        description="Duration without the time that it waited to be answered or resumed."
    )

    resolve_working_seconds = staticmethod(waterfall.working_seconds)


class WholeTrace(TraceOut):
    """The trace of an invocation with its stages and spans."""

    stages: list[StageOut]
    spans: list[SpanOut]
    more_spans: int = Field(description=f"Number of spans after the first {waterfall.MAX_SPANS}.")

    @staticmethod
    def resolve_stages(row: Trace) -> list[dict[str, Any]]:
        """Return the stages with the names of their parts."""
        return [{"name": name, "at": at, "of": of} for name, at, of in row.decoded_stages]

    @staticmethod
    def resolve_spans(row: Trace) -> QuerySet[Span]:
        """Return the first spans."""
        return _trace_spans(row).order_by("started_ns", "pk")[: waterfall.MAX_SPANS]

    @staticmethod
    def resolve_more_spans(row: Trace) -> int:
        """Return the number of further spans."""
        return max(0, _trace_spans(row).count() - waterfall.MAX_SPANS)


class LogRecordOut(Schema):
    """A log record or printed line of an invocation."""

    id: int
    at: float
    level: int = Field(description="Python's number: 20 is INFO, 30 WARNING, 40 ERROR.")
    source: str = Field(description="log, stdout or stderr.")
    logger: str
    agent: str
    tool: str
    call_id: str
    after_event_id: str = Field(description="Last event of the invocation before it; empty: none.")
    message: str


class LogPage(Schema):
    """Log records of an invocation, oldest first. `next` is the cursor of the next page; null: there is none."""

    items: list[LogRecordOut] = Field(validation_alias="records")
    next: int | None = Field(validation_alias="next_pk")


class TracePage(Schema):
    """Traces, newest first."""

    items: list[TraceOut] = Field(validation_alias="rows")
    next: str


@router.get(CALLS, response={200: CallPage, **REFUSALS})
async def list_model_calls(
    request: HttpRequest,
    session: int,
    invocation: Invocation = None,
    event: QueryEx[
        str | None, P(description="The call that produced the event of this id or number.")
    ] = None,
    limit: PageSize = 50,
    before: Older = "",
) -> CallPage:
    """List a session's model calls, newest first."""
    return await units_of_work.read(_call_page, session, invocation, event, limit, before)


@router.get(CALLS + "/{int:call}", response={200: WholeCall, **REFUSALS})
async def get_model_call(request: HttpRequest, session: int, call: int) -> WholeCall:
    """Return a model call with its request and responses."""
    return await units_of_work.read(_whole_call, session, call)


@router.get("/traces", response={200: TracePage, 400: ErrorBody, 404: ErrorBody, 422: ErrorBody})
async def list_traces(
    request: HttpRequest,
    session: QueryEx[int | None, P(description="Key of a session.")] = None,
    app: str = "",
    limit: PageSize = 50,
    before: Older = "",
) -> TracePage:
    """List traces of invocations, newest first."""
    return await units_of_work.read(_trace_page, session, app, limit, before)


@router.get("/traces/{int:trace}", response={200: WholeTrace, 404: ErrorBody, 422: ErrorBody})
async def get_trace(request: HttpRequest, trace: int) -> WholeTrace:
    """Return the trace of an invocation with its stages and spans."""
    return await units_of_work.read(_whole_trace, trace)


@router.get("/traces/{int:trace}/log", response={200: LogPage, 404: ErrorBody, 422: ErrorBody})
async def list_log_records(
    request: HttpRequest,
    trace: int,
    level: QueryEx[Level, P(description="Lowest level; empty: all.")] = "",
    after: QueryEx[int, P(ge=0, description="Cursor: `next` of the page before.")] = 0,
) -> LogPage:
    """List the log records and printed lines of an invocation, oldest first."""
    return await units_of_work.read(_log_page, trace, level, after)


def _log_page(pk: int, level: str, after: int) -> LogPage:
    trace = waterfall.find_trace(pk)
    return LogPage.model_validate(
        log_records.read_page(trace.session, trace.invocation_id, LOG_LEVELS.get(level, 0), after)
    )


def _call_page(session: int, invocation: str | None, event: str | None, limit: int, before: str) -> CallPage:
    row = find_session(session)
    rows = ModelCall.objects.filter(session=row).defer("request", "response")
    if invocation is not None:
        rows = rows.filter(invocation_id=invocation)
    if event is not None:
        with suppress(EventMissing):
            event = find_event(row, event_id=event).event_id
        rows = rows.filter(event_id=event)
    return CallPage.model_validate(
        pagination.paginate(rows, pagination.Order("-started_at"), before, size=limit)
    )


def _whole_call(session: int, call: int) -> WholeCall:
    return WholeCall.model_validate(model_calls.find_call(find_session(session), call))


def _trace_page(session: int | None, app: str, limit: int, before: str) -> TracePage:
    if session is None:
        rows = waterfall.list_traces(app)
    else:
        rows = Trace.objects.select_related("session").filter(session=find_session(session))
    return TracePage.model_validate(
        pagination.paginate(rows, pagination.Order("-started_at"), before, size=limit)
    )


def _whole_trace(pk: int) -> WholeTrace:
    return WholeTrace.model_validate(waterfall.find_trace(pk))


def _trace_spans(row: Trace) -> QuerySet[Span]:
    return Span.objects.filter(session=row.session_id, invocation_id=row.invocation_id)
