"""Try a recorded model call again: edit its request in columns, send it to models, compare the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from evals_app.models import PlaygroundRun
from evals_app.playground import runs
from evals_app.playground.answers import read_content, read_result
from evals_app.playground.columns import (
    MAX_COLUMNS,
    RequestColumn,
    draft_column,
    draft_request,
    dump_columns,
    read_columns,
)
from evals_app.playground.draft_form import (
    PlaygroundForm,
    apply_action,
    parse_columns,
    read_form,
    read_name,
)
from sessions_app.agents import cards
from sessions_app.http import person_name, redirect_to, render_partial, wants_partial
from sessions_app.lookup import find_session, parse_number
from sessions_app.runs.runtime_client import RuntimeClient, provider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError, NotFound, SessionMissing
from sessions_app.store.models import ModelCall
from sessions_app.traces import model_calls

PAGE = "devui/playground/playground.html"
DELETE = "devui/playground/delete.html"
GONE = "devui/playground/gone.html"
ANSWERS = "playground-answers"
"""Id of the element with the answers of a run, which the page polls while calls are active."""

RUN_ACTION = "run"


async def edit(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    """Show the request of a call in a form. A POST runs the columns of the form, or applies another button to it.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such call.
        BadInput: the call went over a live connection, or the form has no column.
    """
    model_call = await units_of_work.read(_find_call, pk, call)
    recorded = await units_of_work.read(model_calls.call_json, model_call)
    _refuse_live_call(call, recorded["request"])
    schema = await units_of_work.read(_read_config_schema, model_call)
    if request.method != "POST":
        form = PlaygroundForm([draft_request(recorded["request"], schema)], schema)
        return await _render_page(request, model_call, recorded, form)
    form = read_form(request.POST, schema)
    if not form.columns:
        raise BadInput("The form has no column.", hint="Open the model call and select Try again.")
    action = request.POST.get("action", "")
    if action != RUN_ACTION:
        return await _render_page(request, model_call, recorded, apply_action(form, action))
    error: DevUIError | None = None
    try:
        run, problems = await _run_form(form, model_call, person_name(request))
        if run:
            return redirect_to(request, _run_url(model_call, run))
        form = replace(form, problems=problems)
    except DevUIError as refusal:
        error = refusal
    return await _render_page(request, model_call, recorded, form, error=error, status=422)


async def show(request: HttpRequest, pk: int, call: int, run: int) -> HttpResponse:
    """Show the answers of a run beside the recorded one, and its columns in a form for another run.

    A page that polls the answers of a run that was deleted is told so, and stops.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such call, or the call no such run.
    """
    try:
        model_call, playground_run = await units_of_work.read(_find_run, pk, call, run)
    except NotFound as missing:
        if not wants_partial(request, ANSWERS):
            raise
        context = {"pk": pk, "has_session": not isinstance(missing, SessionMissing)}
        return await sync_to_async(render)(request, GONE, context)
    if await units_of_work.read(runs.is_abandoned, playground_run):
        await units_of_work.write(
            runs.fail_answers, playground_run.pk, runs.PROCESS_ENDED_TYPE, runs.PROCESS_ENDED_MESSAGE
        )
    recorded = await units_of_work.read(model_calls.call_json, model_call)
    schema = await units_of_work.read(_read_config_schema, model_call)
    columns = read_columns(playground_run.columns)
    form = PlaygroundForm(
        [draft_column(column, recorded["request"], schema) for column in columns], schema, playground_run.name
    )
    result = await units_of_work.read(read_result, playground_run, recorded)
    return await _render_page(request, model_call, recorded, form, run=playground_run, result=result)


async def cancel(request: HttpRequest, pk: int, call: int, run: int) -> HttpResponse:
    """Cancel the calls of a run that have not ended, or those of one column.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such call, or the call no such run.
        BadInput: `column` is not the position of a column.
    """
    model_call, playground_run = await units_of_work.read(_find_run, pk, call, run)
    column = _read_column(request.POST["column"]) if "column" in request.POST else None
    await units_of_work.write(runs.cancel_answers, playground_run.pk, column)
    if wants_partial(request, ANSWERS):  # what was typed below them stays
        return await show(request, pk, call, run)
    return redirect_to(request, _run_url(model_call, playground_run))


async def rename(request: HttpRequest, pk: int, call: int, run: int) -> HttpResponse:
    """Give a run another name.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such call, or the call no such run.
    """
    model_call, playground_run = await units_of_work.read(_find_run, pk, call, run)
    await units_of_work.write(runs.rename_run, playground_run, read_name(request.POST))
    return redirect_to(request, _run_url(model_call, playground_run))


async def delete(request: HttpRequest, pk: int, call: int, run: int) -> HttpResponse:
    """Ask for confirmation; on POST delete a run with its answers.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such call, or the call no such run.
    """
    model_call, playground_run = await units_of_work.read(_find_run, pk, call, run)
    if request.method == "POST":
        await units_of_work.write(runs.delete_run, playground_run)
        return redirect_to(request, reverse("playground-runs"))
    context = {"run": playground_run, "address": request.path, "back": _run_url(model_call, playground_run)}
    return await sync_to_async(render_partial)(
        request, DELETE, context, partial="question", target="dialog-content"
    )


def _read_column(text: str) -> int:
    position = parse_number(text)
    if position is None or position >= MAX_COLUMNS:
        raise BadInput(f"There is no column {text[:20]!r}.", hint=f"Name one from 0 to {MAX_COLUMNS - 1}.")
    return position


def _refuse_live_call(call: int, recorded_request: Mapping[str, Any]) -> None:
    if recorded_request.get("live"):
        raise BadInput(
            f"Model call {call} went over a live connection, so its request is recorded only in part.",
            hint="Try a call of a session without a live connection again.",
        )


async def _run_form(
    form: PlaygroundForm, call: ModelCall, person: str
) -> tuple[PlaygroundRun | None, Mapping[int, str]]:
    """Start a run of the columns of a form. Without a run, return the problem of each invalid column by its position.

    Raises:
        DevUIError: the process of the agent cannot be reached, or the run exceeds a quota of the person.
    """
    columns, problems = parse_columns(form)
    if problems:
        return None, problems
    client = await provider().client(call.session.app_name)
    if problems := await _check_columns(client, call, columns):
        return None, problems
    run = await units_of_work.write(runs.create_run, call, columns, name=form.name, person=person)
    await _start_run(client, run)
    return run, {}


async def _check_columns(
    client: RuntimeClient, call: ModelCall, columns: Sequence[RequestColumn]
) -> dict[int, str]:
    """Return the problem of each column that ADK's classes refuse, by its position."""
    body = {"agent": call.agent, "columns": dump_columns(columns)}
    answer = await client.call("POST", "/devui/playground/check", body)
    return {position: problem for position, problem in enumerate(answer["problems"]) if problem}


