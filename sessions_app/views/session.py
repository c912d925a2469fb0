"""Session page: timeline, event inspector and state board, whole or as the partials that htmx requests."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from sessions_app import expiry
from sessions_app.errors import DevUIError, EventMissing, SessionMissing
from sessions_app.forms.session_page import TABS, SessionPageQuery
from sessions_app.http import wants_partial
from sessions_app.lookup import find_event, session_missing
from sessions_app.models import AgentSession, Event, MirroredSession
from sessions_app.realms import exclude_hidden, is_isolated_fork, is_read_only
from sessions_app.runs.availability import find_problem
from sessions_app.sessions import deletion, lineage
from sessions_app.sessions.lineage import Origin
from sessions_app.sessions.storage_location import mirror_of
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.event_window import EventWindow
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.inspector import Inspection, inspect_event
from sessions_app.timeline.raw_json import RawJson, read_raw_json
from sessions_app.timeline.run_marks import RunMark, SessionRuns, read_session_runs
from sessions_app.timeline.session_search import chips
from sessions_app.timeline.siblings import list_mark, read_siblings
from sessions_app.timeline.state_board import Board, ClientBoard, read_board
from sessions_app.timeline.state_difference import StateDifferences, state_differences
from sessions_app.timeline.timeline_reader import read_timeline
from sessions_app.views import session_search
from sessions_app.views.missing_event import MISSING, render_missing_event
from sessions_app.views.session_search import SearchBar, SearchResults

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PAGE = "devui/sessions/session.html"
TIMELINE = "devui/sessions/timeline/timeline.html"
INSPECTOR = "devui/sessions/inspector/inspector.html"

KEYS_SHOWN = 30
"""Keys of a scope that the state board shows initially."""

KEYS_AT_MOST = 60
"""Keys of a scope that the state board shows per page once expanded."""

MOST_WATCHED = 50

SIMILAR_SCANNED, SIMILAR_OFFERED = 500, 5


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for the session page or a part of it."""

    session: AgentSession
    query: SessionPageQuery
    selected: Event | None


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
    query = SessionPageQuery.read(request.GET)
    selected = None
    if query.event or query.seq is not None:
        selected = _event_or_none(session, event_id=query.event, seq=query.seq)
        if selected is None:
            return _offer_nearest_event(request, session, query)
    target = next((name for name in PARTS if wants_partial(request, name)), None)
    template, sections = PARTS[target] if target else (PAGE, PAGE_SECTIONS)
    context: dict[str, object] = {"session": session, "selected": selected}
    try:
        for read in sections:
            section = read(PageRequest(session, query, selected))
            context |= {field.name: getattr(section, field.name) for field in fields(section)}
    except EventMissing:
        return _offer_nearest_comparison(request, session, query, selected)
    return render(request, template, context)


def _event_or_none(session: AgentSession, *, event_id: str = "", seq: int | None = None) -> Event | None:
    try:
        return find_event(session, event_id=event_id, seq=seq)
    except EventMissing:
        return None


@dataclass(frozen=True, slots=True)
class Frame:
    """The page around its parts.

    Attributes:
        focused_seq: event that the page focuses without scripts.
        realm_name: label of the session's realm; empty without one.
        mirror: record of the service that owns the session; None: this store owns it.
        cannot_run: why no message can be sent.
        find: text to find in the list of sessions.
        errors: seqs of the newest errors.
    """

    name: str
    focused_seq: int | None
    runs: SessionRuns
    realm_name: str
    is_read_only: bool
    mirror: MirroredSession | None
    cannot_run: DevUIError | None
    find: str
    errors: list[int]


