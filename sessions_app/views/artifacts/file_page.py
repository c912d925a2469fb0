"""Page of an artifact file: a version, its difference from another version, all versions; and deletion."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from sessions_app.artifacts import artifact_list
from sessions_app.forms.query import QueryForm
from sessions_app.http import note_object, render_partial
from sessions_app.lookup import find_session
from sessions_app.presentation import file_type, value_diff
from sessions_app.presentation.file_preview import PREVIEW_BYTES, Preview, make_preview
from sessions_app.sessions import storage_location
from sessions_app.store import realms, redaction
from sessions_app.store.artifacts import artifact_versions
from sessions_app.store.artifacts.artifact_versions import FileKey
from sessions_app.store.errors import ContentMissing
from sessions_app.store.models import Artifact
from sessions_app.views.artifacts.file_address import (
    FileQuery,
    file_url,
    key_parameters,
    list_url,
    make_file_key,
)

FILE = "devui/artifacts/file.html"
DELETE = "devui/artifacts/delete.html"


class ArtifactQuery(QueryForm):
    """Name of an artifact as events of its session spell it, and its version; defaults to the newest.

    `content=1` redirects to the content of the version instead of its page.
    """

    name = forms.CharField(strip=False)
    version = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)
    content = forms.BooleanField(required=False)


VERSIONS_SHOWN = 100
"""Maximum number of versions that the page lists; each version has its own URL."""


def file(request: HttpRequest) -> HttpResponse:
    """Show a version of a file or its difference from another version, and list all versions.

    Raises:
        NotFound: there is no such file, or no such version.
        ContentMissing: the file that holds the content is gone.
    """
    query = FileQuery(request.GET).read()
    key = make_file_key(query)
    artifact = artifact_versions.require_version(key, query["version"])
    versions = list(
        artifact_versions.list_versions(key)
        .defer(*artifact_list.LARGE_FIELDS)
        .order_by("-version")[: VERSIONS_SHOWN + 1]
    )
    session = artifact_list.fetch_saving_sessions([artifact]).get(artifact_list.saving_session_key(artifact))
    content = _read_preview(artifact, as_text=query["view"] == "source")
    context = {
        "key": key,
        "artifact": artifact,
        "versions": [(version, file_url(key, version.version)) for version in versions[:VERSIONS_SHOWN]],
        "has_more": len(versions) > VERSIONS_SHOWN,
        "newest": versions[0].version if versions else artifact.version,
        "session": session,
        "seq": artifact_list.find_saving_event(artifact, key.name, session) if session else None,
        "preview": content,
        "metadata": redaction.redact(json.loads(artifact.custom_metadata)),
        "link": json.loads(artifact.part) if artifact.holding == Artifact.Holding.LINK else None,
        "is_hidden": artifact_list.is_rewind_mark(artifact),
        "others": [version for version in versions if version.version != artifact.version],
        "source": query["view"] == "source",
        "url": file_url(key, artifact.version),
        "key_query": urlencode(key_parameters(key)),
        "is_read_only": key.realm.startswith(realms.ATTEMPT),
        **(
            _difference_context(key, artifact, content, query["against"])
            if query["against"] is not None
            else {}
        ),
    }
    return render(request, FILE, context)


def open_session_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect to the page or the content of a file by the name that a session's event gives it.

    Raises:
        SessionMissing: no such session.
        NotFound: the content of a version is requested that does not exist.
    """
    session = find_session(pk)
    if nested := realms.find_nested_run(session):
        session = nested.outer  # ADK stores the artifacts of an agent that is used as a tool there
    query = ArtifactQuery(request.GET).read()
    key = artifact_versions.file_key(
        session.realm, session.app_name, session.user_id, session.session_id, query["name"]
    )
    if (
        not session.realm
        and storage_location.find_artifact_owner(session.app_name)
        and artifact_versions.find_version(key) is None
    ):
        owner = {"app": session.app_name, "user": session.user_id, "session": session.session_id}
        return redirect(reverse("artifacts", query=owner))
    if query["content"]:
        return redirect("artifact-content", pk=artifact_versions.require_version(key, query["version"]).pk)
    return redirect(file_url(key, query["version"]))


def delete(request: HttpRequest) -> HttpResponse:
    """Ask for confirmation; on POST delete a file with all its versions.

    Raises:
        NotFound: there is no such file.
        BadInput: the file belongs to an eval attempt.
    """
    key = make_file_key(FileQuery(request.POST if request.method == "POST" else request.GET).read())
    newest = artifact_versions.require_version(key)
    artifact_versions.refuse_read_only(key.realm)
    if request.method == "POST":
        note_object(request, *key.path, app=key.app_name)
        if hashes := artifact_versions.delete_file(key):
            artifact_versions.remove_unused_content(hashes)
        return redirect(list_url("artifacts", key_parameters(key)))
    versions = artifact_versions.list_versions(key).count()
    context = {
        "key": key,
        "newest": newest,
        "count": versions,
        "fields": key_parameters(key),
        "back": file_url(key),
    }
    return render_partial(request, DELETE, context, partial="question", target="dialog-content")


def _read_preview(artifact: Artifact, *, as_text: bool = False) -> Preview:
    with artifact_versions.open_content(artifact) as opened:
        start = opened.read(PREVIEW_BYTES)
    is_text = as_text or (
        artifact.holding == Artifact.Holding.TEXT and file_type.sniff(start) == file_type.BINARY
    )
    return make_preview(start, artifact.size, artifact.filename, artifact.mime_type or "", as_text=is_text)


def _difference_context(key: FileKey, artifact: Artifact, content: Preview, against: int) -> dict[str, Any]:
    """Return the lines that differ between two versions, or the reason why they cannot be compared."""
    other = artifact_versions.require_version(key, against)
    try:
        before = _read_preview(other, as_text=True)
        comparable = _read_preview(other).kind.is_text and content.kind.is_text
    except ContentMissing as error:
        return {"other": other, "problem": error.message}
    if artifact.sha256 == other.sha256:
        return {"other": other, "problem": "Both versions have the same content."}
    if not comparable:
        return {
            "other": other,
            "problem": "Only text can be compared line by line; one of these versions is not text.",
        }
    after = _read_preview(artifact, as_text=True)
    old, new = json.dumps(before.text), json.dumps(after.text)
    cut = before.is_cut or after.is_cut
    return {"other": other, "lines": value_diff.diff_lines(old, new), "cut": cut}
