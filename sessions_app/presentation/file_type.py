"""Detect the media type of a file by its first bytes, regardless of its name. Pure."""

from __future__ import annotations

import re

BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
SVG = "image/svg+xml"
PDF = "application/pdf"

SNIFFED_BYTES = 4096
"""Bytes that are examined."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"%PDF-", PDF),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {b"avif": "image/avif", b"avis": "image/avif", b"M4A ": "audio/mp4", b"M4B ": "audio/mp4"}
_SVG = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]", re.DOTALL)


def sniff(content: bytes) -> str:
    """Return a media type that is safe to serve with `nosniff`: text is never HTML, unknown data is binary."""
    start = content[:SNIFFED_BYTES]
    mime_type = next((mime for magic, mime in _MAGIC if start.startswith(magic)), "")
    if mime_type:
        return mime_type
    if start.startswith(b"RIFF"):
        return _RIFF.get(start[8:12], BINARY)
    if start[4:8] == b"ftyp":
        return _BRANDS.get(start[8:12], "video/mp4")
    if _SVG.match(start):
        return SVG
    return TEXT if _is_text(start) else BINARY


def is_recognizable(mime: str) -> bool:
    """Tell whether files of a type can be recognized by their bytes; others of that type are mislabeled."""
    return mime in {SVG, *dict(_MAGIC).values(), *_RIFF.values(), *_BRANDS.values()}


def media_family(mime: str) -> str:
    """Return `image`, `audio` or `video` for types that a page can show, else an empty text."""
    kind = mime.partition("/")[0].lower()
    return kind if kind in {"image", "audio", "video"} else ""


def _is_text(start: bytes) -> bool:
    """Tell whether bytes are text in UTF-8; the last character may be incomplete."""
    if any(sign < 32 and sign not in b"\t\n\r\f\x1b" for sign in start):
        return False
    try:
        start.decode()
    except UnicodeDecodeError as error:
        return len(start) == SNIFFED_BYTES and error.start > SNIFFED_BYTES - 4
    return True