def _frame(page: PageRequest) -> Frame:
    session = page.session
    realm_name = "eval attempt" if session.realm else ""
    return Frame(
        name=session.name,
        focused_seq=page.selected.seq if page.selected else None,
        runs=read_session_runs(session.pk),
        realm_name="own user: and app: state" if is_isolated_fork(session) else realm_name,
        is_read_only=is_read_only(session),
        mirror=mirror_of(session),
        cannot_run=None if is_read_only(session) else find_problem(session.app_name),
        find=page.query.find,
        errors=windows.error_seqs(session),
    )


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of the session, and its forks."""

    origin: Origin | None
    parent: AgentSession | None
    imported_from: str
    forks: list[AgentSession]
    in_own_realm: bool


def _lineage(page: PageRequest) -> Lineage:
    return Lineage(
        lineage.origin_of(page.session),
        lineage.parent_of(page.session),
        lineage.imported_from(page.session),
        [] if page.selected else lineage.forks_of(page.session),
        is_isolated_fork(page.session),
    )


@dataclass(frozen=True, slots=True)
class TimelineSection:
    """A window of the timeline.

    Attributes:
        ahead: runs without events that ended before any event.
        hit_seqs: hits of the search in the window.
        kept: parameters of the search, for links within the page.
    """

    window: EventWindow
    groups: list[InvocationGroup]
    ahead: list[RunMark]
    selected_seq: int | None
    hit_seqs: set[int]
    kept: str


def _timeline(page: PageRequest) -> TimelineSection:
    window = session_search.hit_window(page.session, page.query, page.selected) or _choose_window(page)
    timeline = read_timeline(page.session, window)
    return TimelineSection(
        window,
        timeline.groups,
        timeline.ahead,
        page.selected.seq if page.selected else None,
        session_search.hits_in(page.session, page.query.q, window),
        f"&{urlencode(page.query.search)}" if page.query.search else "",
    )


def _choose_window(page: PageRequest) -> EventWindow:
    query = page.query
    if query.before is not None:
        return windows.before(page.session, query.before)
    if query.after is not None:
        return windows.after(page.session, query.after)
    if query.around is not None:
        return windows.around(page.session, query.around)
    if page.selected:
        return windows.around(page.session, page.selected.seq)
    return windows.newest(page.session)


@dataclass(frozen=True, slots=True)
class TimeSlider:
    """The point in time on the slider, and its neighbors."""

    point: int
    previous_point: int
    next_point: int
    last_point: int


def _time_slider(page: PageRequest) -> TimeSlider:
    last = page.session.last_seq
    point = page.selected.seq if page.selected else last
    return TimeSlider(
        point, max(point - 1 if page.selected else point, 1), min(point + 1, last), max(last, 1)
    )


@dataclass(frozen=True, slots=True)
class Permissions:
    """Permissions to edit keys and to rewind the session to the selected event."""

    can_edit: bool
    can_rewind: bool


def _permissions(page: PageRequest) -> Permissions:
    can_edit = not is_read_only(page.session) and mirror_of(page.session) is None
    return Permissions(can_edit, can_edit and page.selected is not None and bool(page.selected.invocation_id))


@dataclass(frozen=True, slots=True)
class InspectionSection:
    """The selected event in the inspector. Other tabs than `tab` are hidden."""

    inspection: Inspection | None
    tab: str
    tabs: tuple[tuple[str, str], ...] = TABS


def _inspection(page: PageRequest) -> InspectionSection:
    more = page.query.delta == "all"
    inspection = inspect_event(page.session, page.selected, more=more) if page.selected else None
    return InspectionSection(inspection, page.query.tab or "parts")


@dataclass(frozen=True, slots=True)
class RawSection:
    """The JSON of the selected event; None unless its tab is open, because an event may have megabytes."""

    event: Event | None
    raw: RawJson | None
    raw_text: str


def _raw(page: PageRequest) -> RawSection:
    text, selected = page.query.raw, page.selected
    if selected is None or page.query.tab != "raw":
        return RawSection(selected, None, text)
    url = reverse("event-json", kwargs={"pk": page.session.pk, "seq": selected.seq})
    marked = f"{url}?{urlencode({'find': text})}" if text else url
    is_open = page.query.open == "all"
    return RawSection(
        selected, read_raw_json(selected, marked, text, page.query.hit or 1, is_open=is_open), text
    )


@dataclass(frozen=True, slots=True)
class BoardSection:
    """The state at the selected event or now, or its differences from another point in time."""

    scope: str
    shows_all: bool
    board: Board | None = None
    differences: StateDifferences | None = None


def _board(page: PageRequest) -> BoardSection:
    session, query, selected = page.session, page.query, page.selected
    scope, shows_all = query.scope or "all", query.keys == "all"
    limit = KEYS_AT_MOST if shows_all else KEYS_SHOWN
    if query.diff:
        differences = state_differences(session, query.diff, selected, limit=limit, begin=query.begin)
        return BoardSection(scope, shows_all, differences=differences)
    known_event = _event_or_none(session, seq=query.known) if query.known else None
    board = read_board(
        session,
        selected,
        limit=limit,
        watched=query.watch[:MOST_WATCHED],
        like=query.key,
        begin=query.begin,
        seen=ClientBoard(known_event, query.mark) if known_event else None,
    )
    return BoardSection(scope, shows_all, board)


@dataclass(frozen=True, slots=True)
class Siblings:
    """The list of sessions, and a mark that changes with it."""

    siblings: list[AgentSession]
    list_mark: str


def _siblings(page: PageRequest) -> Siblings:
    session = page.session
    return Siblings(read_siblings(session, page.query.find), list_mark(session.realm, session.app_name))


def _search_bar(page: PageRequest) -> SearchBar:
    return SearchBar(chips(page.session, page.query.q), page.query.only)


def _search_results(page: PageRequest) -> SearchResults:
    return session_search.read_results(page.session, page.query, page.selected)


Section = Callable[[PageRequest], "DataclassInstance"]

INSPECTION_SECTIONS: tuple[Section, ...] = (_inspection, _raw, _lineage, _permissions)
DETAIL_SECTIONS: tuple[Section, ...] = (_board, *INSPECTION_SECTIONS, _time_slider)
PAGE_SECTIONS: tuple[Section, ...] = (
    _frame,
    _timeline,
    *DETAIL_SECTIONS,
    _siblings,
    _search_bar,
    _search_results,
)
"""Functions that read a section; the fields of its dataclass are the template's variables."""

