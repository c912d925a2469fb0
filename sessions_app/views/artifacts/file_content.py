"""Content of an artifact version by primary key: as bytes, and as a piece of JSON."""

from __future__ import annotations

import io
import json

from django import forms
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from sessions_app.forms.query import QueryForm
from sessions_app.http import download
from sessions_app.presentation import file_type, raw_audio
from sessions_app.presentation.file_preview import PREVIEW_BYTES
from sessions_app.store import realms
from sessions_app.store.artifacts import artifact_versions
from sessions_app.store.errors import NotFound
from sessions_app.store.models import Artifact
from sessions_app.views.event import json_response
from sessions_app.views.files import RENDERED_HTML_POLICY, content_headers

MAX_PLAYED_BYTES = 64_000_000
"""Longest raw audio that is served as a file that players read: half an hour. Longer audio is downloaded as it is."""


class ContentQuery(QueryForm):
    """Options of the content: `save=1` downloads it, `rendered=1` renders a text as HTML."""

    save = forms.BooleanField(required=False)
    rendered = forms.BooleanField(required=False)


def content(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Serve the content of a version in a sandbox, with the content type sniffed from the bytes.

    Raises:
        NotFound: there is no such version, or the version is a link.
        ContentMissing: the file that holds the content is gone.
    """
    artifact = _find_version(pk)
    query = ContentQuery(request.GET).read()
    stream = artifact_versions.open_content(artifact)
    size = artifact.size
    declared = artifact.mime_type or ""
    if raw_audio.is_raw_audio(declared) and size <= MAX_PLAYED_BYTES and not query["save"]:
        playable = raw_audio.wrap_in_wav(stream.read(), declared)
        stream, size = io.BytesIO(playable), len(playable)
    mime = file_type.sniff(stream.read(file_type.SNIFFED_BYTES))
    stream.seek(0)
    response = download(stream, "file", mime)
    del response.headers["Content-Disposition"]
    for name, value in content_headers(mime, artifact.filename, to_save=query["save"]).items():
        response.headers[name] = value
    if query["rendered"] and mime == file_type.TEXT:
        response.headers["Content-Type"] = "text/html; charset=utf-8"
        response.headers["Content-Security-Policy"] = RENDERED_HTML_POLICY
        response.headers["X-DNS-Prefetch-Control"] = "off"
    response.headers["Content-Length"] = str(size)
    return response


def content_json(request: HttpRequest, pk: int) -> HttpResponse:
    """Return a version that holds JSON; with a pointer, a piece of it.

    Raises:
        NotFound: there is no such version, the content is not JSON, or there is nothing at the pointer.
    """
    artifact = _find_version(pk)
    text = b"" if artifact.size > PREVIEW_BYTES else artifact_versions.read_content(artifact)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotFound(f"The artifact {artifact.filename!r} is not JSON.", hint="Download it.") from error
    return json_response(request, text.decode())


def _find_version(pk: int) -> Artifact:
    artifact = Artifact.objects.filter(pk=pk).first()
    if artifact is None or artifact.realm.startswith(realms.HIDDEN):
        raise artifact_versions.artifact_missing(str(pk))
    if artifact.holding == Artifact.Holding.LINK:
        raise NotFound(f"The artifact {artifact.filename!r} is a link: its content is stored elsewhere.")
    return artifact
