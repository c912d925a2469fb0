"""The list of sessions, and making one."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from sessions_app import expiry
from sessions_app.forms import CompletionQuery, SessionListQuery, SessionQuery, SessionWatch
from sessions_app.http import render_partial, wants_partial
from sessions_app.models import AgentSession
from sessions_app.search import execution, vocabulary
from sessions_app.search.query import (
    Query,
    QueryProblem,
    complete,
    named,
    names_in,
    spot,
    starred,
    timed,
    typed,
    unknown,
)
from sessions_app.search.query.terms import DESCRIPTIONS
from sessions_app.sessions import deletion, labels, list_updates, listing, overview, saved_views
from sessions_app.store import pagination

LIST = "devui/sessions/list/list.html"
COMPLETIONS = "devui/sessions/list/completions.html"
HELP = "devui/sessions/list/query_help.html"

CONTEXT_CHARACTERS = 300
"""Characters of a wrong query that are shown of what is wrong, and before and after it."""


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show sessions of all apps and users, newest first."""
    form = SessionListQuery(request.GET)
    is_part = wants_partial(request, "sessions")
    try:
        wanted = form.wanted()
    except QueryProblem as problem:
        return _render_query_problem(request, form, problem, is_part=is_part)
    so_far = form.so_far()
    found = listing.page(wanted, form.cleaned_data["before"], so_far)
    context = _page_context(
        request, found, so_far, is_first=found.others.is_first or form.cleaned_data["top"]
    )
    if wants_partial(request, "looking"):
        return _continue_search(request, form, wanted, found, context)
    since = None
    if found.others.is_first:
        since = max((row.updated_at for row in found.rows), default=0.0)
        if found.looking and not found.rows:
            since = listing.newest(wanted)
    context |= {
        **_filter_context(request, form),
        **_view_context(request),
        "pinned": found.pinned,
        "is_filtered": wanted != listing.Wanted(),
        "is_part": is_part,
    }
    left = _round_up(execution.sessions_left())
    context |= {
        "left": left,
        "watch": _watch_url(request, list_updates.seen(found.rows, _row_mark), since=since, left=left),
    }
    context["remarks"] = _remarks(request, wanted.query, is_nothing=context["is_nothing"])
    if not is_part:
        context |= _frame_context()
    return render_partial(request, LIST, context, partial="sessions")


def _page_context(
    request: HttpRequest, found: listing.Page, so_far: listing.SoFar, *, is_first: bool
) -> dict[str, Any]:
    """Return what stands on a page below its filters: rows, and the way on."""
    look_url = further = ""
    if found.looking:
        place = {"before": found.looking.place, "looked": str(found.looking.so_far.looked)}
        look_url = _page_query(request, **place)
        here = {"found": str(found.looking.so_far.found), **({"top": "1"} if is_first else {})}
        further = _page_query(request, **place, **here)
    older = found.others.older
    return {
        "rows": found.others.rows,
        "hits": found.hits,
        "looking": found.looking,
        "look_url": look_url,
        "further": further,
        "newest_url": "" if is_first else _page_query(request),
        "older_url": _page_query(request, before=older) if older else "",
        "is_nothing": not found.rows and not so_far.found and not found.looking,
        "found_by_now": so_far.found + len(found.rows),
    }


def _continue_search(
    request: HttpRequest,
    form: SessionListQuery,
    wanted: listing.Wanted,
    found: listing.Page,
    context: dict[str, Any],
) -> HttpResponse:
    """Answer a list on screen for which a look goes on: more rows of its page, and how far the look came."""
    since, told, left = (form.cleaned_data[name] for name in ("since", "told", "left"))
    shown = list_updates.parse(form.cleaned_data["shown"], pagination.integer_key).after(
        found.rows, [], _row_mark
    )
    context |= {
        "goes_on": True,
        "is_filtered": True,
        "arrived": told or 0,
        "many": listing.MOST_ARRIVED,
        "list": _url("sessions", request),
        "watch": _watch_url(request, shown, since=since, told=told or 0, left=left or 0),
    }
    if context["is_nothing"]:
        context["remarks"] = _remarks(request, wanted.query, is_nothing=True)
    return render(request, LIST + "#looking", context)


def _filter_context(request: HttpRequest, form: SessionQuery) -> dict[str, Any]:
    search = saved_views.query_of(request.GET.urlencode())
    return {
        "filters": form.cleaned_data,
        "list": request.get_full_path(),
        "search": search,
        "keep_url": f"{reverse('saved-views')}?{search}".removesuffix("?"),
    }


def _view_context(request: HttpRequest) -> dict[str, Any]:
    """Return the searches that are kept, and whether the one on the screen is among them."""
    views, search = saved_views.all_views(), saved_views.query_of(request.GET.urlencode())
    return {"views": views, "is_kept": any(view.query == search for view in views)}


def _frame_context() -> dict[str, Any]:
    return {"apps": overview.app_names(), "deleted": deletion.recent(), "tags": labels.tags_in_use()}


