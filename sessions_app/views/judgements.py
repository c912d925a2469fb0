"""The judgement of a person on an event: its form, and the buttons that judge at once."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from sessions_app.forms.sessions import JudgementForm
from sessions_app.http import local_address, person_name, redirect_to, render_partial
from sessions_app.lookup import find_event, find_session
from sessions_app.paths import session_url
from sessions_app.sessions import judgements
from sessions_app.store.models import AgentSession, EventJudgement

FORM = "devui/sessions/judge.html"
CHANGES = "devui/sessions/timeline/judgement_changes.html"


def judge(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Show the form of an event's judgement; on POST judge the event, or withdraw its judgement.

    The button of a bar sends no note. `next` in the query is the address to which the judgement leads.

    Raises:
        SessionMissing: no such session.
        EventMissing: the session has no such event.
        NotFound: a judgement to withdraw does not exist.
    """
    session = find_session(pk)
    event = find_event(session, seq=seq)
    if "withdraw" in request.POST:
        withdrawn = judgements.withdraw(pk, seq, person=person_name(request))
        return _finish_judging(request, session, withdrawn)
    judgement = judgements.find_judgement(pk, seq)
    initial = {"verdict": judgement.verdict, "note": judgement.note} if judgement else None
    form = JudgementForm(request.POST or None, initial=initial)
    if form.is_valid():
        note = form.cleaned_data["note"] if "note" in request.POST else None
        verdict = form.cleaned_data["verdict"]
        judgement = judgements.judge(pk, seq, verdict, note, person=person_name(request))
        return _finish_judging(request, session, judgement)
    context = {
        "session": session,
        "event": event,
        "form": form,
        "judgement": judgement,
        "back": f"{session_url(session)}?seq={seq}",
    }
    status = 422 if form.errors else 200
    return render_partial(request, FORM, context, partial="form", target="dialog-content", status=status)


def _finish_judging(request: HttpRequest, session: AgentSession, judgement: EventJudgement) -> HttpResponse:
    """Redirect, or return what changes in the timeline (htmx)."""
    if next_url := local_address(request.GET.get("next"), ""):
        return redirect_to(request, next_url)
    if not getattr(request, "htmx", False):
        return redirect(f"{session_url(session)}?seq={judgement.seq}")
    context = {"judgements": [judgement], "session_pk": session.pk}
    response = render(request, CHANGES, context)
    response["HX-Reswap"] = "none"  # a script puts it into the timeline
    response["HX-Trigger-After-Swap"] = "done, judged"
    return response
