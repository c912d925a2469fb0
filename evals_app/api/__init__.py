"""REST API of evals under /api/v1/evals: evalsets, metrics, starting a run, its status and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import P, QueryEx, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from evals_app import roles
from evals_app.analysis import attempt_detail, retries, run_summary
from evals_app.analysis.exports import run_json
from evals_app.api.cases import router as cases
from evals_app.api.results import router as results
from evals_app.api.run_actions import RunId, accepted_response, read_facts
from evals_app.api.run_actions import router as control
from evals_app.files import library
from evals_app.metrics.catalog import all_metrics, describe
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs import deletion, dispatch, run_form, run_orders
from evals_app.runs.variant_orders import order_with_variants, require_applicable
from evals_app.variants.variant import Variant
from evals_app.variants.variant_files import parse_variants
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS, ErrorBody
from sessions_app.http import json_text, note_object, person_name
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.ids import StorableText

router = Router(tags=["evals"])
"""Mounted by `devui` at /api/v1/evals."""

router.add_router("", control)
router.add_router("", results)
router.add_router("", cases)


class ProblemOut(Schema):
    """A problem of a file; line and column count from 1, 0 is unknown."""

    file: str
    what: str
    case: str
    field: str
    line: int
    column: int


class EvalSetOut(Schema):
    """An evalset file as it is now."""

    app: str = Field(validation_alias="app_name")
    id: str = Field(validation_alias="evalset_id")
    path: str
    format: str
    name: str
    description: str
    digest: str
    cases: list[dict[str, Any]] = Field(description="id, turns, scenario, says")
    problems: list[ProblemOut] = Field(description="Why the file cannot be used; empty: it can.")
    warnings: list[str]
    gone: bool

    resolve_cases = staticmethod(library.case_summaries)
    resolve_problems = staticmethod(library.file_problems)
    resolve_warnings = staticmethod(library.file_warnings)


class MetricOut(Schema):
    """A metric. Higher is better in all of them; `reason` says why it cannot run with what is installed."""

    name: str
    kind: str
    says: str
    low: float | None
    high: float | None
    default: float | None
    reason: str


class Replay(Schema):
    """Parts of an earlier run that are replayed from its recording."""

    model_config = ConfigDict(extra="forbid")

    models: str = Field(default="live", description="live or recorded.")
    tools: str = Field(default="live", description="live, recorded, or fail: a call ends the attempt.")
    run: str = Field(
        default="", description="The run's id, or last. Requests of live models are compared with it."
    )


class RunIn(Schema):
    """An eval run to start. Metrics default to the `test_config.json` in the evalset's folder, else to ADK's."""

    model_config = ConfigDict(extra="forbid")

    app: StorableText
    evalset: StorableText
    cases: list[StorableText] = Field(default=[], description="Ids; empty: all.")
    metrics: list[StorableText] | None = None
    criteria: dict[str, float | str] = Field(
        default={}, description="Metric → threshold; metric.option → value."
    )
    config: dict[str, Any] | None = Field(default=None, description="ADK's EvalConfig.")
    num_runs: int = 1
    parallelism: int = run_orders.DEFAULT_PARALLELISM
    limits: dict[str, float | None] = Field(
        default={},
        description="seconds, tokens and cost of the run; attempt_seconds (else 1800); retry_seconds (else 120)."
        " Null: none.",
    )
    replay: Replay | None = None
    variants: list[dict[str, Any]] = Field(
        default=[],
        description="At most 4 variants to compare: name, note and agents: {AGENT: {FIELD: new value}}.",
    )


class RunPage(Schema):
    """Runs, newest first. `next` is the cursor of the next page, null at the end."""

    runs: list[dict[str, Any]]
    next: str | None


class AttemptPage(Schema):
    """Attempts of a run in file order. `next` is the cursor of the next page, null at the end."""

    attempts: list[dict[str, Any]]
    next: int | None


@router.get("/evalsets", response={200: list[EvalSetOut]})
async def list_evalsets(request: HttpRequest, app: str = "") -> list[EvalSet]:
    """List the evalset files of one app, or of all apps."""
    await units_of_work.write(library.refresh_known, app)
    return await units_of_work.read(_list_evalsets, app)


@router.get("/metrics", response={200: list[MetricOut]})
def list_metrics(request: HttpRequest) -> list[dict[str, Any]]:
    """List ADK's metrics, DevUI's own, and those of installed packages."""
    return [describe(metric) for metric in all_metrics().values()]


@router.post("/runs", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.RUN_EVALS.with_app_field("app"))
async def start_run(request: HttpRequest, body: RunIn) -> Status[dict[str, Any]]:
    """Start a run, and one of each variant. Its status shows the progress, and `variants` the ids of their runs."""
    note_object(request, body.evalset, app=body.app)
    await units_of_work.write(library.refresh_known, body.app)
    variants = await units_of_work.read(parse_variants, body.variants)  # thousands of errors take long
    if variants:
        await units_of_work.read(library.find_evalset, body.app, body.evalset)
        await require_applicable(body.app, variants)
    run, *_ = await dispatch.create_all_and_deliver(
        partial(_order_runs, body, variants, person_name(request))
    )
    note_object(request, body.evalset, run.pk)
    return await accepted_response(run)


@router.get("/runs", response={200: RunPage, **REFUSALS})
async def list_runs(
    request: HttpRequest,
    app: str = "",
    evalset: str = "",
    limit: QueryEx[int, P(ge=1, le=200)] = 50,
    before: QueryEx[str, P(description="`next` of the previous page.")] = "",
) -> RunPage:
    """List runs, newest first."""
    return await units_of_work.read(_run_page, app, evalset, limit, before)


@router.get("/runs/{run_id}", response={200: dict[str, Any], **REFUSALS})
async def get_run(request: HttpRequest, run_id: RunId) -> dict[str, Any]:
    """Return a run: what it executes, its status and its counts."""
    return await read_facts(run_id)


@router.delete("/runs/{run_id}", response={204: None, 404: ErrorBody, 409: ErrorBody})
@needs(delete=roles.DELETE_RUN)
async def delete_run(request: HttpRequest, run_id: RunId) -> Status[None]:
    """Delete a run that has ended, with its attempts' sessions, state, artifacts and memory."""
    await units_of_work.read(
        deletion.delete_run, run_id
    )  # many small transactions: not one unit of the writing thread
    return Status(204, None)


