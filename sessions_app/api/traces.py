"""DevUI's API for model calls and traces."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Self

from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema
from pydantic import Field

from sessions_app.api.schemas import Problem
from sessions_app.errors import EventMissing
from sessions_app.lookup import find_event, find_session
from sessions_app.models import ModelCall, Span, Trace
from sessions_app.store import pagination, units_of_work
from sessions_app.traces import model_calls, waterfall

router = Router(tags=["traces"])

ERRORS = {400: Problem, 404: Problem, 422: Problem}
CALLS = "/sessions/{int:session}/model-calls"

PageSize = QueryEx[int, P(ge=1, le=200, description="Maximum number of rows.")]
Older = QueryEx[str, P(description="`next` of the page before.")]
Invocation = QueryEx[str | None, P(description="Only calls of this invocation.")]


class CallOut(Schema):
    """A model call without its request and responses."""

    id: int
    invocation_id: str
    number: int = Field(description="Number within the invocation, from 1.")
    agent: str
    branch: str
    model: str
    event_ids: list[str] = Field(description="Events that the call produced.")
    started_at: float
    first_at: float | None = Field(description="Time of the first response chunk.")
    finished_at: float | None
    chunks: int
    tokens: dict[str, int] = Field(description="prompt, output, thought, cached, total.")
    by_callback: bool = Field(description="A callback or plug-in responded in place of the model.")
    error_type: str
    error: str

    @classmethod
    def of(cls, row: ModelCall) -> Self:
        """Return the schema of a row."""
        return cls(**_call_fields(row))


class WholeCall(CallOut):
    """A model call with its request and responses, without credentials."""

    request: dict[str, Any] = Field(description="model, system_instruction, contents, tools, config, …")
    responses: list[dict[str, Any]]
    before: int | None = Field(description="Previous call of the same agent, to compare with.")


class CallPage(Schema):
    """Model calls of a session, newest first."""

    items: list[CallOut]
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
    attributes: dict[str, Any]


class StageOut(Schema):
    """A stage that an invocation reached."""

    name: str
    of: str = Field(description="Name of the agent or tool.")
    at: float


class TraceOut(Schema):
    """The trace of an invocation."""

    id: int
    session: int
    invocation_id: str
    trace_id: str
    root_agent: str
    started_at: float
    finished_at: float | None
    working_seconds: float | None = Field(
        description="Duration without the time that it waited to be answered or resumed."
    )

    @classmethod
    def of(cls, row: Trace) -> Self:
        """Return the schema of a row."""
        return cls(**_trace_fields(row))


class WholeTrace(TraceOut):
    """The trace of an invocation with its stages and spans."""

    stages: list[StageOut]
    spans: list[SpanOut]


class TracePage(Schema):
    """Traces, newest first."""

    items: list[TraceOut]
    next: str


@router.get(CALLS, response={200: CallPage, **ERRORS})
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


@router.get(CALLS + "/{int:call}", response={200: WholeCall, **ERRORS})
async def get_model_call(request: HttpRequest, session: int, call: int) -> WholeCall:
    """Return a model call with its request and responses."""
    return await units_of_work.read(_whole_call, session, call)


@router.get("/traces", response={200: TracePage, 400: Problem, 404: Problem, 422: Problem})
async def list_traces(
    request: HttpRequest,
    session: QueryEx[int | None, P(description="Key of a session.")] = None,
    app: str = "",
    limit: PageSize = 50,
    before: Older = "",
) -> TracePage:
    """List traces of invocations, newest first."""
    return await units_of_work.read(_trace_page, session, app, limit, before)


@router.get("/traces/{int:trace}", response={200: WholeTrace, 404: Problem, 422: Problem})
async def get_trace(request: HttpRequest, trace: int) -> WholeTrace:
    """Return the trace of an invocation with its stages and spans."""
    return await units_of_work.read(_whole_trace, trace)


def _call_page(session: int, invocation: str | None, event: str | None, limit: int, before: str) -> CallPage:
    row = find_session(session)
    rows = ModelCall.objects.filter(session=row).defer("request", "response")
    if invocation is not None:
        rows = rows.filter(invocation_id=invocation)
    if event is not None:
        with suppress(EventMissing):
            event = find_event(row, event_id=event).event_id
        rows = rows.filter(event_id=event)
    page = pagination.paginate(rows, "started_at", before, size=limit)
    return CallPage(items=[CallOut.of(row) for row in page.rows], next=page.older)


def _whole_call(session: int, call: int) -> WholeCall:
    row = model_calls.find_call(find_session(session), call)
    before = model_calls.call_before(row)
    return WholeCall(**_call_fields(row), **model_calls.call_json(row), before=before.pk if before else None)


def _call_fields(row: ModelCall) -> dict[str, Any]:
    same = ("id", "invocation_id", "number", "agent", "branch", "model", "started_at", "first_at")
    names = (*same, "finished_at", "chunks", "by_callback", "error_type", "error")
    tokens = ("prompt", "output", "thought", "cached", "total")
    return {
        **{name: getattr(row, name) for name in names},
        "event_ids": json.loads(row.event_ids),
        "tokens": {name: getattr(row, f"{name}_tokens") for name in tokens},
    }


def _trace_page(session: int | None, app: str, limit: int, before: str) -> TracePage:
    if session is None:
        rows = waterfall.filter_traces(waterfall.TraceFilter(app))
    else:
        rows = Trace.objects.select_related("session").filter(session=find_session(session))
    page = pagination.paginate(rows, "started_at", before, size=limit)
    return TracePage(items=[TraceOut.of(row) for row in page.rows], next=page.older)


def _whole_trace(pk: int) -> WholeTrace:
    row = waterfall.find_trace(pk)
    spans = Span.objects.filter(session=row.session_id, invocation_id=row.invocation_id)
    return WholeTrace(
        **_trace_fields(row),
        stages=[StageOut(name=name, at=at, of=of) for name, at, of in row.stages_told],
        spans=[_span_out(span) for span in spans.order_by("started_ns", "pk")[: waterfall.MAX_SPANS]],
    )


def _trace_fields(row: Trace) -> dict[str, Any]:
    names = ("id", "invocation_id", "trace_id", "root_agent", "started_at", "finished_at")
    return {
        **{name: getattr(row, name) for name in names},
        "session": row.session_id,
        "working_seconds": waterfall.working_seconds(row),
    }


def _span_out(span: Span) -> SpanOut:
    names = set(SpanOut.model_fields) - {"attributes"}
    return SpanOut(**{name: getattr(span, name) for name in names}, attributes=json.loads(span.attributes))
