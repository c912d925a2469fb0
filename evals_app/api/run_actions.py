"""REST API of actions on runs: cancel, change the parallelism, resume, retry, repeat; replay a session."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import P, PathEx, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from evals_app import roles
from evals_app.analysis import baselines, run_summary
from evals_app.analysis.exports import run_json
from evals_app.cases import session_cases
from evals_app.models import EvalRun
from evals_app.runs import dispatch, rerun, run_orders
from evals_app.runs.replayed_sessions import order_replay
from evals_app.runs.writes import runs
from evals_app.runs.writes.attempts import request_cancel_attempt
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS
from sessions_app.http import note_object, person_name
from sessions_app.lookup import find_session
from sessions_app.store.database import retry, units_of_work

router = Router(tags=["evals"])
"""Mounted by the package."""

RunId = PathEx[str, P(description="The run's id.")]


class Parallelism(Schema):
    """Number of parallel attempts."""

    model_config = ConfigDict(extra="forbid")

    parallelism: int


class RetryIn(Schema):
    """Attempts to retry."""

    model_config = ConfigDict(extra="forbid")

    attempts: list[int] = Field(
        default=[],
        description="Attempts; empty: all that failed, erred or are incomplete, in all their tries.",
    )


class ConfirmIn(Schema):
    """Number of repetitions of the cases that look worse."""

    model_config = ConfigDict(extra="forbid")

    baseline: str = Field(
        default="baseline", description="A run's id, baseline (the marked one) or previous."
    )
    repetitions: int = Field(default=5, description="Repetitions of each case.")


class ReplayIn(Schema):
    """Session to replay, and the parts that come from its recording."""

    model_config = ConfigDict(extra="forbid")

    session: int = Field(description="The session's key, as /api/v1/sessions returns it.")
    models: str = Field(default="live", description="live or recorded.")
    tools: str = Field(default="recorded", description="live, recorded, or fail: a call ends the attempt.")


@router.post("/runs/{run_id}/resume", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.RUN_EVALS)
async def resume_run(request: HttpRequest, run_id: RunId) -> Status[dict[str, Any]]:
    """Resume a run: execute its unfinished attempts. Ended attempts stay as they are."""
    [run] = await dispatch.restart_and_deliver(
        run_id, lambda _: [rerun.resume(run_summary.find_run(run_id), person=person_name(request))]
    )
    return await accepted_response(run)


@router.post("/runs/{run_id}/retry", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.RUN_EVALS)
async def retry_run(request: HttpRequest, run_id: RunId, body: RetryIn) -> Status[dict[str, Any]]:
    """Retry attempts. Those without an outcome restart in the run; a new run tries the others again.

    The answer is the run, and `executes`: the ids of the runs that try the attempts again. First outcomes count.
    """

    def retry_attempts(new_id: str) -> list[EvalRun]:
        run = run_summary.find_run(run_id)
        return rerun.retry(run, body.attempts, run_id=new_id, person=person_name(request))

    retries = await dispatch.restart_and_deliver(run_id, retry_attempts)
    facts = await retry.read(_run_facts, run_id)
    return Status(202, {**facts, "executes": [run.id for run in retries]})


@router.post("/runs/{run_id}/again", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.RUN_EVALS)
async def repeat_run(request: HttpRequest, run_id: RunId) -> Status[dict[str, Any]]:
    """Start a run that repeats this one exactly, with the current code."""
    return await accepted_response(
        await dispatch.create_and_deliver(
            lambda new_id: rerun.repeat(
                run_summary.find_run(run_id), "api", new_id, person=person_name(request)
            )
        )
    )


@router.post("/runs/{run_id}/confirm", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.RUN_EVALS)
async def confirm_run(request: HttpRequest, run_id: RunId, body: ConfirmIn) -> Status[dict[str, Any]]:
    """Repeat the cases that look worse than in another run. Comparisons with that run then use the repetitions."""

    def order(new_id: str) -> EvalRun:
        run = run_summary.find_run(run_id)
        reference = baselines.require_reference(run, body.baseline)
        cases = baselines.cases_to_confirm(reference, run)
        return rerun.confirm(run, cases, body.repetitions, run_id=new_id, person=person_name(request))

    return await accepted_response(await dispatch.create_and_deliver(order))


@router.put("/runs/{run_id}/parallelism", response={200: dict[str, Any], **REFUSALS})
@needs(put=roles.RUN_EVALS)
async def set_parallelism(request: HttpRequest, run_id: RunId, body: Parallelism) -> dict[str, Any]:
    """Change how many attempts of a run execute at once. A run that has ended stays as it is."""
    await units_of_work.read(run_summary.find_run, run_id)
    run_orders.check_parallelism(body.parallelism)
    await units_of_work.write(runs.set_parallelism, run_id, body.parallelism)
    return await read_facts(run_id)


@router.post("/runs/{run_id}/attempts/{int:attempt}/cancel", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.CANCEL_EVALS)
async def cancel_attempt(request: HttpRequest, run_id: RunId, attempt: int) -> Status[dict[str, Any]]:
    """Request the cancellation of an attempt. One that has ended stays as it is."""
    run = await units_of_work.read(run_summary.find_run, run_id)
    attempt_row = await units_of_work.read(rerun.find_attempt, run, attempt)
    await units_of_work.write(request_cancel_attempt, attempt_row.pk)
    return Status(
        202, await units_of_work.read(lambda: run_json.attempt_facts(rerun.find_attempt(run, attempt)))
    )


@router.post("/replays", response={202: dict[str, Any], **REFUSALS})
@needs(post=roles.RUN_EVALS)
async def replay_session(request: HttpRequest, body: ReplayIn) -> Status[dict[str, Any]]:
    """Replay a session: send its user messages to the current agent, from the session's initial state."""
    session = await units_of_work.read(find_session, body.session)
    note_object(request, session.pk, app=session.app_name)
    conversation = await session_cases.fetch_conversation(session)
    run = await dispatch.create_and_deliver(
        partial(order_replay, session, conversation, body.models, body.tools, person=person_name(request))
    )
    return await accepted_response(run)


async def accepted_response(run: EvalRun) -> Status[dict[str, Any]]:
    """Return the response to a request that has started or changed a run."""
    return Status(202, await retry.read(_run_facts, run.id))


async def read_facts(run_id: str) -> dict[str, Any]:
    """Return the facts of a run as JSON values.

    Raises:
        NotFound: no such run.
    """
    return await units_of_work.read(_run_facts, run_id)


def _run_facts(run_id: str) -> dict[str, Any]:
    run = run_summary.find_run(run_id)
    return {
        **run_json.run_facts(run),
        "retries": run_json.retries_json(run),
        "variants": run_json.variants_json(run),
    }
