"""Session list: search, completions, query help and live updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from sessions_app.forms.lists import SessionListQuery, SessionQuery, SessionWatch
from sessions_app.forms.query import CompletionQuery
from sessions_app.http import render_partial, wants_partial
from sessions_app.search import vocabulary
from sessions_app.search.execution import scans, session_queries
from sessions_app.search.execution.session_queries import Hit
from sessions_app.search.query.completion import complete
from sessions_app.search.query.correction import (
    names_in,
    remark_names,
    remark_other_case,
    remark_unknown_names,
    remark_word_starts,
)
from sessions_app.search.query.scanner import QueryError
from sessions_app.search.query.terms import DESCRIPTIONS, EXAMPLES, Query
from sessions_app.sessions import deletion, labels, list_updates, listing, overview, saved_views
from sessions_app.store import expiry
from sessions_app.store.database import pagination
from sessions_app.store.models import AgentSession
from sessions_app.tables import session_columns
from sessions_app.tables.session_columns import SessionRow
from sessions_app.tables.table import Arrangement
from sessions_app.views.session_actions import DELETED_COOKIE

LIST = "devui/sessions/list/list.html"
COMPLETIONS = "devui/sessions/list/completions.html"
HELP = "devui/sessions/list/query_help.html"

SessionTable = Arrangement[SessionRow]


def index(request: HttpRequest) -> HttpResponse:
    """Show sessions of all apps and users."""
    form = SessionListQuery(request.GET)
    is_part = wants_partial(request, "sessions")
    try:
        filters = form.filters()
    except QueryError as problem:
        return _render_query_problem(request, form, problem, is_part=is_part)
    table = session_columns.TABLE.arrange(request)
    progress = form.progress()
    page = listing.list_page(filters, form.cleaned_data["before"], progress, order=table.order)
    continues_search = wants_partial(request, "scan-progress")
    if continues_search:
        page = page.without(_shown_rows(form).marks.keys())
    context = _page_context(table, page, progress, is_first=page.others.is_first or form.cleaned_data["top"])
    if continues_search:
        return _continue_search(request, form, filters, page, context)
    since = None
    if page.others.is_first:
        since = max((row.updated_at for row in page.rows), default=0.0)
        if (page.pending and not page.rows) or (page.rows and not table.is_default_order):
            since = listing.newest_update(filters)
    context |= {
        **_filter_context(request, form),
        **_view_context(request),
        "pinned": table.draw(_session_rows(page.pinned, page.hits)),
        "is_filtered": filters != listing.SessionFilter(),
        "is_part": is_part,
    }
    context |= {
        "unindexed_count": scans.count_unindexed(),
        "watch": _watch_url(request, list_updates.shown_rows(page.rows, _row_mark), since),
        "remarks": _query_remarks(request, filters.query, is_nothing=context["is_nothing"]),
        "word_starts": [word.text for word in filters.query.words if word.is_prefix],
    }
    if is_part:
        return render_partial(request, LIST, context, partial="sessions")
    context |= _frame_context()
    return _report_deletion(request, context)


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the matching sessions as CSV, in the order and with the columns of the list."""
    filters = SessionQuery(request.GET).filters()
    table = session_columns.TABLE.arrange(request)
    rows = (SessionRow(row) for page in listing.read_pages(filters, table.order) for row in page.rows)
    return table.csv_response(rows)


