"""ADK's own paths of evals, so that its front end works with evalset files and DevUI's runs.

Paths, bodies and statuses are those of `google/adk/cli/dev_server.py`, which has most of them in two spellings.
Requests of its front end that ADK's server lacks are answered, too, and fields that it does not show are not lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from evals_app import roles
from evals_app.analysis import adk_result_json
from evals_app.cases import adk_edits, session_cases
from evals_app.files import file_changes, library
from evals_app.files.schema import EvalCase
from evals_app.metrics import config as configs
from evals_app.metrics.catalog import ADK_METRICS, missing_requirement
from evals_app.metrics.metric import Metric
from evals_app.models import EvalRun, EvalSet
from evals_app.runs import dispatch, run_form, run_orders
from sessions_app.api import request_bodies
from sessions_app.api.routing import Router, needs
from sessions_app.http import json_text, note_object, person_name
from sessions_app.store import redaction, scopes
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.change_listener import subscribe
from sessions_app.store.errors import BadInput, SessionMissing
from sessions_app.store.ids import is_storable
from sessions_app.store.models import AgentSession
from sessions_app.store.state import history

DEV = "/dev/apps/{seg:app_name}"
OLD_SET, NEW_SET = DEV + "/eval_sets/{seg:evalset_id}", DEV + "/eval-sets/{seg:evalset_id}"
OLD_CASE, NEW_CASE = OLD_SET + "/evals/{seg:case_id}", NEW_SET + "/eval-cases/{seg:case_id}"

Json = dict[str, Any]
Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

router = Router()


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class NewSet(BaseModel):
    """The evalset of `NewSetBody`: ADK's `EvalSet`, snake case only."""

    eval_set_id: str
    eval_cases: list[EvalCase] = []


class NewSetBody(_Body):
    """Body of the creation of an evalset."""

    eval_set: NewSet


class AddedSession(_Body):
    """Body of a session that becomes a case."""

    eval_id: str
    session_id: str
    user_id: str


class MetricBody(_Body):
    """A metric of a run."""

    metric_name: str
    threshold: float | None = None
    criterion: Json | None = None


class RunBody(_Body):
    """Body of a run."""

    eval_ids: list[str] = Field(default_factory=list)
    eval_case_ids: list[str] = Field(default_factory=list)
    eval_metrics: list[MetricBody]
    live_model_config: Json | None = None
    user_simulator_config: Json | None = None


@router.get(DEV + "/eval_sets")
async def list_evalset_ids(request: HttpRequest, app_name: str) -> list[str]:
    """List the ids of an app's evalsets."""
    return await units_of_work.write(_evalset_ids, app_name)


@router.get(DEV + "/eval-sets")
async def list_evalsets(request: HttpRequest, app_name: str) -> dict[str, list[str]]:
    """List the ids of an app's evalsets."""
    return {"evalSetIds": await units_of_work.write(_evalset_ids, app_name)}