async def _start_run(client: RuntimeClient, run: PlaygroundRun) -> None:
    """Have the process of the agent start a run. If it refuses, each answer shows its error."""
    try:
        await client.call("POST", "/devui/playground/runs", {"run": run.pk})
    except DevUIError as error:
        await units_of_work.write(runs.fail_answers, run.pk, type(error).__name__, error.message)


def _find_call(pk: int, call: int) -> ModelCall:
    session = find_session(pk)
    model_call = model_calls.find_call(session, call)
    model_call.session = session
    return model_call


def _read_config_schema(call: ModelCall) -> Mapping[str, Any]:
    """Return the JSON schema of the generation config from the card of the app; empty before the app was loaded."""
    schema: Mapping[str, Any] = cards.read_description(call.session.app_name).get("generation_config") or {}
    return schema


def _find_run(pk: int, call: int, run: int) -> tuple[ModelCall, PlaygroundRun]:
    model_call = _find_call(pk, call)
    return model_call, runs.find_run(model_call, run)


def _run_url(call: ModelCall, run: PlaygroundRun) -> str:
    return reverse("playground-run", kwargs={"pk": call.session_id, "call": call.pk, "run": run.pk})


async def _render_page(
    request: HttpRequest,
    call: ModelCall,
    recorded: dict[str, Any],
    form: PlaygroundForm,
    *,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    partial = "answers" if "result" in context else "form"
    context |= {
        "session": call.session,
        "name": call.session.name,
        "call": call,
        "recorded": read_content(recorded["responses"]),
        "form": form,
        "call_runs": await units_of_work.read(runs.list_runs, call),
    }
    return await sync_to_async(render_partial)(
        request, PAGE, context, partial=partial, target=f"playground-{partial}", status=status
    )
