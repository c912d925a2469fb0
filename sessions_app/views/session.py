"""Session page: timeline, event inspector and state board, whole or as the partials that htmx requests."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from sessions_app import expiry
from sessions_app.errors import EventMissing, SessionMissing
from sessions_app.forms import MultiValueField
from sessions_app.http import wants_partial
from sessions_app.lookup import find_event, session_missing
from sessions_app.models import AgentSession, Event
from sessions_app.realms import exclude_hidden, is_isolated_fork, is_read_only
from sessions_app.runs.availability import find_problem
from sessions_app.sessions import deletion, lineage
from sessions_app.sessions.storage_location import mirror_of
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.event_window import EventWindow
from sessions_app.timeline.inspector import inspect_event
from sessions_app.timeline.raw_json import read_raw_json
from sessions_app.timeline.run_marks import read_session_runs
from sessions_app.timeline.siblings import list_mark, read_siblings
from sessions_app.timeline.state_board import ClientBoard, read_board
from sessions_app.timeline.state_difference import state_differences
from sessions_app.timeline.timeline_reader import read_timeline
from sessions_app.views import session_search
from sessions_app.views.missing_event import MISSING, render_missing_event
from sessions_app.views.session_search import SessionSearchQuery

PAGE = "devui/sessions/session.html"
TIMELINE = "devui/sessions/timeline/timeline.html"

KEYS_SHOWN = 30
"""Keys of a scope that the state board shows initially."""

SIMILAR_SCANNED, SIMILAR_OFFERED = 500, 5
INSPECTOR = "devui/sessions/inspector/inspector.html"
TABS = (
    ("parts", "Parts"),
    ("delta", "Delta"),
    ("actions", "Actions"),
    ("details", "Details"),
    ("raw", "Raw"),
    ("seen", "Model sees"),
    ("llm", "LLM"),
    ("trace", "Trace"),
)
SCOPES = ("all", "merged", "session", "user", "app", "temp")

KEYS_AT_MOST = 60
"""Keys of a scope that the state board shows per page once expanded."""

MOST_WATCHED = 50

Context = dict[str, Any]


class SessionPageQuery(SessionSearchQuery):
    """Query of the session page: selected event, position of the timeline, open tabs, state board filters."""

    event = forms.CharField(required=False, strip=False)
    seq = forms.IntegerField(required=False)
    around = forms.IntegerField(required=False)
    before = forms.IntegerField(required=False, min_value=0)
    after = forms.IntegerField(required=False, min_value=0)
    tab = forms.ChoiceField(required=False, choices=TABS)
    scope = forms.ChoiceField(required=False, choices=[(name, name) for name in SCOPES])
    keys = forms.CharField(required=False)
    key = forms.CharField(required=False, max_length=200)
    begin = forms.CharField(required=False, strip=False, max_length=1_000)
    find = forms.CharField(required=False, max_length=500)
    diff = forms.CharField(required=False)
    watch = MultiValueField(required=False)
    known = forms.IntegerField(required=False, min_value=1)
    mark = forms.CharField(required=False, max_length=100)
    raw = forms.CharField(required=False, strip=False, max_length=500)
    hit = forms.IntegerField(required=False, min_value=1)
    open = forms.ChoiceField(required=False, choices=[("all", "all")])
    delta = forms.ChoiceField(required=False, choices=[("all", "all")])


@require_safe
def page(request: HttpRequest, app_name: str, user_id: str, session_id: str) -> HttpResponse:
    """Show a session by its ids."""
    ids = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    session = expiry.annotate_ttl(
        AgentSession.objects.select_related("mirrored").filter(realm="", **ids)
    ).first()
    if session is None:
        return _render_missing_session(request, **ids)
    return _render_session(request, session)


@require_safe
def by_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a session by its primary key: sessions of realms, and ids that a path cannot hold.

    Pages request the part `gone` when their session has been deleted.
    """
    rows = exclude_hidden(AgentSession.objects.select_related("mirrored").filter(pk=pk))
    session = expiry.annotate_ttl(rows).first()
    if session is None:
        missing = session_missing(pk)
        context = {
            "message": missing.message,
            "hint": missing.hint,
            "code": missing.code,
            "deleted": deletion.find_batch(pk=pk),
        }
        template = f"{MISSING}#gone" if wants_partial(request, "gone") else MISSING
        return render(request, template, context, status=404)
    return _render_session(request, session)


def _render_session(request: HttpRequest, session: AgentSession) -> HttpResponse:
    query = SessionPageQuery(request.GET).read()
    for target, (template, contexts) in PARTS.items():
        if wants_partial(request, target):
            return _render_parts(request, template, contexts, session, query)
    return _render_parts(request, PAGE, PAGE_CONTEXTS, session, query)


