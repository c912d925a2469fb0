"""Session page: timeline, event inspector and state board, whole or as the partials that htmx requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from sessions_app.forms.session_page import TABS, SessionPageQuery, search_parameters
from sessions_app.http import wants_partial
from sessions_app.lookup import find_event, session_missing
from sessions_app.presentation import json_tree
from sessions_app.runs.availability import find_problem
from sessions_app.sessions import deletion, listing, overview
from sessions_app.sessions.eval_attempts import find_attempt
from sessions_app.sessions.storage_location import find_mirror
from sessions_app.state.state_board import ClientBoard, read_board, running_run
from sessions_app.state.state_difference import state_differences
from sessions_app.store import expiry, realms
from sessions_app.store.errors import EventMissing, SessionMissing
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.sessions import lineage
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.event_window import EventWindow
from sessions_app.timeline.inspector import inspect_event
from sessions_app.timeline.nested_runs import nested_usage
from sessions_app.timeline.run_marks import SessionRuns, read_pauses, read_session_runs
from sessions_app.timeline.session_search.suggestions import chips
from sessions_app.timeline.siblings import list_mark, read_siblings
from sessions_app.timeline.timeline_reader import Timeline, read_timeline
from sessions_app.views import session_search

PAGE = "devui/sessions/session.html"
MISSING = "devui/sessions/not_found.html"
TIMELINE = "devui/sessions/timeline/timeline.html"
INSPECTOR = "devui/sessions/inspector/inspector.html"

HELPER = "helper"
"""Agent that answers questions about sessions, if the agents folder has it."""

KEYS_SHOWN = 30
"""Keys of a scope that the state board shows initially."""

KEYS_AT_MOST = 60
"""Keys of a scope that the state board shows per page once expanded."""

MAX_WATCHED = 50

RAW_DEPTH = 6
"""Depth to which the JSON of an event is initially expanded."""

Context = dict[str, Any]


REALM_NAMES = {
    realms.ATTEMPT: "eval attempt",
    realms.FORK: "own user: and app: state",
    realms.NESTED: "nested run",
    realms.TRACED: "received trace",
}
"""Kinds of sessions, by the prefix of their realm."""


@dataclass(slots=True)
class PageRequest:
    """A request for the session page or a part of it. `_frame_context` and `_timeline_context` come first.

    Attributes:
        runs: the runs of the session, which `_frame_context` reads.
        timeline: the window that `_timeline_context` shows.
    """

    session: AgentSession
    query: Mapping[str, Any]
    selected: Event | None
    runs: SessionRuns | None = None
    timeline: Timeline | None = None


def page(request: HttpRequest, app_name: str, user_id: str, session_id: str) -> HttpResponse:
    """Show a session by its ids."""
    ids = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    session = expiry.annotate_ttl(
        AgentSession.objects.select_related("mirrored").filter(realm="", **ids)
    ).first()
    if session is None:
        missing = SessionMissing(
            f"App {app_name!r} has no session {session_id!r} of the user {user_id!r}.",
            hint="It may have been deleted, or belong to another user; ids must match exactly.",
        )
        return _render_missing_session(request, missing, **ids)
    return _render_session(request, session)


def by_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a session by its primary key: sessions of realms, and ids that a path cannot hold."""
    rows = realms.exclude_hidden(AgentSession.objects.select_related("mirrored").filter(pk=pk))
    session = expiry.annotate_ttl(rows).first()
    if session is None or realms.is_hidden(session):
        return _render_missing_session(request, session_missing(pk), pk=pk)
    return _render_session(request, session)


def _render_missing_session(request: HttpRequest, missing: SessionMissing, **columns: Any) -> HttpResponse:
    """Render a 404 page; if the session was deleted, with undo. Pages request the part `gone` of a deleted session."""
    template = f"{MISSING}#gone" if wants_partial(request, "gone") else MISSING
    context = {"problem": missing, "deleted": deletion.find_batch(**columns)}
    return render(request, template, context, status=404)


