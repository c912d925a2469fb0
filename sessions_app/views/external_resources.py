"""What other services and remote servers keep: the artifacts of a session, their content, and what memory recalls."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from sessions_app.errors import DevUIError
from sessions_app.external import resources
from sessions_app.forms import QueryForm
from sessions_app.http import render_partial
from sessions_app.ids import ID_BYTES
from sessions_app.presentation import file_type
from sessions_app.sessions import storage_location
from sessions_app.views.files import content_headers

ARTIFACTS = "devui/artifacts/external.html"
MEMORY = "devui/memory/external.html"


class ExternalArtifactsQuery(QueryForm):
    """Whose artifacts are meant."""

    app = forms.CharField(strip=False, max_length=ID_BYTES)
    user = forms.CharField(strip=False, max_length=ID_BYTES)
    session = forms.CharField(strip=False, max_length=ID_BYTES)


class ExternalContentQuery(ExternalArtifactsQuery):
    """Which version of which artifact is meant; `save=1`: it is saved instead of shown."""

    name = forms.CharField(strip=False)
    version = forms.IntegerField(min_value=0, max_value=2**63 - 1)
    save = forms.BooleanField(required=False)


class ExternalMemoryQuery(QueryForm):
    """What is asked of whose memory."""

    app = forms.CharField(strip=False, max_length=ID_BYTES)
    user = forms.CharField(strip=False, max_length=ID_BYTES)
    q = forms.CharField(max_length=1_000)


@require_safe
async def artifacts(request: HttpRequest) -> HttpResponse:
    """List the artifacts of a session where its app keeps them. That they cannot be listed is said on the page."""
    query = ExternalArtifactsQuery(request.GET).read()
    owner = {name: query[name] for name in ("app", "user", "session")}
    context: dict[str, Any] = {
        "query": query,
        "elsewhere": storage_location.artifacts_elsewhere(query["app"]),
    }
    try:
        files, count = await resources.artifacts(**owner)
        context |= {"files": [(file, _versions(owner, file)) for file in files], "more": count - len(files)}
    except DevUIError as error:
        context["problem"] = error
    return render_partial(request, ARTIFACTS, context, partial="there")


@require_safe
async def artifact_content(request: HttpRequest) -> HttpResponse:
    """Serve the content of a version, typed by what it is and in a sandbox.

    Raises:
        NotFound: there is no such version, or it only links elsewhere.
        BadInput: its service refuses.
        RuntimeUnavailable: what runs the app cannot be asked.
    """
    query = ExternalContentQuery(request.GET).read()
    parameters = {name: query[name] for name in ("app", "user", "session", "name", "version")}
    content = await resources.content(**parameters)
    mime = file_type.sniff(content)
    headers = content_headers(mime, query["name"], to_save=query["save"])
    return HttpResponse(content, content_type=mime, headers=headers)


@require_safe
async def memory(request: HttpRequest) -> HttpResponse:
    """Show what an agent would recall where its app keeps memory. That it cannot be asked is said on the page."""
    query = ExternalMemoryQuery(request.GET).read()
    context: dict[str, Any] = {"query": query, "elsewhere": storage_location.memory_elsewhere(query["app"])}
    try:
        context["recalled"] = await resources.recall(query["app"], query["user"], query["q"])
    except DevUIError as error:
        context["problem"] = error
    return render_partial(request, MEMORY, context, partial="there")


def _versions(owner: dict[str, Any], file: resources.File) -> list[tuple[resources.Version, str]]:
    """Return the versions of a file, each with the address of its content."""
    of_file = {**owner, "name": file.name}
    content = reverse("artifact-there-content")
    return [
        (version, f"{content}?{urlencode({**of_file, 'version': version.number})}")
        for version in file.versions
    ]