def _render_parts(
    request: HttpRequest,
    template: str,
    contexts: tuple[Callable[[AgentSession, Context], Context], ...],
    session: AgentSession,
    query: Context,
) -> HttpResponse:
    selected = _find_selected(session, query)
    if selected is None and (query["event"] or query["seq"] is not None):
        return _offer_nearest_event(request, session, query)
    context: Context = {"session": session, "selected": selected}
    try:
        for build in contexts:
            context |= build(session, query | {"selected": selected})
    except EventMissing:
        return _offer_nearest_comparison(request, session, query, selected)
    return render(request, template, context)


def _find_selected(session: AgentSession, query: Context) -> Event | None:
    if not query["event"] and query["seq"] is None:
        return None
    return _event_or_none(session, event_id=query["event"], seq=query["seq"])


def _event_or_none(session: AgentSession, *, event_id: str = "", seq: int | None = None) -> Event | None:
    try:
        return find_event(session, event_id=event_id, seq=seq)
    except EventMissing:
        return None


def _frame_context(session: AgentSession, query: Context) -> Context:
    selected: Event | None = query["selected"]
    return {
        "wanted_seq": selected.seq if selected else None,
        "name": session.name,
        "runs": read_session_runs(session.pk),
        "realm_name": _realm_name(session),
        "is_kept": is_read_only(session),
        "mirror": mirror_of(session),
        "origin": lineage.origin_of(session),
        "parent": lineage.parent_of(session),
        "imported_from": lineage.imported_from(session),
        "cannot_run": None if is_read_only(session) else find_problem(session.app_name),
        "find": query["find"],
        "errors": windows.error_seqs(session),
    }


def _timeline_context(session: AgentSession, query: Context) -> Context:
    timeline = read_timeline(
        session, session_search.hit_window(session, query) or _choose_window(session, query)
    )
    selected = query["selected"]
    return {
        **session_search.hit_marks(session, query, timeline.window),
        "window": timeline.window,
        "groups": timeline.groups,
        "ahead": timeline.ahead,
        "selected_seq": selected.seq if selected else None,
    }


def _choose_window(session: AgentSession, query: Context) -> EventWindow:
    if query["before"] is not None:
        return windows.before(session, query["before"])
    if query["after"] is not None:
        return windows.after(session, query["after"])
    if query["around"] is not None:
        return windows.around(session, query["around"])
    if query["selected"]:
        return windows.around(session, query["selected"].seq)
    return windows.newest(session)


def _detail_context(session: AgentSession, query: Context) -> Context:
    selected: Event | None = query["selected"]
    at = selected.seq if selected else session.last_seq
    return {
        **_board_context(session, query),
        **_inspection_context(session, query),
        "travel": {
            "at": at,
            "back": max(at - 1 if selected else at, 1),
            "forth": min(at + 1, session.last_seq),
            "last": max(session.last_seq, 1),
        },
    }


def _inspection_context(session: AgentSession, query: Context) -> Context:
    selected: Event | None = query["selected"]
    return {
        "inspection": inspect_event(session, selected, more=query["delta"] == "all") if selected else None,
        "can_rewind": _can_rewind(session, selected),
        **({} if selected else _lineage_context(session)),
        "tabs": TABS,
        "tab": query["tab"] or "parts",
        **_raw_context(session, query),
    }


def _can_rewind(session: AgentSession, selected: Event | None) -> bool:
    return selected is not None and bool(selected.invocation_id) and _can_change(session)


def _raw_context(session: AgentSession, query: Context) -> Context:
    """Build the tree of the event's JSON only for its tab: an event may have megabytes."""
    selected: Event | None = query["selected"]
    text = query["raw"]
    if selected is None or query["tab"] != "raw":
        return {"raw": None, "raw_text": text}
    url = reverse("event-json", kwargs={"pk": session.pk, "seq": selected.seq})
    marked = f"{url}?{urlencode({'find': text})}" if text else url
    raw = read_raw_json(selected, marked, text, query["hit"] or 1, is_open=query["open"] == "all")
    return {"raw": raw, "raw_text": text, "event": selected}


def _lineage_context(session: AgentSession) -> Context:
    return {
        "origin": lineage.origin_of(session),
        "parent": lineage.parent_of(session),
        "imported_from": lineage.imported_from(session),
        "forks": lineage.forks_of(session),
        "in_own_realm": is_isolated_fork(session),
    }


def _can_change(session: AgentSession) -> bool:
    return not is_read_only(session) and mirror_of(session) is None


