"""OAuth sign-in at a provider for an agent that asks for a credential."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from sessions_app.console import answers, credential_requests
from sessions_app.console.questions import Question, find_question
from sessions_app.console.sign_in_cookies import TIMEOUT_S, PendingSignIn, cookie_name
from sessions_app.forms.query import QueryForm
from sessions_app.http import note_object, person_name
from sessions_app.lookup import find_session
from sessions_app.paths import session_url
from sessions_app.runs import dispatch
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError, NotFound
from sessions_app.store.realms import refuse_read_only


class SignInQuery(QueryForm):
    """Id of the open call that asks for the credential."""

    call = forms.CharField(strip=False)


async def begin(request: HttpRequest, pk: int) -> HttpResponse:
    """Send the browser to the provider that an open call names.

    Raises:
        SessionMissing: no such session.
        NotFound: the call does not wait for an answer.
        BadInput: the call names no provider, or the session is an eval attempt.
    """
    session = await units_of_work.read(find_session, pk)
    refuse_read_only(session)
    call_id = SignInQuery(request.GET).read()["call"]
    question = await _find_open_question(pk, call_id)
    credential = question.credential
    if credential is None or not credential.provider or not credential.state:
        raise BadInput(
            "This question has no sign-in address.",
            hint="Install authlib so that ADK creates one (pip install authlib), or answer with a token.",
        )
    back = credential.redirect_uri or request.build_absolute_uri(reverse("signed-in"))
    response = HttpResponseRedirect(credential.address(back))
    response.set_cookie(
        cookie_name(credential.state),
        PendingSignIn(pk, call_id, back).as_cookie(),
        max_age=TIMEOUT_S,
        httponly=True,
        samesite="Lax",
        secure=request.is_secure(),
    )
    return response


async def end(request: HttpRequest) -> HttpResponse:
    """Answer the call of a sign-in with the address that the provider redirected the browser to.

    Raises:
        BadInput: this browser began no such sign-in, the sign-in took too long, or the provider refused.
        NotFound: the call does not wait for an answer any more.
    """
    state = request.GET.get("state", "")
    sign_in = PendingSignIn.read(request.COOKIES, state)
    if sign_in is None:
        raise BadInput(
            "This browser started no sign-in, or the sign-in took longer than an hour.",
            hint="Sign in again from the question in the session.",
        )
    session = await units_of_work.read(find_session, sign_in.session)
    note_object(request, session.pk, app=session.app_name)
    try:
        question = await _find_open_question(session.pk, sign_in.call)
        credential_request = question.credential or credential_requests.parse_request({})
        credential = credential_requests.answer_after_sign_in(
            credential_request, request.build_absolute_uri(), sign_in.redirect
        )
        message = answers.answer_message(question, credential)
        await dispatch.start_run(
            session, {"new_message": message, "streaming": True}, person=person_name(request)
        )
    except DevUIError as error:
        error.back = session_url(session)
        raise
    response = HttpResponseRedirect(session_url(session))
    response.delete_cookie(cookie_name(state), samesite="Lax")
    return response


async def _find_open_question(pk: int, call_id: str) -> Question:
    session = await units_of_work.read(find_session, pk)
    question = await units_of_work.read(find_question, session, call_id)
    if question is None:
        raise NotFound(
            f"No call {call_id!r} waits for an answer in this session.", hint="It was answered already."
        )
    return question
