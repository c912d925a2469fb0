"""Queues runs, and starts their delivery to the runtime.

A request only queues the run's row; the delivery happens in the background. Pages learn the rest by their sockets.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import transaction

from sessions_app.console.message_draft import MessageDraft
from sessions_app.console.questions import answered_call_ids, find_question
from sessions_app.delivery.deliveries import deliveries
from sessions_app.lookup import find_session
from sessions_app.runs import availability, background, job_queue, lifecycle
from sessions_app.runs.run_delivery import RunDelivery
from sessions_app.runs.runtime_client import provider
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import DevUIError, NotFound, ServerStopping
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.realms import refuse_read_only

log = logging.getLogger(__name__)

SEND_ID = re.compile(r"[0-9a-f]{32}")
"""Format of run ids that forms may choose."""


async def start_run(
    session: AgentSession, request: Mapping[str, Any], send_id: str = "", *, person: str
) -> Run:
    """Queue a run on a session and hand it over. A form that is submitted twice queues one run.

    Args:
        session: the session.
        request: the request, as `sessions_app.runs` documents it.
        send_id: run id chosen by the form (`{% send_id %}`); if empty, every call queues a run.
        person: name of the person who starts it; empty without users.

    Raises:
        SessionMissing: the session was deleted.
        NotFound: the answered call does not wait for an answer any more.
        NotFound, AgentNotLoaded, RuntimeUnavailable: the app cannot be run (`availability`).
    """
    return await background.run_to_completion(_queue_run(session, request, send_id, person))


async def start_run_now(session_pk: int, request: Mapping[str, Any], source: str, *, person: str) -> Run:
    """Queue a run on a session and hand it over before returning. Goes on if the caller is cancelled.

    Raises:
        SessionMissing: there is no such session.
        BadInput: the session is read-only.
        InvocationFinished: the invocation to resume has nothing left to do.
        NotFound, AgentNotLoaded, RuntimeUnavailable: the app cannot be run. The run has failed.
    """
    app_name = await units_of_work.read(_require_startable, session_pk, request)
    await provider().client(app_name)
    create = partial(lifecycle.create_run, session_pk, request, source, person=person)
    return await background.run_to_completion(_queue_and_deliver(app_name, create))


def _require_startable(session_pk: int, request: Mapping[str, Any]) -> str:
    """Check that a run can start on a session; return the app."""
    session = find_session(session_pk)
    refuse_read_only(session)
    if request.get("invocation_id") and not request.get("new_message"):
        lifecycle.require_resumable(session.pk, request["invocation_id"])
    return session.app_name


async def _queue_and_deliver(app_name: str, create: Callable[..., Run]) -> Run:
    run = await background.create_row(lambda run_id: create(run_id=run_id))
    with suppress(ServerStopping):  # it stays queued for the next server
        await deliveries.deliver(RunDelivery(app_name, run.pk))
    return run


async def cancel_run(run: Run) -> None:
    """Request the cancellation of a run. Has no effect on a run that has ended."""
    if await units_of_work.write(lifecycle.request_cancel, run.pk):
        background.run_in_background(_cancel_at_runtime(run))


async def run_config_problems(app_name: str, draft: MessageDraft) -> dict[str, str]:
    """Return ADK's validation errors for the draft's RunConfig, by form field.

    If no runtime can validate it, nothing is reported here; the run then fails with the error.
    """
    if not draft.run_config:
        return {}
    try:
        client = await provider().client(app_name)
        body = {"run_config": draft.run_config, "streaming": draft.streaming}
        answer = await client.call("POST", "/devui/run-config", body)
    except DevUIError as error:
        log.info("The RunConfig of %r could not be validated: %s", app_name, error.message)
        return {}
    inputs = {field.name: field.input_name for field in draft.config}
    return {
        inputs.get(name, "run_config"): message if name in inputs else f"{name or 'RunConfig'}: {message}"
        for name, message in answer["problems"].items()
    }


async def _queue_run(session: AgentSession, request: Mapping[str, Any], send_id: str, person: str) -> Run:
    await availability.refuse_unavailable(session.app_name)
    names_run = SEND_ID.fullmatch(send_id) is not None and await units_of_work.read(
        lifecycle.is_unused_id, send_id
    )
    create = partial(_create_once, session.pk, request, send_id, person)
    run, is_new = await background.create_row(create, send_id if names_run else "")
    if is_new and job_queue.current_queue() is None:
        deliveries.start(RunDelivery(session.app_name, run.pk))
    return run


def _create_once(
    session_pk: int, request: Mapping[str, Any], send_id: str, person: str, run_id: str
) -> tuple[Run, bool]:
    """Return the run of a request and whether it is new. Locks the session's row, so senders are serialized."""
    with transaction.atomic():
        session = find_session(session_pk, locked=True)
        if existing := lifecycle.find_sent_run(session_pk, send_id, request):
            return existing, False
        for call_id in answered_call_ids(request):
            if find_question(session, call_id) is None:
                raise call_not_waiting(call_id)
        own_id = run_id if lifecycle.is_unused_id(run_id) else ""  # else the form has sent another message
        return lifecycle.create_run(session_pk, request, person=person, run_id=own_id), True


def call_not_waiting(call_id: str) -> NotFound:
    """Return the error for an answer to a call that does not wait for one."""
    return NotFound(
        f"No call {call_id!r} waits for an answer in this session.",
        hint="It was answered already. Reload the page.",
    )


async def _cancel_at_runtime(run: Run) -> None:
    """Cancel a run at its runtime. If that is unreachable and the run still queued, end it here."""
    try:
        client = await provider().client(run.session.app_name)
        await client.cancel_run(run.pk)
    except DevUIError as error:
        log.info("Run %s: its runtime could not be told to cancel it: %s", run.pk, error.message)
        await retry.write(lifecycle.end_queued, run.pk, Run.Status.CANCELLED)