def _render_session(request: HttpRequest, session: AgentSession) -> HttpResponse:
    """Render the page or a part of it.

    Raises:
        EventMissing: the session has no event that the query names.
    """
    query = SessionPageQuery(request.GET).read()
    target = next((name for name in PARTS if wants_partial(request, name)), None)
    template, sections = PARTS[target] if target else (PAGE, PAGE_SECTIONS)
    ids = {"event_id": query["event"], "seq": query["seq"]}
    is_selected = query["event"] or query["seq"] is not None
    selected = find_event(session, **ids, with_body=_inspection_context in sections) if is_selected else None
    context: Context = {"session": session, "selected": selected}
    page_request = PageRequest(session, query, selected)
    for read_section in sections:
        context |= read_section(page_request)
    return render(request, template, context)


def _frame_context(page: PageRequest) -> Context:
    """Return the page around its parts: what can be done with the session, and what runs."""
    session = page.session
    page.runs = read_session_runs(session.pk)
    nested = realms.find_nested_run(session)
    return {
        "name": session.name,
        "focused_seq": page.selected.seq if page.selected else None,
        "runs": read_pauses(page.runs),
        "realm_name": _describe_realm(session),
        "read_only_reason": realms.read_only_reason(session) if realms.is_read_only(session) else "",
        "nested_run": nested,
        "attempt": find_attempt(session),
        "mirror": find_mirror(session),
        "cannot_run": None if realms.is_read_only(session) else find_problem(session.app_name),
        "find": page.query["find"],
        "helper": HELPER if session.app_name != HELPER and overview.is_local(HELPER) else "",
    }


def _describe_realm(session: AgentSession) -> str:
    """Return what the realm of a session makes it; empty if it has none."""
    prefix = f"{session.realm.partition('/')[0]}/"
    return REALM_NAMES.get(prefix, "")


def _lineage_context(page: PageRequest) -> Context:
    """Return the origin of the session, and its forks."""
    return {
        "origin": lineage.read_origin(page.session),
        "parent": lineage.find_parent(page.session),
        "imported_from": lineage.imported_from(page.session),
        "forks": None if page.selected else lineage.list_forks(page.session),
        "in_own_realm": realms.is_isolated_fork(page.session),
    }


def _timeline_context(page: PageRequest) -> Context:
    """Return a window of the timeline, with the search that links within the page keep."""
    hits = session_search.hit_window(page.session, page.query, page.selected)
    window = hits or _choose_window(page)
    is_whole_page = page.runs is not None
    page.timeline = timeline = read_timeline(page.session, window, folds=hits is None, errors=is_whole_page)
    search = search_parameters(page.query)
    return {
        "window": window,
        "groups": timeline.groups,
        "ahead": timeline.ahead,
        "errors": timeline.error_seqs,
        "selected_seq": page.selected.seq if page.selected else None,
        "hit_seqs": session_search.hits_in(page.session, page.query["q"], window),
        "search_suffix": f"&{urlencode(search)}" if search else "",
    }


def _choose_window(page: PageRequest) -> EventWindow:
    query = page.query
    if query["before"] is not None:
        return windows.before(page.session, query["before"])
    if query["after"] is not None:
        return windows.after(page.session, query["after"])
    if query["around"] is not None:
        return windows.around(page.session, query["around"])
    if page.selected:
        return windows.around(page.session, page.selected.seq)
    return windows.newest(page.session)


def _time_slider_context(page: PageRequest) -> Context:
    """Return the point in time on the slider, and its neighbors."""
    last = page.session.last_seq
    point = page.selected.seq if page.selected else last
    return {
        "point": point,
        "previous_point": max(point - 1 if page.selected else point, 1),
        "next_point": min(point + 1, last),
        "last_point": max(last, 1),
    }


def _spending_context(page: PageRequest) -> Context:
    """Return the cost of the session, and tokens and cost of its nested runs."""
    if page.selected:
        return {}
    return {"cost": listing.session_cost(page.session), "nested": nested_usage(page.session)}


def _permissions_context(page: PageRequest) -> Context:
    """Return what can be done with the session, and the session that has its artifacts and memory."""
    can_edit = not realms.is_read_only(page.session) and find_mirror(page.session) is None
    nested = realms.find_nested_run(page.session)
    return {
        "can_edit": can_edit,
        "can_rewind": can_edit and page.selected and page.selected.invocation_id,
        "is_nested": nested is not None,
        "outer_session": nested.outer if nested else page.session,
    }


