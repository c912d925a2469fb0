"""Bytes of events and artifacts, served with a detected type and a sandbox."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.test import Client

from sessions_app.console.message_draft import detect_type
from sessions_app.presentation import file_type
from sessions_app.presentation.file_preview import make_preview
from sessions_app.presentation.file_type import BINARY, PDF, SVG, TEXT, is_text
from tests.image_data import EVIL_SVG, PNG
from tests.timeline.story import Story


@pytest.mark.parametrize(
    ("content", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"RIFF\x24\x00\x00\x00????", BINARY),
        (b"RIFF1234WAVE means", TEXT),
        (b"\x00\x00\x00 ftypisom", "video/mp4"),
        (b"\x00\x00\x00 ftypavif", "image/avif"),
        (b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic", "image/heic"),
        (b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1heic", "image/heic"),
        (b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00miafavif", "image/avif"),
        (b"\x00\x00\x00\x14ftypmif1\x00\x00\x00\x00mif1heic", "image/heif"),
        (b"\x00\x00\x00\x14ftypqt  \x00\x00\x02\x00qt  ", "video/quicktime"),
        (b"\x1aE\xdf\xa3\x01\x00\x00\x00\x00\x00\x00\x1fB\x82\x88matroska", "video/x-matroska"),
        (b"\x1aE\xdf\xa3\x01\x00\x00\x00\x00\x00\x00\x1fB\x82\x84webm", "video/webm"),
        (b"BM\x46\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00", "image/bmp"),
        (b"BMI,weight\n22,70\n", TEXT),
        ("BMI;Größe".encode("latin-1"), BINARY),
        (b"ID3,name\n1,Ann\n", TEXT),
        (b"ID3\x04\x00\x00\x00\x00\x00\x00", "audio/mpeg"),
        (b"GIF89a is a format.", TEXT),
        (b"%PDF-1.7", PDF),
        (b"<?xml version='1.0'?>\n<!-- x --><svg>", SVG),
        (b"<!doctype html><script>alert(1)</script>", TEXT),
        (b"\x00\x01\x02", BINARY),
        ("é".encode() * 5000, TEXT),
        (b"a" + "é".encode() * 5000, TEXT),
        (b"\xff\xfe\xfd", BINARY),
        (b"", TEXT),
    ],
)
def test_type_is_detected_from_bytes_only(content: bytes, mime: str) -> None:
    assert file_type.sniff(content) == mime


MP4 = b"\x00\x00\x00\x18ftypisom\x00\x00\x00\x00isommp42"
HEIC = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"


@pytest.mark.parametrize(
    ("content", "claimed", "mime"),
    [
        (b"BMI,weight\n22,70\n", "text/csv", "text/csv"),
        (b"ID3,name\n", "text/csv; charset=utf-8", "text/csv"),
        ("BMI;Größe".encode("latin-1"), "text/csv", "text/csv"),
        (b"%PDF- is how a PDF begins", "text/markdown", "text/markdown"),
        (b"<svg></svg>", "text/plain", "text/plain"),
        (b"{}", "application/geo+json", "application/geo+json"),
        (b"# x", "Text/Markdown; charset=UTF-8", "text/markdown"),
        (b"#!/bin/sh\n", "application/x-sh", "application/x-sh"),
        (b"<?php", "application/x-httpd-php", "application/x-httpd-php"),
        (b"From: a\n\nhello", "message/rfc822", "message/rfc822"),
        (b"1\n00:01", "application/x-subrip", "application/x-subrip"),
        (b"-----BEGIN", "application/x-x509-ca-cert", "application/x-x509-ca-cert"),
        (b"{}", "model/gltf+json", "model/gltf+json"),
        (b"a,b\n1,2\n", "application/vnd.ms-excel", "text/plain"),
        (b"plain", "application/zip", "text/plain"),
        (b"plain", "application/pdf", "text/plain"),
        (b"const a = 1", "video/mp2t", "text/plain"),
        (b"a,b", "", "text/plain"),
        (b"plain", "image/png", "text/plain"),
        (b"\x00\x01", "image/png", BINARY),
        (b"\x00\x01", "application/zip", "application/zip"),
        (b"\x00\x00\x00\x08wide", "video/quicktime", "video/quicktime"),
        (b"\xff\xf2\x00", "audio/mpeg", "audio/mpeg"),
        (MP4, "audio/mp4", "audio/mp4"),
        (MP4, "video/quicktime", "video/quicktime"),
        (MP4, "", "video/mp4"),
        (b"OggS\x00\x02", "video/ogg", "video/ogg"),
        (HEIC, "", "image/heic"),
        (HEIC, "image/heif", "image/heif"),
        (HEIC, "image/jpeg", "image/heic"),
        (PNG, "text/plain", "image/png"),
    ],
)
def test_declared_type_holds_unless_the_bytes_are_of_another(content: bytes, claimed: str, mime: str) -> None:
    assert detect_type(content, claimed) == mime


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_text_of_windows_is_previewed(encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    content = f"{mark}id,name\n1,Jürgen\n".encode(encoding)
    preview = make_preview(content, len(content), "a.csv", "text/csv")
    assert preview.table is not None
    assert (preview.table.head, preview.table.rows) == (["id", "name"], [["1", "Jürgen"]])
    assert is_text((mark + "x" * 9_999).encode(encoding))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00\x00", b"\xff\xfe\x00\xd8a\x00b\x00", b"\xfe\xff\x00\x01"])
def test_bytes_that_only_begin_like_a_text_are_no_text(content: bytes) -> None:
    assert not is_text(content)


def test_byte_order_mark_is_no_part_of_the_first_column() -> None:
    preview = make_preview(b"\xef\xbb\xbfid,name\n1,Ann\n", 20, "a.csv", "text/csv")
    assert preview.table is not None
    assert preview.table.head == ["id", "name"]


def inline(content: bytes, **fields: Any) -> dict[str, Any]:
    data = base64.urlsafe_b64encode(content).decode().rstrip("=")
    return {"inlineData": {"data": data, "mimeType": "text/html", **fields}}


def get(story: Story, seq: int, **query: str) -> Any:
    return Client().get(f"/sessions/id/{story.pk}/events/{seq}/blob/", query)


def test_inline_data_is_served_by_detected_type(story: Story) -> None:
    seq = story.add({"text": "see"}, inline(PNG, displayName="über/plot.png"))
    response = get(story, seq, pointer="/content/parts/1")
    assert response.content == PNG
    assert response["Content-Type"] == "image/png"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response["Content-Security-Policy"]
    assert response["Content-Disposition"] == 'inline; filename="plot.png"'


@pytest.mark.parametrize(
    ("content", "mime"),
    [(EVIL_SVG, SVG), (b"<html><script>alert(1)</script>", TEXT), (b"\x00\xff", BINARY)],
)
def test_active_content_is_sandboxed(story: Story, content: bytes, mime: str) -> None:
    response = get(story, story.add(inline(content)))
    assert response["Content-Type"] == mime
    assert response["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert ("attachment" in response.get("Content-Disposition", "")) is (mime == BINARY)


@pytest.mark.parametrize("pointer", ["/content/parts/0", "/content/parts/7", "/nowhere", "/author"])
def test_missing_data_is_reported(story: Story, pointer: str) -> None:
    seq = story.says("no data here")
    response = get(story, seq, pointer=pointer)
    assert response.status_code == 404


def test_data_that_is_no_base64_is_refused_in_words(story: Story) -> None:
    seq = story.add({"inlineData": {"data": "%%%", "mimeType": "image/png"}})
    response = get(story, seq)
    assert response.status_code == 404
    assert b"is not base64" in response.content


def test_a_name_of_any_characters_names_the_file(story: Story) -> None:
    response = get(story, story.add(inline(PNG, displayName='a"\r\nX: 1')))
    assert response["Content-Disposition"] == 'inline; filename="a\\"\\\\r\\\\nX: 1"'


def test_deleted_event_has_no_data(story: Story) -> None:
    assert get(story, 9).status_code == 404
