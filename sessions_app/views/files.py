"""Bytes that agents and users made, served by address: typed by what they are, and in a sandbox."""

from __future__ import annotations

import base64
import binascii
import json

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from sessions_app.artifacts import artifact_versions
from sessions_app.errors import NotFound
from sessions_app.forms import QueryForm
from sessions_app.lookup import find_session, load_event_body
from sessions_app.models import Artifact
from sessions_app.presentation import file_type, json_tree, visible_text

SANDBOX = "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'"
"""No scripts, no forms, an origin of its own, and nothing loaded from anywhere."""

PDF_POLICY = "default-src 'none'; object-src 'self'; base-uri 'none'; form-action 'none'"
"""The browser's own viewer does not start in a sandbox; a PDF's scripts reach no page from there."""

URL_SAFE = bytes.maketrans(b"-_", b"+/")
"""ADK writes base64 with the letters that are safe in URLs."""


class BlobQuery(QueryForm):
    """Which part of an event is wanted; the default is its only one, as it is in most events."""

    pointer = forms.CharField(required=False, strip=False, empty_value="/content/parts/0")


class ArtifactQuery(QueryForm):
    """Which version of which artifact of a session is wanted, as its events name it; without a version the newest."""

    name = forms.CharField(strip=False)
    version = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)


@require_safe
def blob(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Serve the inline data of the part at `?pointer=` (RFC 6901) of an event.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
        NotFound: there is no such part, or it holds no inline data.
    """
    query = BlobQuery(request.GET).read()
    part = json_tree.resolve_pointer(json.loads(load_event_body(pk, seq)), query["pointer"])
    inline = part.get("inlineData") if isinstance(part, dict) else None
    if not isinstance(inline, dict):
        raise NotFound(
            f"Event {seq} holds no data at {query['pointer']!r}.", hint="Its parts are in its JSON."
        )
    return _serve(_decode_base64(inline.get("data"), seq), str(inline.get("displayName") or f"event-{seq}"))


@require_safe
def artifact(request: HttpRequest, pk: int) -> HttpResponse:
    """Serve a version of an artifact that a session saved, or that its user has in every session.

    Raises:
        SessionMissing: no such session.
        NotFound: there is no such version, or it only links elsewhere.
        ContentMissing: its file beside the store is gone.
    """
    query = ArtifactQuery(request.GET).read()
    name, version = query["name"], query["version"]
    session = find_session(pk)
    key = artifact_versions.file_key(
        session.realm, session.app_name, session.user_id, session.session_id, name
    )
    version_and_content = artifact_versions.load_version(key, version)
    if version_and_content is None:
        which = f"{name!r}" if version is None else f"{name!r} in version {version}"
        raise NotFound(
            f"Session {session.session_id!r} has no artifact {which} in this store.",
            hint="It may have been deleted, or be kept by another artifact service.",
        )
    row, content = version_and_content
    if row.holding == Artifact.Holding.LINK:
        raise NotFound(f"The artifact {name!r} is a link: its content lies elsewhere.", hint=row.part[:400])
    return _serve(content, row.filename)


def _decode_base64(data: object, seq: int) -> bytes:
    """Return what base64 text stands for, in either of its alphabets.

    Raises:
        NotFound: it is no base64.
    """
    try:
        text = data.encode() if isinstance(data, str) else b""
        return base64.b64decode(text.translate(URL_SAFE) + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise NotFound(
            f"The data of event {seq} is not base64.", hint="Its JSON shows what it is."
        ) from error


def _serve(content: bytes, name: str) -> HttpResponse:
    mime = file_type.sniff(content)
    return HttpResponse(content, content_type=mime, headers=content_headers(mime, name))


def content_headers(mime: str, name: str, *, to_save: bool = False) -> dict[str, str]:
    """Return the headers by which bytes of a type can do nothing in our origin; those of no known type are saved."""
    disposition = content_disposition_header(
        to_save or mime == file_type.BINARY, visible_text.escape_name(name.rpartition("/")[2])
    )
    return {
        "Content-Security-Policy": PDF_POLICY if mime == file_type.PDF else SANDBOX,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, max-age=3600",
        **({"Content-Disposition": disposition} if disposition else {}),
    }