def _inspection_context(page: PageRequest) -> Context:
    """Return the selected event in the inspector. Other tabs than `tab` are hidden."""
    more = page.query["delta"] == "all"
    inspection = (
        inspect_event(page.session, page.selected, more=more, shown=page.timeline) if page.selected else None
    )
    return {"inspection": inspection, "tab": page.query["tab"] or "parts", "tabs": TABS}


def _raw_event_context(page: PageRequest) -> Context:
    """Return the JSON of the selected event; None unless its tab is open, because an event may have megabytes."""
    selected = page.selected
    if selected is None or page.query["tab"] != "raw":
        return {"raw": None}
    body, url = (
        json.loads(selected.data),
        reverse("event-json", kwargs={"pk": page.session.pk, "seq": selected.seq}),
    )
    is_open = page.query["open"] == "all"
    raw = json_tree.render_all(body, url=url) if is_open else json_tree.render(body, url=url, depth=RAW_DEPTH)
    return {"raw": raw}


def _board_context(page: PageRequest) -> Context:
    """Return the state at the selected event or now, or its differences from another point in time."""
    session, query, selected = page.session, page.query, page.selected
    shows_all = query["keys"] == "all"
    limit = KEYS_AT_MOST if shows_all else KEYS_SHOWN
    context = {"scope": query["scope"] or "all", "shows_all": shows_all}
    if query["diff"]:
        differences = state_differences(session, query["diff"], selected, limit=limit, begin=query["begin"])
        return {**context, "differences": differences}
    board = read_board(
        session,
        selected,
        limit=limit,
        watched=query["watch"][:MAX_WATCHED],
        like=query["key"],
        begin=query["begin"],
        client_board=_client_board(page),
        running=running_run(session) if page.runs is None else page.runs.running,
    )
    return {**context, "board": board}


def _client_board(page: PageRequest) -> ClientBoard | None:
    """Return the board that the client shows, of which only the changes are sent."""
    if not page.query["known_event"]:
        return None
    try:
        return ClientBoard(find_event(page.session, seq=page.query["known_event"]), page.query["mark"])
    except EventMissing:
        return None


def _siblings_context(page: PageRequest) -> Context:
    """Return the list of sessions, and a mark that changes with it."""
    session = page.session
    return {
        "siblings": read_siblings(session, page.query["find"]),
        "list_mark": list_mark(session.realm, session.app_name),
    }


def _search_bar_context(page: PageRequest) -> Context:
    """Return the search bar above the timeline, without hits."""
    return {"chips": chips(page.session, page.query["q"]), "hits_only": page.query["only"]}


def _search_results_context(page: PageRequest) -> Context:
    return session_search.read_results(page.session, page.query, page.selected)


Section = Callable[[PageRequest], Context]

INSPECTION_SECTIONS: tuple[Section, ...] = (
    _inspection_context,
    _raw_event_context,
    _lineage_context,
    _spending_context,
    _permissions_context,
)
DETAIL_SECTIONS: tuple[Section, ...] = (_board_context, *INSPECTION_SECTIONS, _time_slider_context)
PAGE_SECTIONS: tuple[Section, ...] = (
    _frame_context,
    _timeline_context,
    *DETAIL_SECTIONS,
    _siblings_context,
    _search_bar_context,
    _search_results_context,
)
"""Functions that read the template's variables of one section."""

PARTS: dict[str, tuple[str, tuple[Section, ...]]] = {
    "window": (f"{TIMELINE}#window", (_timeline_context,)),
    "detail": (f"{PAGE}#detail", DETAIL_SECTIONS),
    "inspection": (f"{PAGE}#inspection", INSPECTION_SECTIONS),
    "board": (f"{PAGE}#board", (_board_context, _permissions_context)),
    "raw": (f"{INSPECTOR}#raw", (_raw_event_context,)),
    "search-results": ("devui/sessions/timeline/search.html#search-results", (_search_results_context,)),
    "chips": ("devui/sessions/timeline/search.html#chips", (_search_bar_context,)),
    "siblings": (f"{PAGE}#siblings", (_siblings_context,)),
}
"""Id of the htmx target element → template of its content, and its sections."""
