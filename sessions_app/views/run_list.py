"""List of runs with filters and live updates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from sessions_app.forms.lists import RunQuery, RunWatch
from sessions_app.http import render_partial
from sessions_app.models import Event, Run
from sessions_app.runs import lifecycle, rerun
from sessions_app.search.query.times import parse_time
from sessions_app.sessions import list_updates, overview
from sessions_app.store import pagination
from sessions_app.traces.lost_toolsets import lost_toolsets_of_sessions

LIST = "devui/runs/list.html"

MOST_KINDS = 50
"""Maximum number of error types in the filter."""

COLUMNS = {
    "app": "session__app_name",
    "status": "status",
    "user": "session__user_id",
    "session": "session__session_id",
    "error": "error_type",
}
"""Filter → column."""

TIME_LABELS = {"after": "Since", "until": "Until"}
"""Time filter → label of its field."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the list shows it; `seconds` and `events` are None until the run has ended.

    Attributes:
        message: the beginning of its message, once that is an event of its session.
        lost_toolsets: toolsets that failed to load in it.
    """

    run: Run
    message: str
    is_active: bool
    can_repeat: bool
    seconds: float | None
    events: int | None
    lost_toolsets: Sequence[str]


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show the runs of all apps, newest first."""
    form = RunQuery(request.GET)
    if problem := _time_problem(form):
        return _render_problem(request, form, problem)
    query = form.read()
    page = pagination.paginate(_filter_runs(query), "created_at", query["before"], key=str)
    newest = page.rows[0].created_at if page.rows else 0.0
    watch_parameters = list_updates.next_poll(
        list_updates.shown_rows(page.rows, _row_mark), newest if page.is_first else None
    )
    context = {
        "page": page,
        "rows": _build_rows(page.rows),
        "watch": _url("run-changes", query, watch_parameters),
        "is_filtered": any(query[name] for name in RunQuery.FILTERS),
        **_filter_context(query),
    }
    return render_partial(request, LIST, context, partial="runs")


def _time_problem(form: RunQuery) -> str:
    """Return the error of an invalid time filter with its label; empty if all are valid."""
    return next(
        (f"{label}: {form.errors[name][0]}" for name, label in TIME_LABELS.items() if name in form.errors), ""
    )


def _render_problem(request: HttpRequest, form: RunQuery, problem: str) -> HttpResponse:
    """Show the problem in place of the runs; the filters keep their values."""
    query = {name: form[name].value() or "" for name in RunQuery.FILTERS}
    context = {"problem": problem, **_filter_context(query)}
    return render_partial(request, LIST, context, partial="runs", status=422)


def _filter_context(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of the filter form."""
    return {
        "query": query,
        "statuses": Run.Status.choices,
        "errors": _error_types(query["error"]),
        "apps": overview.app_names(),
    }


@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """Return changed rows of a list on screen and the number of new runs; 204 if nothing changed."""
    query = RunWatch(request.GET).read()
    shown_rows = list_updates.parse(query["shown"], str)
    runs = list(_runs().filter(pk__in=shown_rows.marks))
    changed, gone_ids = shown_rows.changed_rows(runs, _row_mark), shown_rows.missing_keys(runs)
    arrived = list_updates.count_new_rows(_filter_runs(query), query["since"], shown_rows)
    if not changed and not gone_ids and arrived == (query["told"] or 0):
        return HttpResponse(status=204)
    watch_parameters = list_updates.next_poll(
        shown_rows.after(changed, gone_ids, _row_mark), query["since"], arrived
    )
    context = {
        "changed": _build_rows(changed),
        "gone": gone_ids,
        "arrived": arrived,
        "many": list_updates.MOST_NEW,
        "is_first_row": bool(arrived and not shown_rows.marks),
        "watch": _url("run-changes", query, watch_parameters),
        "list": _url("runs", query),
    }
    return render(request, LIST + "#watch", context)


def _runs() -> QuerySet[Run]:
    """Return runs without their large requests; `message_summary` is the summary of the message's event."""
    messages = Event.objects.filter(session=OuterRef("session"), seq=OuterRef("first_seq") + 1, author="user")
    is_repeatable = ExpressionWrapper(rerun.REPEATABLE, output_field=BooleanField())
    runs = Run.objects.select_related("session").annotate(
        is_repeatable=is_repeatable, message_summary=Subquery(messages.values("summary")[:1])
    )
    return runs.defer("request")


def _filter_runs(query: Mapping[str, Any]) -> QuerySet[Run]:
    runs = _runs().filter(**{column: query[name] for name, column in COLUMNS.items() if query[name]})
    if query["after"]:
        runs = runs.filter(created_at__gte=parse_time(query["after"]))
    if query["until"]:
        runs = runs.filter(created_at__lt=parse_time(query["until"]))
    return runs


def _error_types(chosen: str) -> list[str]:
    """Return the error types of failed runs, and the chosen one."""
    failed = Run.objects.exclude(error_type="").order_by("error_type")
    error_types = failed.values_list("error_type", flat=True).distinct()[:MOST_KINDS]
    return sorted({*error_types, *filter(None, [chosen])})


def _row_mark(run: Run) -> str:
    return list_updates.mark_of(run.status, bool(run.cancel_requested_at), run.error)


def _url(route: str, query: Mapping[str, Any], more: Mapping[str, str] | None = None) -> str:
    """Return the URL of a route with the filters of a query and further parameters."""
    filters = {name: query[name] for name in RunQuery.FILTERS if query[name]}
    return f"{reverse(route)}?{urlencode({**filters, **(more or {})})}".removesuffix("?")


def _build_rows(runs: Sequence[Run]) -> list[RunRow]:
    lost_toolsets = lost_toolsets_of_sessions([(run.session_id, run.invocation_id) for run in runs])
    return [_build_row(run, lost_toolsets.get((run.session_id, run.invocation_id), ())) for run in runs]


def _build_row(run: Run, lost_toolsets: Sequence[str]) -> RunRow:
    seconds = run.finished_at - run.started_at if run.finished_at and run.started_at else None
    events = run.last_seq - run.first_seq if run.last_seq is not None and run.first_seq is not None else None
    is_active = run.status in lifecycle.ACTIVE
    can_repeat = not is_active and bool(run.is_repeatable)  # type: ignore[attr-defined]  # annotated by `_runs`
    summary = json.loads(run.message_summary or "{}")  # type: ignore[attr-defined]  # annotated by `_runs`
    return RunRow(run, summary.get("text", ""), is_active, can_repeat, seconds, events, lost_toolsets)
