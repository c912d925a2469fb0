"""REST API of results: comparison of two runs, trend of an evalset, baselines, notes and prices."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import P, QueryEx, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from evals_app import roles
from evals_app.analysis import baselines, run_summary, trends
from evals_app.analysis.ci_gate import REGRESSION, Gate, GateResult
from evals_app.analysis.exports import comparison_json, comparison_page, html_page
from evals_app.api.run_actions import RunId
from evals_app.files import library
from evals_app.runs.writes import notes
from sessions_app import prices
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS
from sessions_app.http import download_page, person_name
from sessions_app.store.database import units_of_work
from sessions_app.store.ids import StorableText

router = Router(tags=["evals"])
"""Mounted by the package."""


Against = QueryEx[
    str, P(alias="with", description="A run's id or the beginning of one, `baseline` or `previous`.")
]


class Baseline(Schema):
    """Marks a run as the baseline of its evalset."""

    model_config = ConfigDict(extra="forbid")

    baseline: bool


class Note(Schema):
    """Note of a person; empty: none."""

    model_config = ConfigDict(extra="forbid")

    note: str = Field(max_length=notes.MAX_NOTE)


@router.get("/runs/{run_id}/compare", response={200: dict[str, Any], **REFUSALS})
async def compare_run(
    request: HttpRequest,
    run_id: RunId,
    against: Against = "baseline",
) -> dict[str, Any]:
    """Compare a run with earlier ones of its evalset: a verdict on each case with its evidence, and on the run."""
    return await units_of_work.read(_compare_run, run_id, against)


@router.get("/runs/{run_id}/compare/html", response={200: None, **REFUSALS})
@needs(get=roles.EXPORT_EVALS)
async def export_comparison(
    request: HttpRequest, run_id: RunId, against: Against = "baseline"
) -> HttpResponse:
    """Return the comparison of a run with another one as one HTML file, without credentials."""
    page = await units_of_work.read(_comparison_html, run_id, against)
    return download_page(page, f"eval-compare-{run_id}")


@router.get("/attempts/{int:attempt}/html", response={200: None, **REFUSALS})
@needs(get=roles.EXPORT_EVALS)
async def export_case(request: HttpRequest, attempt: int) -> HttpResponse:
    """Return the case of an attempt, with its repetitions in this run, as one HTML file, without credentials."""
    page = await units_of_work.read(lambda: html_page.case_html(run_summary.find_attempt(attempt)))
    return download_page(page, f"eval-case-{attempt}")


@router.get("/trend", response={200: list[dict[str, Any]], **REFUSALS})
async def get_trend(request: HttpRequest, app: StorableText, evalset: StorableText) -> list[dict[str, Any]]:
    """Return the newest runs of an evalset, the oldest first: pass rates with intervals (95 %), cost, changes."""
    return await units_of_work.read(
        lambda: comparison_json.trend_facts(trends.read_evalset_trend(library.find_evalset(app, evalset)))
    )


@router.put("/runs/{run_id}/baseline", response={204: None, **REFUSALS})
@needs(put=roles.WRITE_NOTE)
async def mark_baseline(request: HttpRequest, run_id: RunId, body: Baseline) -> Status[None]:
    """Make a run the baseline of its evalset, in place of the previous one, or undo that."""
    await units_of_work.write(notes.mark_baseline, run_id, body.baseline, person=person_name(request))
    return Status(204, None)


@router.put("/runs/{run_id}/note", response={204: None, **REFUSALS})
@needs(put=roles.WRITE_NOTE)
async def note_run(request: HttpRequest, run_id: RunId, body: Note) -> Status[None]:
    """Store a note on a run."""
    await units_of_work.write(notes.note_run, run_id, body.note, person=person_name(request))
    return Status(204, None)


@router.put("/attempts/{int:attempt}/note", response={204: None, **REFUSALS})
@needs(put=roles.WRITE_NOTE)
async def note_attempt(request: HttpRequest, attempt: int, body: Note) -> Status[None]:
    """Store a note on an attempt."""
    await units_of_work.write(notes.note_attempt, attempt, body.note, person=person_name(request))
    return Status(204, None)


@router.get("/prices", response={200: dict[str, Any]})
async def get_prices(request: HttpRequest) -> dict[str, Any]:
    """Return the price file of new runs, its prices and its problems."""
    table = await units_of_work.read(prices.current_prices)
    return {**table.as_json(), "problems": [problem.as_json() for problem in table.problems]}


def _compare_run(run_id: str, against: str) -> dict[str, Any]:
    return comparison_json.comparison_facts(_judge_run(run_id, against))


def _comparison_html(run_id: str, against: str) -> str:
    return comparison_page.comparison_html(_judge_run(run_id, against))


def _judge_run(run_id: str, against: str) -> GateResult:
    """Compare a run, also one that could not run.

    Raises:
        NotFound: no such run, or none to compare with.
    """
    run, name = run_summary.find_run(run_id), against or baselines.MARKED_BASELINE
    return Gate(name, REGRESSION).judge_against(run, baselines.require_reference(run, name))
