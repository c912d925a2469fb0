"""The content of a version, by its key: as bytes, and as a piece of JSON."""

from __future__ import annotations

import json

from django import forms
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from sessions_app import realms
from sessions_app.artifacts import artifact_versions
from sessions_app.errors import NotFound
from sessions_app.forms import QueryForm
from sessions_app.http import download
from sessions_app.models import Artifact
from sessions_app.presentation import file_type
from sessions_app.presentation.file_preview import PREVIEW_BYTES
from sessions_app.views.artifacts.file_address import artifact_missing
from sessions_app.views.event import json_response
from sessions_app.views.files import content_headers


class ContentQuery(QueryForm):
    """`save=1`: the browser saves the content instead of showing it."""

    save = forms.BooleanField(required=False)


@require_safe
def content(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Serve the content of a version, typed by what it is and in a sandbox.

    Raises:
        NotFound: there is no such version, or it only links elsewhere.
        ContentMissing: its file beside the store is gone.
    """
    found = _find_version(pk)
    opened = artifact_versions.open_content(found)
    mime = file_type.sniff(opened.read(file_type.SNIFFED_BYTES))
    opened.seek(0)
    answer = download(opened, "file", mime)
    del answer.headers["Content-Disposition"]
    saved = ContentQuery(request.GET).read()["save"]
    for name, value in content_headers(mime, found.filename, to_save=saved).items():
        answer.headers[name] = value
    answer.headers["Content-Length"] = str(found.size)
    return answer


@require_safe
def content_json(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer a version that is JSON; with a pointer a piece of it.

    Raises:
        NotFound: there is no such version, it is no JSON, or there is nothing at the pointer.
    """
    found = _find_version(pk)
    text = b"" if found.size > PREVIEW_BYTES else artifact_versions.read_content(found)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotFound(f"The artifact {found.filename!r} is no JSON.", hint="Download it.") from error
    return json_response(request, text.decode())


def _find_version(pk: int) -> Artifact:
    found = Artifact.objects.filter(pk=pk).first()
    if found is None or found.realm.startswith(realms.HIDDEN):
        raise artifact_missing(str(pk))
    if found.holding == Artifact.Holding.LINK:
        raise NotFound(f"The artifact {found.filename!r} is a link: its content lies elsewhere.")
    return found