def _report_deletion(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Show the list, once with the message of the deletion after which the browser came here."""
    batch_id = request.COOKIES.get(DELETED_COOKIE)
    batch = next((batch for batch in context["deleted"] if batch.id == batch_id), None)
    done = deletion.DeletionResult(batch, []) if batch else None
    response = render_partial(request, LIST, {**context, "done": done}, partial="sessions")
    if batch_id:
        response.delete_cookie(DELETED_COOKIE, path=reverse("sessions"))
    return response


def _page_context(
    table: SessionTable, page: listing.SessionListPage, progress: listing.ScanProgress, *, is_first: bool
) -> dict[str, Any]:
    """Return the context of the rows and of the links to further pages."""
    continue_url = continue_query = ""
    if page.pending:
        cursor = {"before": page.pending.place, "scanned": str(page.pending.progress.sessions)}
        continue_url = table.query(**cursor)
        scan_state = {"matches": str(page.pending.progress.matches), **({"top": "1"} if is_first else {})}
        continue_query = table.query(**cursor, **scan_state)
    return {
        **table.page_context(page.others, _session_rows(page.others.rows, page.hits)),
        "count_label": table.count_label(page.total),
        "first_url": "" if is_first else table.query(),
        "pending": page.pending,
        "continue_url": continue_url,
        "continue_query": continue_query,
        "is_nothing": not page.rows and not progress.matches and not page.pending,
        "found_by_now": progress.matches + len(page.rows),
    }


def _shown_rows(form: SessionListQuery) -> list_updates.ShownRows[int]:
    """Return the rows on screen."""
    return list_updates.parse(form.cleaned_data["rows"], pagination.integer_key)


def _session_rows(sessions: Iterable[AgentSession], hits: Mapping[int, Hit]) -> list[SessionRow]:
    return [SessionRow(session, hits.get(session.pk)) for session in sessions]


def _continue_search(
    request: HttpRequest,
    form: SessionListQuery,
    filters: listing.SessionFilter,
    page: listing.SessionListPage,
    context: dict[str, Any],
) -> HttpResponse:
    """Return further rows for a list on screen whose search continues, and the search's progress."""
    since, arrived = form.cleaned_data["since"], form.cleaned_data["new_count"] or 0
    shown_rows = _shown_rows(form).after(page.rows, [], _row_mark)
    context |= {
        "goes_on": True,
        "is_filtered": True,
        "arrived": arrived,
        "many": list_updates.MAX_NEW,
        "list": _filtered_url("sessions", request),
        "watch": _watch_url(request, shown_rows, since, arrived),
    }
    if context["is_nothing"]:
        context["remarks"] = _query_remarks(request, filters.query, is_nothing=True)
    return render(request, LIST + "#scan-progress", context)


def _filter_context(request: HttpRequest, form: SessionQuery) -> dict[str, Any]:
    search = saved_views.search_parameters(request.GET.urlencode())
    return {
        "filters": form.cleaned_data,
        "list": request.get_full_path(),
        "search": search,
        "keep_url": f"{reverse('saved-views')}?{search}".removesuffix("?"),
    }


def _view_context(request: HttpRequest) -> dict[str, Any]:
    """Return the saved views, and whether the current search is one of them."""
    views, search = saved_views.all_views(), saved_views.search_parameters(request.GET.urlencode())
    return {"views": views, "is_kept": any(view.query == search for view in views)}


def _frame_context() -> dict[str, Any]:
    return {"apps": overview.app_names(), "deleted": deletion.recent_batches(), "tags": labels.tags_in_use()}


def _render_query_problem(
    request: HttpRequest, form: SessionQuery, problem: QueryError, *, is_part: bool
) -> HttpResponse:
    """Show the error in a query. A list on screen keeps its rows."""
    context = {
        **_filter_context(request, form),
        "problem": problem,
        "query_parts": problem.split(form.cleaned_data["q"]),
        "is_part": is_part,
    }
    if is_part:
        response = render(request, LIST + "#notes", context)
        response["HX-Reswap"] = "none"
        response["HX-Push-Url"] = "false"
        return response
    page = {**_view_context(request), "is_filtered": True}
    return render(request, LIST, {**context, **page, **_frame_context()}, status=400)


def _query_remarks(request: HttpRequest, query: Query, *, is_nothing: bool) -> list[tuple[str, str, str]]:
    """Return remarks on a query: message, suggested query and its URL.

    A query without matches may be misspelled. A query with matches gets a remark when it excludes a name that no
    session has.
    """
    names = names_in(query, only_negative=not is_nothing)
    existing = vocabulary.existing_names(names)
    if query.is_empty or (not is_nothing and existing.issuperset(names)):
        return []
    known_words = vocabulary.read_vocabulary()
    remarks = remark_unknown_names(query, known_words, {*names} - existing)
    if is_nothing:
        remarks = [
            *remark_names(query, known_words),
            *remarks,
            *remark_word_starts(query, vocabulary.find_word_starts(query)),
            *remark_other_case(query, vocabulary.find_other_spellings(query)),
        ]
    return [
        (text, suggestion, _filtered_url("sessions", request, q=suggestion) if suggestion else "")
        for text, suggestion in ((remark.message, remark.suggestion) for remark in remarks)
    ]


def completions(request: HttpRequest) -> HttpResponse:
    """Return completions at the caret of the search box."""
    text, caret = CompletionQuery(request.GET).text_and_caret()
    completions = complete(text, caret, vocabulary.read_vocabulary())
    return render(request, COMPLETIONS, {"completions": completions})


def query_help(request: HttpRequest) -> HttpResponse:
    """Show the help of the query language."""
    context = {"examples": EXAMPLES.items(), "terms": DESCRIPTIONS.items(), "next": reverse("sessions")}
    return render_partial(request, HELP, context, partial="help", target="dialog-content")


def changes(request: HttpRequest) -> HttpResponse:
    """Return changed rows of a list on screen and the number of new sessions; 204 if nothing changed."""
    form = SessionWatch(request.GET)
    filters = form.filters()
    shown_text, since, last_arrived = (form.cleaned_data[name] for name in ("rows", "since", "new_count"))
    shown_rows = list_updates.parse(shown_text, pagination.integer_key)
    rows = listing.refresh_rows(shown_rows.marks)
    changed, gone_pks = shown_rows.changed_rows(rows, _row_mark), shown_rows.missing_keys(rows)
    arrived = 0 if since is None else listing.count_new_sessions(filters, since, shown_rows.marks)
    if not changed and not gone_pks and arrived == (last_arrived or 0):
        return HttpResponse(status=204)
    table = session_columns.TABLE.arrange(request)
    hits = session_queries.Search(filters.query).hits(changed)
    context = {
        "table": table,
        "changed": table.draw(_session_rows(changed, hits), in_place=True),
        "gone": gone_pks,
        "arrived": arrived,
        "many": list_updates.MAX_NEW,
        "is_first_row": bool(arrived and not shown_rows.marks),
        "watch": _watch_url(request, shown_rows.after(changed, gone_pks, _row_mark), since, arrived),
        "list": _filtered_url("sessions", request),
        "deleted": deletion.recent_batches(),
        "is_swapped": True,
    }
    return render(request, LIST + "#watch", context)


def _row_mark(session: AgentSession) -> str:
    status = getattr(session, "run_status", None)
    tags = listing.tag_names(session)
    is_pinned = session.pinned_at is not None
    return list_updates.row_mark(
        session.revision,
        session.title,
        session.problem_count,
        status,
        expiry.find_age(session),
        is_pinned,
        *tags,
    )


def _watch_url(
    request: HttpRequest, shown_rows: list_updates.ShownRows[int], since: float | None, arrived: int = 0
) -> str:
    """Return the URL that a list polls for changes. Without `since` it does not report new sessions."""
    return _filtered_url("session-changes", request, **list_updates.next_poll(shown_rows, since, arrived))


def _filtered_url(route: str, request: HttpRequest, **more: str) -> str:
    """Return the URL of a route with the request's filters."""
    return f"{reverse(route)}{session_columns.TABLE.arrange(request).query(**more)}".removesuffix("?")