PARTS: dict[str, tuple[str, tuple[Section, ...]]] = {
    "window": (f"{TIMELINE}#window", (_timeline,)),
    "detail": (f"{PAGE}#detail", DETAIL_SECTIONS),
    "inspection": (f"{PAGE}#inspection", INSPECTION_SECTIONS),
    "board": (f"{PAGE}#board", (_board, _permissions)),
    "raw": (f"{INSPECTOR}#raw", (_raw,)),
    "search-results": ("devui/sessions/timeline/search.html#search-results", (_search_results,)),
    "chips": ("devui/sessions/timeline/search.html#chips", (_search_bar,)),
    "siblings": (f"{PAGE}#siblings", (_siblings,)),
}
"""Id of the htmx target element → template of its content, and its sections."""


def _offer_nearest_event(
    request: HttpRequest, session: AgentSession, query: SessionPageQuery
) -> HttpResponse:
    event = repr(query.event) if query.event else query.seq
    nearest = windows.nearest_event(session, session.last_seq if query.seq is None else query.seq)
    if nearest is None:
        return render_missing_event(request, session, event, "", "")
    return render_missing_event(request, session, event, f"Open event {nearest.seq}", f"?seq={nearest.seq}")


def _offer_nearest_comparison(
    request: HttpRequest, session: AgentSession, query: SessionPageQuery, selected: Event | None
) -> HttpResponse:
    """Render a 404 page for a missing event to compare with, with a link to the nearest one."""
    nearest = windows.nearest_event(session, int(query.diff))
    if nearest is None:
        return render_missing_event(request, session, query.diff, "", "")
    opened = {"seq": selected.seq} if selected else {}
    url = f"?{urlencode({**opened, 'diff': nearest.seq})}"
    return render_missing_event(request, session, query.diff, f"Compare with event {nearest.seq}", url)


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
