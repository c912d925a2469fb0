"""Detect the media type of a file by its first bytes, regardless of its name. Pure."""

from __future__ import annotations

import codecs
import re

from sessions_app.store.text_input import decode_start

BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
SVG = "image/svg+xml"
PDF = "application/pdf"

_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""Byte order marks of texts in other encodings than UTF-8; that of UTF-32 in little endian begins as the first."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SPACES = "\t\n\r\f\x1b"
"""Control characters in texts."""

SNIFFED_BYTES = 4096
"""Bytes that are examined."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3\x02", "audio/mpeg"),
    (b"ID3\x03", "audio/mpeg"),
    (b"ID3\x04", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
)
_BMP = re.compile(rb"BM.{4}\0{4}.{4}[\x0c(48@l|]\0{3}", re.DOTALL)
"""The file header of a bitmap, with zeros in its reserved fields, and the size of the header that follows."""
_EBML = b"\x1aE\xdf\xa3"
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1", b"heif"), "image/heif"),
    **dict.fromkeys((b"M4A ", b"M4B "), "audio/mp4"),
    b"qt  ": "video/quicktime",
}
_CONTAINERS = (
    {"audio/mp4", "audio/x-m4a", "video/mp4", "video/x-m4v", "video/quicktime", "video/3gpp", "audio/3gpp"},
    {"image/heic", "image/heif", "image/heic-sequence", "image/heif-sequence"},
    {"audio/ogg", "video/ogg", "application/ogg", "audio/opus"},
    {"audio/webm", "video/webm", "audio/x-matroska", "video/x-matroska"},
    {"audio/mpeg", "audio/mp3", "audio/x-mp3"},
    {"audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"},
    {"audio/aac", "audio/x-aac", "audio/aacp"},
    {"image/bmp", "image/x-ms-bmp"},
)
"""Types of files that begin alike; which of them a file has is declared."""

_NOT_SHOWN = {"image/heic", "image/heif", "video/x-matroska"}
"""Types that most browsers cannot show."""

_IMAGE_SUFFIXES = {"png", "jpg", "jpeg", "gif", "webp", "avif", "bmp", "svg"}

_SVG = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]", re.DOTALL)


def sniff(content: bytes) -> str:
    """Return a media type that is safe to serve with `nosniff`: text is never HTML, unknown data is binary."""
    start = content[:SNIFFED_BYTES]
    if is_text(start) and not start.startswith(b"%PDF-"):
        return SVG if _SVG.match(start) else TEXT
    if start.startswith(b"RIFF"):
        return _RIFF.get(start[8:12], BINARY)
    if start.startswith(_EBML):
        return "video/x-matroska" if b"matroska" in start[:64] else "video/webm"
    if start[4:8] == b"ftyp":
        return _find_type_by_brand(start)
    if _BMP.match(start):
        return "image/bmp"
    return next((mime for magic, mime in _MAGIC if start.startswith(magic)), BINARY)


def _find_type_by_brand(start: bytes) -> str:
    """Return the type of an ISO media file by its brand, or by the compatible ones if that is any still image's."""
    size = int.from_bytes(start[:4])
    brands = [start[8:12], *(start[offset : offset + 4] for offset in range(16, min(size, 64), 4))]
    types = [_BRANDS.get(brand, "") for brand in brands]
    if types[0] == "image/heif":
        return next((mime for mime in types if mime in {"image/avif", "image/heic"}), "image/heif")
    return types[0] or "video/mp4"


def have_same_container(mime: str, other: str) -> bool:
    """Tell whether files of two types begin alike, so that their bytes do not tell them apart."""
    return any(mime in types and other in types for types in _CONTAINERS)


def is_recognizable(mime: str) -> bool:
    """Tell whether all files of a type can be recognized by their bytes; others of that type are mislabeled."""
    types = {"image/bmp", *dict(_MAGIC).values(), *_RIFF.values(), *_BRANDS.values()}
    return mime in {SVG, PDF} or (mime.startswith("image/") and mime in types)


def media_family(mime: str) -> str:
    """Return `image`, `audio` or `video` for types that a page can show, else an empty text."""
    mime = mime.partition(";")[0].strip().lower()
    kind = mime.partition("/")[0]
    return kind if kind in {"image", "audio", "video"} and mime not in _NOT_SHOWN else ""


def is_text(content: bytes) -> bool:
    """Tell whether bytes are text, by the first ones; the last character may be incomplete.

    Text is in UTF-8, or in UTF-16 or UTF-32 with a byte order mark, as Windows writes it.
    """
    start = content[:SNIFFED_BYTES]
    if start.startswith(_WIDE_MARKS):
        text = decode_start(start)
        if len(start) == SNIFFED_BYTES:
            text = text.removesuffix(_REPLACEMENT)
        is_broken = _REPLACEMENT in text or any(ord(sign) < 32 and sign not in _SPACES for sign in text)
        return bool(text) and not is_broken
    if any(sign < 32 and sign not in _SPACES.encode() for sign in start):
        return False
    try:
        start.decode()
    except UnicodeDecodeError as error:
        return len(start) == SNIFFED_BYTES and error.start > SNIFFED_BYTES - 4
    return True


def is_image_name(name: str) -> bool:
    """Tell whether a file name has the extension of an image format that browsers show."""
    return name.rpartition(".")[2].lower() in _IMAGE_SUFFIXES