@router.post(DEV + "/eval-sets")
@needs(post=roles.EDIT_EVALSET)
async def create_evalset(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Create an evalset as a file in the agent's folder."""
    evalset_body = request_bodies.validate(request_bodies.parse(request), NewSetBody).eval_set
    note_object(request, evalset_body.eval_set_id)
    cases = [case.model_dump(mode="json", exclude_unset=True) for case in evalset_body.eval_cases]
    evalset = await units_of_work.write(
        file_changes.create_evalset, app_name, evalset_body.eval_set_id, cases
    )
    return _json_answer(await units_of_work.read(_evalset_json, evalset))


@router.post(OLD_SET)
@needs(post=roles.EDIT_EVALSET)
async def create_evalset_by_id(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponseBase:
    """Create an evalset as a file in the agent's folder. Deprecated in ADK."""
    await units_of_work.write(file_changes.create_evalset, app_name, evalset_id, [])
    return _json_answer(None)


@router.get(NEW_SET)
async def get_evalset(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponseBase:
    """Return an evalset with its cases."""
    return _json_answer(await _call_with_evalset(app_name, evalset_id, _evalset_json))


@router.delete(NEW_SET)
@needs(delete=roles.DELETE_EVALSET)
async def delete_evalset(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponseBase:
    """Remove an evalset's file. Its runs stay."""
    await units_of_work.write(file_changes.remove_evalset, app_name, evalset_id)
    return _json_answer(None)


@router.get(OLD_SET + "/evals")
async def list_cases(request: HttpRequest, app_name: str, evalset_id: str) -> list[str]:
    """List the ids of an evalset's cases."""
    return await units_of_work.write(_case_ids, app_name, evalset_id)


async def get_case(request: HttpRequest, app_name: str, evalset_id: str, case_id: str) -> HttpResponseBase:
    """Return a case."""
    return _json_answer(
        _case_json(await _call_with_evalset(app_name, evalset_id, adk_edits.find_case, case_id))
    )


@needs(put=roles.EDIT_EVALSET)
async def update_case(request: HttpRequest, app_name: str, evalset_id: str, case_id: str) -> HttpResponseBase:
    """Change a case. Fields that the body lacks, such as rubrics, stay as they are."""
    body = request_bodies.validate(request_bodies.parse(request), Json)
    await _call_with_evalset(app_name, evalset_id, adk_edits.replace_case, case_id, body)
    return _json_answer(None)


@needs(delete=roles.EDIT_EVALSET)
async def delete_case(request: HttpRequest, app_name: str, evalset_id: str, case_id: str) -> HttpResponseBase:
    """Delete a case."""
    await _call_with_evalset(app_name, evalset_id, adk_edits.remove_case, case_id)
    return _json_answer(None)


@needs(post=roles.EDIT_EVALSET)
async def add_session(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponseBase:
    """Make a session's conversation a case, which starts with the state that the session started with."""
    body = request_bodies.validate(request_bodies.parse(request), AddedSession)
    session, start = await units_of_work.read(_session_and_start, app_name, body)
    case = {
        "eval_id": body.eval_id,
        "conversation": await session_cases.fetch_conversation(session),
        "session_input": {"app_name": app_name, "user_id": body.user_id, "state": start},
        "creation_timestamp": time.time(),
    }
    await _call_with_evalset(app_name, evalset_id, adk_edits.add_case, case)
    return _json_answer(None)


@router.post(NEW_SET + "/run")
@needs(post=roles.RUN_EVALS)
async def run(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponseBase:
    """Run an evalset and respond when the run has ended. The run has a page like any other."""
    return _json_answer({"runEvalResults": await _run_cases(request, app_name, evalset_id)})


@router.post(OLD_SET + "/run_eval")
@needs(post=roles.RUN_EVALS)
async def run_by_old_name(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponseBase:
    """Run an evalset and respond when the run has ended. Deprecated in ADK."""
    return _json_answer(await _run_cases(request, app_name, evalset_id))


@router.get(DEV + "/eval_results")
async def list_result_ids(request: HttpRequest, app_name: str) -> list[str]:
    """List the ids of an app's results."""
    return await units_of_work.read(_result_ids, app_name)


@router.get(DEV + "/eval-results")
async def list_results(request: HttpRequest, app_name: str) -> dict[str, list[str]]:
    """List the ids of an app's results."""
    return {"evalResultIds": await units_of_work.read(_result_ids, app_name)}


async def get_result(request: HttpRequest, app_name: str, result_id: str) -> HttpResponseBase:
    """Return a result: every case with its scores, and its expected and actual turns."""
    return _json_answer(await units_of_work.read(_result_json, app_name, result_id))


@router.get(DEV + "/metrics-info")
async def metrics_info(request: HttpRequest, app_name: str) -> HttpResponseBase:
    """Describe the metrics that can run with what is installed."""
    runnable = [metric for metric in ADK_METRICS.values() if not missing_requirement(metric.name)]
    return _json_answer({"metricsInfo": [_metric_info(metric) for metric in runnable]})


for path in (OLD_CASE, NEW_CASE):
    router.get(path)(get_case)
    router.put(path)(update_case)
    router.delete(path)(delete_case)
for path in (OLD_SET + "/add_session", NEW_SET + "/add-session"):
    router.post(path)(add_session)
for path in (DEV + "/eval_results/{seg:result_id}", DEV + "/eval-results/{seg:result_id}"):
    router.get(path)(get_result)


async def _call_with_evalset(
    app_name: str, evalset_id: str, function: Callable[[EvalSet, *Arguments], Result], *arguments: *Arguments
) -> Result:
    """Call a function with an evalset as its file is now."""
    return await units_of_work.write(
        lambda: function(file_changes.current_evalset(app_name, evalset_id), *arguments)
    )


async def _run_cases(request: HttpRequest, app_name: str, evalset_id: str) -> list[Json]:
    body = request_bodies.validate(request_bodies.parse(request), RunBody)
    ordered = await dispatch.create_and_deliver(
        partial(_order_run, app_name, evalset_id, body, person_name(request))
    )
    async with subscribe() as notifications:
        while (ended_run := await retry.read(_wait_for_end, ordered.pk)) is None:
            await notifications.wait()
    if ended_run.status == EvalRun.Status.FAILED:
        raise BadInput(
            f"{ended_run.error_type}: {ended_run.error}", hint=ended_run.hint or "The run's page says where."
        )
    return await retry.read(lambda: adk_result_json.case_results_json(ended_run))


def _order_run(app_name: str, evalset_id: str, body: RunBody, person: str, run_id: str) -> EvalRun:
    if not body.eval_metrics:
        raise BadInput("No metric is chosen.", hint="Choose at least one: it decides what passes.")
    evalset = _find_listed_evalset(app_name, evalset_id)
    file_config = run_form.read_run_config(evalset)
    model_configs = body.model_dump(include={"live_model_config", "user_simulator_config"}, exclude_none=True)
    request_data = {
        "cases": body.eval_case_ids or body.eval_ids,
        "metrics": [metric.metric_name for metric in body.eval_metrics],
        "criteria": {
            metric.metric_name: metric.threshold
            for metric in body.eval_metrics
            if metric.threshold is not None and metric.criterion is None
        },
    }
    criteria = {
        metric.metric_name: metric.criterion for metric in body.eval_metrics if metric.criterion is not None
    }
    data = {**file_config.data, **model_configs, "criteria": {**file_config.criteria, **criteria}}
    config = configs.RunConfig(data, file_config.source, file_config.warnings)
    order = replace(run_form.order_from_json(config, request_data), person=person)
    return run_orders.order_run(evalset, order, run_id)


def _wait_for_end(run_id: str) -> EvalRun | None:
    run = EvalRun.objects.select_related("evalset", "version").filter(pk=run_id).first()
    if run is None:
        raise BadInput("The run was deleted before it had ended.", hint="Start another one.")
    return None if run.active else run


def _evalset_ids(app_name: str) -> list[str]:
    agents = file_changes.agents_folder()
    return sorted(library.find_files(agents.app_folder(app_name)))


def _find_listed_evalset(app_name: str, evalset_id: str) -> EvalSet:
    """Return an evalset. For operations that list or run its cases a missing one is a bad request, as in ADK.

    Raises:
        BadInput: there is none.
    """
    if evalset_id not in _evalset_ids(app_name):
        raise BadInput(f"Eval set `{evalset_id}` not found.", hint="GET …/eval_sets lists them.")
    return file_changes.current_evalset(app_name, evalset_id)


def _case_ids(app_name: str, evalset_id: str) -> list[str]:
    return sorted(
        case.eval_id for case in file_changes.read_cases(_find_listed_evalset(app_name, evalset_id))
    )


def _evalset_json(evalset: EvalSet) -> Json:
    """Return an evalset as ADK's server does: its own fields in snake case, those of its cases in camel case."""
    data = {
        "eval_set_id": evalset.evalset_id,
        "name": evalset.name or evalset.evalset_id,
        "description": evalset.description or None,
        "eval_cases": [_case_json(case) for case in file_changes.read_cases(evalset)],
        "creation_timestamp": 0.0,
    }
    return {name: value for name, value in data.items() if value is not None}


def _case_json(case: EvalCase) -> Json:
    return case.model_dump(mode="json", by_alias=True, exclude_none=True)


def _session_and_start(app_name: str, body: AddedSession) -> tuple[AgentSession, Json]:
    session = None
    if is_storable(body.user_id, body.session_id):
        key_fields = {"app_name": app_name, "user_id": body.user_id, "session_id": body.session_id}
        session = AgentSession.objects.filter(realm="", **key_fields).first()
    if session is None:
        raise SessionMissing(
            "Session not found", hint=f"User {body.user_id!r} has no session {body.session_id!r}."
        )
    return session, history.state_at_start(session).merge_scopes()


def _result_ids(app_name: str) -> list[str]:
    return adk_result_json.ids(app_name, file_changes.agents_folder().app_folder(app_name))


def _result_json(app_name: str, result_id: str) -> Json:
    return adk_result_json.result(app_name, file_changes.agents_folder().app_folder(app_name), result_id)


def _metric_info(metric: Metric) -> Json:
    bounds = {"minValue": metric.low, "openAtMin": False, "maxValue": metric.high, "openAtMax": False}
    return {
        "metricName": metric.name,
        "description": metric.description,
        "metricValueInfo": {} if metric.low is None else {"interval": bounds},
        "requiresThreshold": metric.low is not None,
    }


def _json_answer(value: Any) -> HttpResponseBase:
    return json_text(scopes.dumps(redaction.redact(value)))
