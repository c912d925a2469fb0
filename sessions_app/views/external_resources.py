"""Artifacts and memory that an external service or a remote server stores."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from sessions_app.external import resources
from sessions_app.forms.query import QueryForm, SessionIdsForm
from sessions_app.http import render_partial
from sessions_app.presentation import file_type
from sessions_app.sessions import storage_location
from sessions_app.store.errors import DevUIError
from sessions_app.store.ids import ID_BYTES
from sessions_app.views.files import content_headers

ARTIFACTS = "devui/artifacts/external.html"
MEMORY = "devui/memory/external.html"


class ExternalContentQuery(SessionIdsForm):
    """Artifact version to serve; `save=1` downloads it instead of showing it."""

    name = forms.CharField(strip=False)
    version = forms.IntegerField(min_value=0, max_value=2**63 - 1)
    save = forms.BooleanField(required=False)


class ExternalMemoryQuery(QueryForm):
    """Memory search: app, user and search text."""

    app = forms.CharField(strip=False, max_length=ID_BYTES)
    user = forms.CharField(strip=False, max_length=ID_BYTES)
    q = forms.CharField(max_length=1_000)


async def artifacts(request: HttpRequest) -> HttpResponse:
    """List a session's artifacts in its app's artifact service. The page shows the error if listing fails."""
    query = SessionIdsForm(request.GET).read()
    owner = {name: query[name] for name in ("app", "user", "session")}
    context: dict[str, Any] = {
        "query": query,
        "elsewhere": storage_location.find_artifact_owner(query["app"]),
    }
    try:
        files, count = await resources.list_artifacts(**owner)
        context |= {
            "files": [(file, _list_versions(owner, file)) for file in files],
            "more": count - len(files),
        }
    except DevUIError as error:
        context["problem"] = error
    return render_partial(request, ARTIFACTS, context, partial="there")


async def artifact_content(request: HttpRequest) -> HttpResponse:
    """Serve the content of a version in a sandbox, with the content type sniffed from the bytes.

    Raises:
        NotFound: there is no such version, or the version is a link.
        BadInput: the artifact service refuses the request.
        RuntimeUnavailable: the app's runtime or server cannot be reached.
    """
    query = ExternalContentQuery(request.GET).read()
    parameters = {name: query[name] for name in ("app", "user", "session", "name", "version")}
    content = await resources.read_content(**parameters)
    mime = file_type.sniff(content)
    headers = content_headers(mime, query["name"], to_save=query["save"])
    return HttpResponse(content, content_type=mime, headers=headers)


async def memory(request: HttpRequest) -> HttpResponse:
    """Search the app's memory service as an agent would. The page shows the error if the search fails."""
    query = ExternalMemoryQuery(request.GET).read()
    context: dict[str, Any] = {"query": query, "elsewhere": storage_location.find_memory_owner(query["app"])}
    try:
        context["recalled"] = await resources.recall(query["app"], query["user"], query["q"])
    except DevUIError as error:
        context["problem"] = error
    return render_partial(request, MEMORY, context, partial="there")


def _list_versions(
    owner: dict[str, Any], file: resources.ExternalFile
) -> list[tuple[resources.FileVersion, str]]:
    """Return the versions of a file with the URLs of their content."""
    of_file = {**owner, "name": file.name}
    return [
        (version, reverse("artifact-there-content", query={**of_file, "version": version.number}))
        for version in file.versions
    ]
