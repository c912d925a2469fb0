"""List of artifacts of all sessions and users, with live updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from sessions_app.artifacts import artifact_list
from sessions_app.artifacts.artifact_versions import FileKey
from sessions_app.forms.query import ListWatch, PageQuery
from sessions_app.http import render_partial
from sessions_app.ids import ID_BYTES
from sessions_app.models import AgentSession, Artifact
from sessions_app.sessions import list_updates, overview, storage_location
from sessions_app.store import pagination
from sessions_app.views.artifacts.file_address import FILTERS, OWNERS, file_url, list_url

LIST = "devui/artifacts/list.html"


class ArtifactsQuery(PageQuery):
    """Filters of the artifact list; `scope=user` excludes artifacts of sessions."""

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    session = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    name = forms.CharField(required=False, max_length=200)
    scope = forms.ChoiceField(required=False, choices=[("", "any"), ("user", "user")])
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)


class ArtifactsWatch(ArtifactsQuery, ListWatch):
    """Query for changes of an artifact list on screen."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file in the list: newest version, URL, and the session that saved it."""

    artifact: Artifact
    key: FileKey
    url: str
    session: AgentSession | None

    @property
    def pk(self) -> int:
        """Primary key of the newest version."""
        return int(self.artifact.pk)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """List the files of all sessions and users, newest first."""
    query = ArtifactsQuery(request.GET).read()
    page = pagination.paginate(
        artifact_list.newest_versions(_file_filter(query)), "created_at", query["before"]
    )
    sessions = artifact_list.fetch_saving_sessions(page.rows)
    latest = page.rows[0].created_at if page.rows else 0.0
    watch_parameters = list_updates.next_poll(
        list_updates.shown_rows(page.rows, _row_mark), latest if page.is_first else None
    )
    context = {
        "page": page,
        "rows": [_build_row(artifact, sessions) for artifact in page.rows],
        "watch": list_url("artifact-changes", query, watch_parameters),
        "query": query,
        "is_filtered": any(query[name] for name in FILTERS),
        "upload": list_url("artifact-upload", query, only=OWNERS),
        "apps": overview.app_names(),
        "elsewhere": (where := storage_location.artifact_service_of(query["app"])),
        "there": _external_url(query) if where and not query["realm"] else "",
    }
    return render_partial(request, LIST, context, partial="artifacts")


@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """Return the rows that left a list on screen and the number of new files; 204 if nothing changed."""
    query = ArtifactsWatch(request.GET).read()
    shown_rows = list_updates.parse(query["shown"], int)
    files = artifact_list.newest_versions(_file_filter(query))
    gone_pks = shown_rows.missing_keys(files.filter(pk__in=shown_rows.marks).only("pk"))
    arrived = list_updates.count_new_rows(files, query["since"], shown_rows)
    if not gone_pks and arrived == (query["told"] or 0):
        return HttpResponse(status=204)
    watch_parameters = list_updates.next_poll(
        shown_rows.after([], gone_pks, _row_mark), query["since"], arrived
    )
    context = {
        "changed": [],
        "gone": gone_pks,
        "arrived": arrived,
        "many": list_updates.MOST_NEW,
        "is_first_row": bool(arrived and not shown_rows.marks),
        "watch": list_url("artifact-changes", query, watch_parameters),
        "list": list_url("artifacts", query),
    }
    return render(request, LIST + "#watch", context)


def _external_url(query: Mapping[str, Any]) -> str:
    """Return the URL of a session's artifacts in an external service; empty without a complete session filter."""
    owner = {name: query[name] for name in ("app", "user", "session")}
    return f"{reverse('artifacts-there')}?{urlencode(owner)}" if all(owner.values()) else ""


def _file_filter(query: Mapping[str, Any]) -> artifact_list.FileFilter:
    return artifact_list.FileFilter(
        query["app"], query["user"], query["session"], query["scope"] == "user", query["realm"], query["name"]
    )


def _build_row(artifact: Artifact, sessions: Mapping[Any, AgentSession]) -> FileRow:
    key = FileKey(artifact.realm, artifact.app_name, artifact.user_id, artifact.session_id, artifact.filename)
    return FileRow(artifact, key, file_url(key), sessions.get(artifact_list.saving_session_key(artifact)))


def _row_mark(artifact: Artifact) -> str:
    """Return a constant mark: versions are immutable."""
    return list_updates.mark_of(artifact.pk)