def _render_query_problem(
    request: HttpRequest, form: SessionQuery, problem: QueryProblem, *, is_part: bool
) -> HttpResponse:
    """Say where a query is wrong and what was probably meant. A list on screen stays as it is meanwhile."""
    text = form.cleaned_data["q"]
    context = {
        **_filter_context(request, form),
        "problem": problem,
        "before": _cut_start(text[: problem.start]),
        "wrong": _cut_end(text[problem.start : problem.end]) or " ",
        "after": _cut_end(text[problem.end :]),
        "suggestion": _suggestion_url(request, problem.suggestion),
        "is_part": is_part,
    }
    if is_part:
        response = render(request, LIST + "#notes", context)
        response["HX-Reswap"] = "none"
        response["HX-Push-Url"] = "false"
        return response
    page = {**_view_context(request), "is_filtered": True}
    return render(request, LIST, {**context, **page, **_frame_context()}, status=400)


def _cut_end(text: str) -> str:
    return text if len(text) <= CONTEXT_CHARACTERS else f"{text[:CONTEXT_CHARACTERS]}…"


def _cut_start(text: str) -> str:
    return text if len(text) <= CONTEXT_CHARACTERS else f"…{text[-CONTEXT_CHARACTERS:]}"


def _remarks(request: HttpRequest, query: Query, *, is_nothing: bool) -> list[tuple[str, str, str]]:
    """Return what is to be said of a query: the words, the query meant and its address.

    One that finds nothing may be meant otherwise. One that finds something is so when it excludes what nothing has.
    """
    names = names_in(query, of_what_is_not=not is_nothing)
    existing = vocabulary.existing(names)
    if query.is_empty or (not is_nothing and existing.issuperset(names)):
        return []
    known = vocabulary.known(word.text for word in query.words)
    found = unknown(query, known, existing=existing, names=names)
    if is_nothing:
        found = [*timed(query), *starred(query), *named(query, known), *found, *typed(query, known)]
    return [
        (remark.message, remark.suggestion, _suggestion_url(request, remark.suggestion)) for remark in found
    ]


def _suggestion_url(request: HttpRequest, suggestion: str) -> str:
    return _url("sessions", request, q=suggestion) if suggestion else ""


@require_safe
def completions(request: HttpRequest) -> HttpResponse:
    """Answer what may be written at the caret of the search box."""
    text, caret = CompletionQuery(request.GET).asked()
    known = vocabulary.at(spot(text, caret))
    return render(request, COMPLETIONS, {"found": complete(text, caret, known)})


@require_safe
def query_help(request: HttpRequest) -> HttpResponse:
    """Show what can be written in the search box."""
    context = {"terms": DESCRIPTIONS.items(), "next": reverse("sessions")}
    return render_partial(request, HELP, context, partial="help", target="dialog-content")


@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """Answer how a list on screen has changed: its rows, and how many sessions came. 204: it has not."""
    form = SessionWatch(request.GET)
    wanted = form.wanted()
    shown, since, told = (form.cleaned_data[name] for name in ("shown", "since", "told"))
    seen = list_updates.parse(shown, pagination.integer_key)
    rows = listing.shown_again(seen.marks)
    changed, gone = seen.changed(rows, _row_mark), seen.gone(rows)
    arrived = 0 if since is None else listing.arrived(wanted, since, seen.marks)
    left_then = form.cleaned_data["left"] or 0
    left = _round_up(execution.sessions_left()) if left_then else 0
    if not changed and not gone and arrived == (told or 0) and left == left_then:
        return HttpResponse(status=204)
    context = {
        "changed": changed,
        "gone": gone,
        "arrived": arrived,
        "many": listing.MOST_ARRIVED,
        "is_first_row": bool(arrived and not seen.marks),
        "watch": _watch_url(
            request, seen.after(changed, gone, _row_mark), since=since, told=arrived, left=left
        ),
        "left": left,
        "left_is_new": left != left_then,
        "hits": execution.Search(wanted.query).hits(changed),
        "list": _url("sessions", request),
        "deleted": deletion.recent(),
        "is_swapped": True,
    }
    return render(request, LIST + "#watch", context)


def _row_mark(session: AgentSession) -> str:
    status = getattr(session, "run_status", None)
    tags = listing.tag_names(session)
    is_pinned = session.pinned_at is not None
    return list_updates.mark_of(
        session.revision, session.title, status, expiry.age_of(session), is_pinned, *tags
    )


def _round_up(count: int) -> int:
    """Return a count in two digits, rounded up: one that falls all the time is not told all the time."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return -(-count // unit) * unit


def _watch_url(
    request: HttpRequest, seen: list_updates.Seen[Any], *, since: float | None, told: int = 0, left: int = 0
) -> str:
    """Return where a list asks how it has changed. Without `since` it does not hear of new sessions."""
    counting = {} if since is None else {"since": repr(since), "told": str(told)}
    if left:
        counting["left"] = str(left)
    return _url("session-changes", request, shown=str(seen), **counting)


def _url(route: str, request: HttpRequest, **more: str) -> str:
    """Return the address of a route with the request's filters."""
    return f"{reverse(route)}{_page_query(request, **more)}".removesuffix("?")


def _page_query(request: HttpRequest, **more: str) -> str:
    """Return the address of a page of the list on screen, with its filters."""
    query = request.GET.copy()
    for name in _POSITION_PARAMETERS:
        query.pop(name, None)
    for name, value in more.items():
        query[name] = value
    return f"?{query.urlencode()}"


_POSITION_PARAMETERS = ("before", "looked", "found", "top", "shown", "since", "told", "left")
"""Parameters that say which page of a list is shown, and how it stands on the screen."""
