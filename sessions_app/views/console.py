"""Running an agent from a session page: sending a message, answering what it asks, cancelling.

A run belongs to the runtime, not to a request: the request queues its row, hands it over in the background and
is done. The page hears of everything else by its socket.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_POST

from sessions_app import db
from sessions_app.errors import BadInput, DevUIError, NotFound
from sessions_app.found import find_session
from sessions_app.models import AgentSession, Run
from sessions_app.paths import session_url
from sessions_app.realms import refuse_kept
from sessions_app.runs import rows
from sessions_app.runs.client import provider
from sessions_app.timeline.questions import Question, find_question

log = logging.getLogger(__name__)


class Message(forms.Form):
    """What a person sends: a message, or the answer to an open call."""

    message = forms.CharField(required=False, strip=False)
    streaming = forms.BooleanField(required=False)
    has_streaming = forms.BooleanField(required=False)
    call_id = forms.CharField(required=False, strip=False)
    confirmed = forms.ChoiceField(required=False, choices=[("yes", "yes"), ("no", "no")])
    payload = forms.CharField(required=False)
    response = forms.CharField(required=False)

    @property
    def wants_streaming(self) -> bool:
        """Tell whether the model should stream; answers, which have no switch, do."""
        return bool(self.cleaned_data["streaming"] or not self.cleaned_data["has_streaming"])


@require_POST
async def start(request: HttpRequest, pk: int) -> HttpResponse:
    """Queue a run with what was sent, and hand it to the app's runtime.

    Raises:
        SessionMissing: no such session.
        BadInput: the session is an eval attempt, there is nothing to send, or an answer is no JSON.
        NotFound: the call that is answered does not wait for an answer.
    """
    session = await db.read(find_session, pk)
    refuse_kept(session)
    form = Message(request.POST)
    if not form.is_valid():
        raise BadInput("The message cannot be read.", hint="Reload the page and send it again.")
    content = await _content(session, form.cleaned_data)
    run = await db.write(
        rows.create_run, session.pk, {"new_message": content, "streaming": form.wants_streaming}
    )
    _in_background(_hand_over(session.app_name, run.pk))
    return _done(request, session)


@require_POST
async def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Cancel a run. Cancelling one that has ended changes nothing.

    Raises:
        NotFound: no such run.
    """
    run = await db.read(_run, run_id)
    if await db.write(rows.request_cancel, run.pk):
        _in_background(_cancel(run))
    return _done(request, run.session)


def _run(run_id: str) -> Run:
    run = Run.objects.filter(pk=run_id).select_related("session").defer("request").first()
    if run is None:
        raise NotFound(f"Run not found: {run_id}", hint="It went with its session.")
    return run


async def _content(session: AgentSession, sent: dict[str, Any]) -> dict[str, Any]:
    """Return the message as ADK's `Content` in wire form."""
    if sent["call_id"]:
        question = await db.read(find_question, session, sent["call_id"])
        if question is None:
            raise NotFound(
                f"No call {sent['call_id']!r} waits for an answer in this session.",
                hint="It was answered already: reload the page.",
            )
        return {"role": "user", "parts": [{"functionResponse": _answer(question, sent)}]}
    if not sent["message"].strip():
        raise BadInput("The message is empty.", hint="Write something first.")
    return {"role": "user", "parts": [{"text": sent["message"]}]}


def _answer(question: Question, sent: dict[str, Any]) -> dict[str, Any]:
    """Return the function response that answers an open call.

    A confirmation is a `ToolConfirmation` (`google/adk/tools/tool_confirmation.py`); what is no JSON object is
    sent as ADK's own command line sends it, as `{"result": …}`.
    """
    return {"id": question.call_id, "name": question.name, "response": _response(question, sent)}


def _response(question: Question, sent: dict[str, Any]) -> dict[str, Any]:
    if question.is_confirmation:
        if not sent["confirmed"]:
            raise BadInput("The answer says neither yes nor no.", hint="Press one of the two buttons.")
        confirmation: dict[str, Any] = {"confirmed": sent["confirmed"] == "yes"}
        return confirmation | ({"payload": _json(sent["payload"])} if sent["payload"] else {})
    text = sent["response"]
    if not text:
        raise BadInput("The answer is empty.", hint="Write text, or a JSON object such as {}.")
    value = _json(text) if text.startswith(("{", "[")) else text
    return value if isinstance(value, dict) else {"result": value}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInput(f"The answer is no JSON: {error}.", hint="Correct it and send it again.") from error


async def _hand_over(app_name: str, run_id: str) -> None:
    """Give a queued run to the app's runtime; when nobody can take it, the run says why."""
    try:
        client = await provider().client(app_name)
        await client.start_run(run_id)
    except DevUIError as error:
        await _fail(run_id, type(error).__name__, f"{error.message} {error.hint}".strip())
    except Exception as error:
        log.exception("Run %s could not be handed over", run_id)
        await _fail(run_id, type(error).__name__, "It could not be handed over; the server's log says why.")


async def _fail(run_id: str, error_type: str, error: str) -> None:
    """End a run that no process has begun; one that a process has is that process's to end."""
    await db.write(rows.end_queued, run_id, Run.Status.FAILED, error_type, error)


async def _cancel(run: Run) -> None:
    """Tell the runtime; a run that no runtime can be told of and that nobody has begun ends here."""
    try:
        client = await provider().client(run.session.app_name)
        await client.cancel_run(run.pk)
    except DevUIError as error:
        log.info("Run %s: nobody could be told to cancel it: %s", run.pk, error.message)
        await db.write(rows.end_queued, run.pk, Run.Status.CANCELLED)


_tasks: set[asyncio.Task[None]] = set()
"""Keeps what goes on after its request: the event loop alone would let it be collected."""


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _done(request: HttpRequest, session: AgentSession) -> HttpResponse:
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    return HttpResponseRedirect(session_url(session), status=303)