@router.get("/runs/{run_id}/results", response={200: None, **REFUSALS})
async def get_results(request: HttpRequest, run_id: RunId) -> Any:
    """Return a run with all attempts, their scores, errors and what the agent did."""
    return json_text(await units_of_work.read(lambda: run_json.run_json(run_summary.find_run(run_id))))


@router.get("/runs/{run_id}/attempts", response={200: AttemptPage, **REFUSALS})
async def list_attempts(
    request: HttpRequest,
    run_id: RunId,
    status: EvalAttempt.Status | None = None,
    limit: QueryEx[int, P(ge=1, le=200)] = 50,
    after: QueryEx[int, P(ge=0, description="`next` of the previous page.")] = 0,
) -> AttemptPage:
    """List the attempts of a run, without their turns and scores."""
    return await units_of_work.read(_attempt_page, run_id, status, limit, after)


@router.get("/attempts/{int:attempt}", response={200: dict[str, Any], **REFUSALS})
async def get_attempt(request: HttpRequest, attempt: int) -> dict[str, Any]:
    """Return one attempt with the case that it repeats, its scores, what the agent did, and its later tries."""
    return await units_of_work.read(_read_attempt, attempt)


@router.post("/runs/{run_id}/cancel", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.CANCEL_EVALS)
async def cancel_run(request: HttpRequest, run_id: RunId) -> Status[dict[str, Any]]:
    """Request the cancellation of a run. A run that has ended stays as it is."""
    await units_of_work.read(run_summary.find_run, run_id)
    await dispatch.cancel_run(run_id)
    return Status(202, await read_facts(run_id))


def _read_attempt(pk: int) -> dict[str, Any]:
    attempt = run_summary.find_attempt(pk)
    return {
        "run": attempt.run_id,
        **run_json.attempt_json(attempt, retries.find_later_tries(attempt)),
        "expected": attempt_detail.read_attempt_case(attempt),
    }


def _attempt_page(run_id: str, status: str | None, limit: int, after: int) -> AttemptPage:
    rows = run_summary.find_run(run_id).attempts.filter(pk__gt=after).order_by("pk")
    page = list((rows.filter(status=status) if status else rows)[: limit + 1])
    facts = [run_json.attempt_facts(attempt) for attempt in page[:limit]]
    return AttemptPage(attempts=facts, next=page[limit - 1].pk if len(page) > limit else None)


def _list_evalsets(app: str) -> list[EvalSet]:
    rows = EvalSet.objects.filter(gone=False, **({"app_name": app} if app else {}))
    return list(rows.order_by("app_name", "evalset_id"))


def _order_runs(body: RunIn, variants: Sequence[Variant], person: str, run_id: str) -> list[EvalRun]:
    evalset = library.find_evalset(body.app, body.evalset)
    order = run_form.order_from_json(run_form.read_run_config(evalset), body.dict())
    return order_with_variants(evalset, replace(order, person=person), variants, run_id)


def _run_page(app: str, evalset: str, limit: int, before: str) -> RunPage:
    criteria = {"app_name": app, "evalset__evalset_id": evalset}
    rows = EvalRun.objects.select_related("evalset", "version").filter(
        **{name: value for name, value in criteria.items() if value}
    )
    page = pagination.paginate(rows, pagination.Order("-created_at"), before, size=limit)
    return RunPage(runs=[run_json.run_facts(run) for run in page.rows], next=page.next or None)