def _realm_name(session: AgentSession) -> str:
    """Return a label for the session's realm; empty without one."""
    if is_isolated_fork(session):
        return "own user: and app: state"
    return "eval attempt" if session.realm else ""


def _board_context(session: AgentSession, query: Context) -> Context:
    limit = KEYS_AT_MOST if query["keys"] == "all" else KEYS_SHOWN
    selected: Event | None = query["selected"]
    shared = {
        "scope": query["scope"] or "all",
        "shows_all": query["keys"] == "all",
        "can_edit": _can_change(session),
        "can_rewind": _can_rewind(session, selected),
    }
    if query["diff"]:
        difference = state_differences(session, query["diff"], selected, limit=limit, begin=query["begin"])
        return {**shared, "differences": difference}
    known_event = _event_or_none(session, seq=query["known"]) if query["known"] else None
    seen_board = ClientBoard(known_event, query["mark"]) if known_event else None
    watched = query["watch"][:MOST_WATCHED]
    state_board = read_board(
        session,
        selected,
        limit=limit,
        watched=watched,
        like=query["key"],
        begin=query["begin"],
        seen=seen_board,
    )
    return {**shared, "board": state_board}


def _siblings_context(session: AgentSession, query: Context) -> Context:
    return {
        "siblings": read_siblings(session, query["find"]),
        "list_mark": list_mark(session.realm, session.app_name),
    }


PAGE_CONTEXTS = (
    _frame_context,
    _timeline_context,
    _detail_context,
    _siblings_context,
    session_search.search_bar,
    session_search.results,
)
PARTS = {
    "window": (f"{TIMELINE}#window", (_timeline_context,)),
    "detail": (f"{PAGE}#detail", (_detail_context,)),
    "inspection": (f"{PAGE}#inspection", (_inspection_context,)),
    "board": (f"{PAGE}#board", (_board_context,)),
    "raw": (f"{INSPECTOR}#raw", (_raw_context,)),
    "found": ("devui/sessions/timeline/search.html#found", (session_search.results,)),
    "chips": ("devui/sessions/timeline/search.html#chips", (session_search.search_bar,)),
    "siblings": (f"{PAGE}#siblings", (_siblings_context,)),
}
"""Id of the htmx target element → template of its content, and the functions that build its context."""


def _offer_nearest_event(request: HttpRequest, session: AgentSession, query: Context) -> HttpResponse:
    event = repr(query["event"]) if query["event"] else query["seq"]
    nearest = windows.nearest_event(session, session.last_seq if query["event"] else query["seq"])
    if nearest is None:
        return render_missing_event(request, session, event, "", "")
    return render_missing_event(request, session, event, f"Open event {nearest.seq}", f"?seq={nearest.seq}")


def _offer_nearest_comparison(
    request: HttpRequest, session: AgentSession, query: Context, selected: Event | None
) -> HttpResponse:
    """Render a 404 page for a missing event to compare with, with a link to the nearest one."""
    nearest = windows.nearest_event(session, int(query["diff"]))
    if nearest is None:
        return render_missing_event(request, session, query["diff"], "", "")
    opened = {"seq": selected.seq} if selected else {}
    url = f"?{urlencode({**opened, 'diff': nearest.seq})}"
    return render_missing_event(request, session, query["diff"], f"Compare with event {nearest.seq}", url)


def _render_missing_session(
    request: HttpRequest, app_name: str, user_id: str, session_id: str
) -> HttpResponse:
    context = {
        "message": f"App {app_name!r} has no session {session_id!r} of the user {user_id!r}.",
        "hint": "It may have been deleted, or belong to another user; ids must match exactly.",
        "code": SessionMissing.code,
        "near": _similar_sessions(app_name, session_id),
        "app_name": app_name,
        "deleted": deletion.find_batch(app_name=app_name, user_id=user_id, session_id=session_id),
    }
    return render(request, MISSING, context, status=404)


def _similar_sessions(app_name: str, session_id: str) -> list[AgentSession]:
    """Return sessions of other apps or users with this id, then the app's newest sessions with a similar id."""
    others = AgentSession.objects.filter(realm="", session_id=session_id).order_by("-updated_at", "-pk")
    newest = AgentSession.objects.filter(realm="", app_name=app_name).order_by("-updated_at", "-pk")
    by_id: dict[str, AgentSession] = {}
    for session in newest[:SIMILAR_SCANNED]:
        by_id.setdefault(session.session_id, session)
    like = difflib.get_close_matches(session_id, by_id, n=SIMILAR_OFFERED, cutoff=0.5)
    sessions = {
        session.pk: session for session in [*others[:SIMILAR_OFFERED], *(by_id[name] for name in like)]
    }
    return list(sessions.values())[:SIMILAR_OFFERED]
