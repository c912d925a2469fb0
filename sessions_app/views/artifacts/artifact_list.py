"""List of artifacts of all sessions and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from sessions_app.artifacts import artifact_list
from sessions_app.forms.query import OwnerQuery
from sessions_app.http import render_partial
from sessions_app.sessions import overview, storage_location
from sessions_app.store.artifacts.artifact_versions import FileKey
from sessions_app.store.database import pagination
from sessions_app.store.ids import ID_BYTES
from sessions_app.store.models import Artifact
from sessions_app.tables import artifact_columns
from sessions_app.tables.artifact_columns import ArtifactRow
from sessions_app.views.artifacts.file_address import FILTERS, file_url, list_url

LIST = "devui/artifacts/list.html"


class ArtifactsQuery(OwnerQuery):
    """Filters of the artifact list; `scope=user` excludes artifacts of sessions."""

    name = forms.CharField(required=False, max_length=200)
    scope = forms.ChoiceField(required=False, choices=[("", "any"), ("user", "user")])
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)


def index(request: HttpRequest) -> HttpResponse:
    """List the files of all sessions and users."""
    query = ArtifactsQuery(request.GET).read()
    table = artifact_columns.TABLE.arrange(request)
    page = pagination.paginate(
        artifact_list.newest_versions(_file_filter(query)), table.order, query["before"], is_counted=True
    )
    context = {
        **table.page_context(page, _artifact_rows(page.rows)),
        "query": query,
        "is_filtered": any(query[name] for name in FILTERS),
        "upload": list_url("artifact-upload", query),
        "apps": overview.app_names(),
        "elsewhere": (where := storage_location.find_artifact_owner(query["app"])),
        "there": _external_url(query) if where and not query["realm"] else "",
    }
    return render_partial(request, LIST, context, partial="artifacts")


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the matching files as CSV, in the order and with the columns of the list."""
    table = artifact_columns.TABLE.arrange(request)
    files = artifact_list.newest_versions(_file_filter(ArtifactsQuery(request.GET).read()))
    batches = pagination.read_batches(files, table.order)
    return table.csv_response(row for batch in batches for row in _artifact_rows(batch))


def _external_url(query: Mapping[str, Any]) -> str:
    """Return the URL of a session's artifacts in an external service; empty without a complete session filter."""
    owner = {name: query[name] for name in ("app", "user", "session")}
    return reverse("artifacts-there", query=owner) if all(owner.values()) else ""


def _file_filter(query: Mapping[str, Any]) -> artifact_list.FileFilter:
    return artifact_list.FileFilter(
        query["app"], query["user"], query["session"], query["scope"] == "user", query["realm"], query["name"]
    )


def _artifact_rows(artifacts: Sequence[Artifact]) -> list[ArtifactRow]:
    """Return files' newest versions with their addresses and the sessions that saved them."""
    sessions = artifact_list.fetch_saving_sessions(artifacts)
    return [
        ArtifactRow(row, file_url(_file_key(row)), sessions.get(artifact_list.saving_session_key(row)))
        for row in artifacts
    ]


def _file_key(artifact: Artifact) -> FileKey:
    return FileKey(
        artifact.realm, artifact.app_name, artifact.user_id, artifact.session_id, artifact.filename
    )
