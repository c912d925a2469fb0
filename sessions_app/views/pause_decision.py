"""Decision of a person on a pause of a run."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from sessions_app.forms.pause_decision import parse_decision
from sessions_app.http import person_name
from sessions_app.lookup import find_run
from sessions_app.paths import session_url
from sessions_app.runs import pauses
from sessions_app.runs.pauses import OpenPause
from sessions_app.runs.runtime_client import provider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import Run
from sessions_app.store.scopes import dumps

PROBLEMS = "devui/sessions/console/question_errors.html"


async def decide(request: HttpRequest, run_id: str, pause: int) -> HttpResponse:
    """Store the decision on a pause; the runtime carries it out.

    Raises:
        NotFound: no such run.
        PauseEnded: the pause does not wait any more.
        BadInput: a value of the form is invalid.
    """
    run = await units_of_work.read(find_run, run_id)
    try:
        open_pause = await units_of_work.read(pauses.find_open_pause, run_id, pause)
        values = parse_decision(open_pause, request.POST.dict())
        await _check_request(run, open_pause, values)
        await units_of_work.write(pauses.decide, run_id, pause, values, person_name(request))
    except DevUIError as error:
        if not request.headers.get("HX-Request"):
            raise
        status = 422 if isinstance(error, BadInput) else error.status
        response = render(
            request, PROBLEMS, {"faults": {"": f"{error.message} {error.hint}".strip()}}, status=status
        )
        response["HX-Reswap"] = "innerHTML"
        return response
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    return HttpResponseRedirect(session_url(run.session), status=303)


async def _check_request(run: Run, pause: OpenPause, values: dict[str, Any]) -> None:
    """Refuse contents that ADK's classes do not accept, which only a process of the app knows.

    Raises:
        BadInput: names the content and the rule.
        RuntimeUnavailable: no process of the app answers.
    """
    if "contents" not in values:
        return
    client = await provider().client(run.session.app_name)
    shown = set(map(dumps, pause.content["contents"]))
    changed = [None if dumps(content) in shown else content for content in values["contents"]]
    await client.call("POST", "/devui/pauses/check", {"contents": changed})
