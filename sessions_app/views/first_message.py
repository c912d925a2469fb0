"""Create a session with its first message, from the first page or the agent's page."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse

from sessions_app.console import message_draft
from sessions_app.external import session_creation
from sessions_app.forms.sessions import DEFAULT_USER
from sessions_app.http import note_object, person_name, redirect_to
from sessions_app.paths import session_url
from sessions_app.quotas.quota_enforcement import check_quotas, read_limits
from sessions_app.runs import availability, dispatch, lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AlreadyExists, BadInput
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.session_key import SessionKey


async def first_message(request: HttpRequest, app_name: str) -> HttpResponse:
    """Create a session of the default user, queue a run with the message, and show the session.

    A form that is sent twice creates one session: its send id is also the id of the session.

    Raises:
        BadInput: the message is empty, or the session cannot be created.
        NotFound, AgentNotLoaded, RuntimeUnavailable: the app cannot be run.
        QuotaUsedUp: the sender may start no more runs.
    """
    await availability.refuse_unavailable(app_name)
    draft = await units_of_work.read(
        lambda: message_draft.read_draft(app_name, request.POST, [], streaming=True)
    )
    if not draft.is_valid:
        raise BadInput(next(iter(draft.errors.values())))
    person = person_name(request)
    await units_of_work.read(_refuse_used_up_quota, person, app_name)
    run_request = await units_of_work.read(draft.request)
    send_id = await units_of_work.read(_choose_id, request.POST.get("send_id", ""), run_request)
    session = await sync_to_async(_open_session)(app_name, send_id)
    note_object(request, session.pk)
    await dispatch.start_run(session, run_request, send_id, person=person)
    return redirect_to(request, session_url(session))


def _refuse_used_up_quota(person: str, app_name: str) -> None:
    check_quotas(person, read_limits(person, app_name))


def _choose_id(send_id: str, run_request: Mapping[str, Any]) -> str:
    """Return the id for the run and its session: that of the form, unless it has been sent with another message.

    Browsers show a form that was sent again, with its id, when a person goes back.
    """
    if not dispatch.SEND_ID.fullmatch(send_id):
        return uuid.uuid4().hex
    run = Run.objects.filter(pk=send_id).first()
    is_repeated = run is not None and lifecycle.find_sent_run(run.session_id, send_id, run_request)
    return send_id if run is None or is_repeated else uuid.uuid4().hex


def _open_session(app_name: str, send_id: str) -> AgentSession:
    session_id = str(uuid.UUID(send_id))
    try:
        return session_creation.open_session(
            app_name, DEFAULT_USER, session_id, {}, seeded=True, continued=False
        )
    except AlreadyExists:  # sent before
        key = SessionKey("", app_name, DEFAULT_USER, session_id)
        return AgentSession.objects.get(**key._asdict())
