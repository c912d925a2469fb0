"""Rewind a session, fork it, and compare two sessions."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from sessions_app.branches import session_comparison as comparing
from sessions_app.branches.fork import fork, fork_title
from sessions_app.branches.rewind import plan_rewind, rewind
from sessions_app.forms.branches import CompareQuery, ForkForm, ForkQuery, RewindQuery
from sessions_app.http import person_name, render_partial, wants_partial
from sessions_app.lookup import find_event, find_session
from sessions_app.paths import session_url
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.sessions import listing, overview, storage_location
from sessions_app.store import realms
from sessions_app.store.errors import AlreadyExists, BadInput, StaleSession
from sessions_app.store.models import AgentSession, Event, Scope
from sessions_app.store.runs.session_runs import active_run
from sessions_app.store.sessions import lineage
from sessions_app.store.state import differences
from sessions_app.timeline.siblings import find_healthy_session, read_siblings

REWIND = "devui/sessions/branches/rewind.html"
FORK = "devui/sessions/branches/fork.html"
COMPARE = "devui/sessions/branches/compare.html"

DIALOG = "dialog-content"
MAX_KEYS = 20
"""Maximum number of changed shared keys on the fork form."""

Context = dict[str, Any]


def rewind_session(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what a rewind to before an event's invocation would change; carry it out on POST.

    When the session has changed since the plan was shown, show the new plan instead (409).

    Raises:
        SessionMissing: no such session.
        EventMissing: the session has no such event.
        BadInput: the event belongs to no invocation, or the session is an eval attempt.
        SessionBusy: a run is active on the session.
    """
    session = find_session(pk)
    query = RewindQuery(request.POST if request.method == "POST" else request.GET).read()
    stale: StaleSession | None = None
    if request.method == "POST":
        try:
            rewind(
                session.pk, event_id=query["event"], revision=query["revision"], person=person_name(request)
            )
        except StaleSession as error:
            stale = error
        else:
            return HttpResponseRedirect(session_url(session))
    context = {
        "session": session,
        "plan": plan_rewind(find_session(pk), event_id=query["event"]),
        "event_id": query["event"],
        "busy": active_run(session.pk),
        "stale": stale,
        "back": session_url(session),
    }
    status = 409 if stale else 200
    return render_partial(request, REWIND, context, partial="plan", target=DIALOG, status=status)


def fork_session(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the fork form; on POST fork the session and redirect to the fork.

    Raises:
        SessionMissing: no such session.
        EventMissing: the session has no such event.
    """
    session = find_session(pk)
    if request.method == "POST":
        form = ForkForm(request.POST)
    else:
        form = ForkForm(initial=_initial_values(session, ForkQuery(request.GET).read()["seq"]))
    if form.is_valid():
        try:
            return HttpResponseRedirect(session_url(fork(session.pk, form.new_fork())))
        except (AlreadyExists, BadInput) as error:
            form.add_error(None, f"{error.message} {error.hint}")
    seq = form.cleaned_data.get("seq") if form.is_bound else form.initial["seq"]
    context = {
        "session": session,
        "form": form,
        "apps": overview.app_names(),
        "back": session_url(session),
        "seq": seq,
        "otherwise": _changed_shared_keys(session, seq),
        "nested_run": realms.find_nested_run(session),
    }
    status = 422 if form.is_bound else 200
    return render_partial(request, FORK, context, partial="form", target=DIALOG, status=status)


def compare(request: HttpRequest) -> HttpResponse:
    """Show two sessions side by side after their common events; without a second one, offer sessions to choose.

    Raises:
        BadInput: not exactly two sessions of a list are selected.
        SessionMissing: no such session.
    """
    query = CompareQuery(request.GET).read()
    if query["session"]:
        return HttpResponseRedirect(_selected_address(query["session"]))
    left = find_session(query["left"])
    context: Context = {"left": left, "app_name": left.app_name, "query": query}
    if query["right"] is None:
        context |= {"healthy": find_healthy_session(left), **_choice_context(left, query["q"])}
        return render(request, COMPARE, context)
    right = find_session(query["right"])
    context |= {"right": right, **_turn_context(left, right, query)}
    if wants_partial(request, "more-turns"):
        return render(request, COMPARE + "#more", context)
    compared_events = [_find_event_at(left, query["left_at"]), _find_event_at(right, query["right_at"])]
    context |= {
        "common_event": find_event(left, seq=context["common"]) if context["common"] else None,
        "difference": comparing.state_difference(left, right, *compared_events),
    }
    return render(request, COMPARE, context)


def _turn_context(left: AgentSession, right: AgentSession, query: Context) -> Context:
    common = lineage.count_common_events(left, right)
    after = (common if query[name] is None else query[name] for name in ("left_after", "right_after"))
    return {"common": common, "page": comparing.read_turns(left, right, *after)}


def _selected_address(selected: list[str]) -> str:
    """Return the address that compares the two sessions that are selected in a list."""
    if len(selected) != 2:
        raise BadInput(
            f"A comparison needs two sessions, and {len(selected)} are selected.",
            hint="Go back, and select exactly two sessions.",
        )
    left, right = selected
    return f"{reverse('session-compare')}?{urlencode({'left': left, 'right': right})}"


def _choice_context(session: AgentSession, text: str) -> Context:
    """Return the sessions to choose from: those that match a query, or relatives and the newest of the app."""
    if not text:
        return {"choices": _comparable_sessions(session)}
    try:
        filters = listing.SessionFilter(app=session.app_name, query=parse(text))
    except QueryError as problem:
        return {"choices": [], "problem": problem}
    page = listing.list_page(filters)
    return {
        "choices": [row for row in page.rows if row.pk != session.pk],
        "more_url": f"{reverse('sessions')}?{urlencode({'app': session.app_name, 'q': text})}",
    }


def _comparable_sessions(session: AgentSession) -> list[AgentSession]:
    """Return sessions to compare with: parent and forks first, then the newest of the app."""
    parent = lineage.find_parent(session)
    above = [parent] if parent else []
    sessions = {
        candidate.pk: candidate
        for candidate in (*above, *lineage.list_forks(session).sessions, *read_siblings(session))
    }
    sessions.pop(session.pk, None)
    return list(sessions.values())


def _changed_shared_keys(session: AgentSession, seq: int | None) -> Context:
    """Return the shared keys that have changed since event `seq`; they decide which shared state a fork should use."""
    if not seq or not 0 < seq <= session.last_seq:
        return {}
    difference = differences.diff(session, find_event(session, seq=seq), limit=MAX_KEYS)
    keys = [entry for entry in difference.keys if entry.scope != Scope.SESSION]
    return {"keys": keys, "more": difference.counts[Scope.USER] + difference.counts[Scope.APP] - len(keys)}


def _initial_values(session: AgentSession, seq: int | None) -> Context:
    seq_read = session.last_seq if seq is None else seq
    if session.last_seq:
        _find_event_at(session, seq_read)
    return {
        "seq": seq_read,
        "app": session.app_name,
        "user": session.user_id,
        "title": fork_title(session, seq_read),
        "shared": "own" if storage_location.find_session_owner(session.app_name) else "live",
    }


def _find_event_at(session: AgentSession, seq: int | None) -> Event | None:
    return None if seq is None else find_event(session, seq=seq)
