"""Serves inline data of events in a sandbox, with the content type sniffed from the bytes."""

from __future__ import annotations

import base64
import binascii
import json

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header

from sessions_app.forms.query import QueryForm
from sessions_app.lookup import load_event_body
from sessions_app.presentation import file_type, json_tree, raw_audio, visible_text
from sessions_app.store.errors import NotFound
from sessions_app.store.events.content import find_blob

SANDBOX = "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'"
"""Forbids scripts and forms, isolates the origin, and loads nothing from other hosts."""

RENDERED_HTML_POLICY = (
    "sandbox; default-src 'none'; img-src data:; font-src data:; media-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Shows an HTML file with its inline styles, in an opaque origin; it runs no scripts and loads nothing."""

PDF_POLICY = (
    "default-src 'none'; object-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Browsers do not start their PDF viewer in a sandbox; scripts of a PDF cannot reach a page from the viewer."""

URL_SAFE = bytes.maketrans(b"-_", b"+/")
"""Maps the URL-safe base64 alphabet, which ADK writes, to the standard one."""


class BlobQuery(QueryForm):
    """Pointer to a part of an event; defaults to the first part."""

    pointer = forms.CharField(required=False, strip=False, empty_value="/content/parts/0")


def blob(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Serve the inline data of the part at `?pointer=` (RFC 6901) of an event.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
        NotFound: there is no such part, or the part holds no inline data.
    """
    query = BlobQuery(request.GET).read()
    part = json_tree.resolve_pointer(json.loads(load_event_body(pk, seq)), query["pointer"])
    inline = find_blob(part) if isinstance(part, dict) else None
    if inline is None:
        raise NotFound(
            f"Event {seq} holds no data at {query['pointer']!r}.", hint="The event's JSON shows its parts."
        )
    content, mime = _decode_base64(inline.get("data"), seq), str(inline.get("mimeType"))
    playable = raw_audio.wrap_in_wav(content, mime) if raw_audio.is_raw_audio(mime) else content
    return _serve_content(playable, str(inline.get("displayName") or f"event-{seq}"))


def _decode_base64(data: object, seq: int) -> bytes:
    """Decode base64 in the standard or the URL-safe alphabet.

    Raises:
        NotFound: the data is not base64.
    """
    try:
        text = data.encode() if isinstance(data, str) else b""
        return base64.b64decode(text.translate(URL_SAFE) + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise NotFound(f"The data of event {seq} is not base64.", hint="See the event's JSON.") from error


def _serve_content(content: bytes, name: str) -> HttpResponse:
    mime = file_type.sniff(content)
    return HttpResponse(content, content_type=mime, headers=content_headers(mime, name))


def content_headers(mime: str, name: str, *, to_save: bool = False) -> dict[str, str]:
    """Return headers that isolate content from DevUI's origin; content of unknown type is downloaded."""
    disposition = content_disposition_header(
        to_save or mime == file_type.BINARY, visible_text.escape_name(name.rpartition("/")[2])
    )
    return {
        "Content-Security-Policy": PDF_POLICY if mime == file_type.PDF else SANDBOX,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, max-age=3600",
        **({"Content-Disposition": disposition} if disposition else {}),
    }
