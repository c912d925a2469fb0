"""Images in results of MCP servers, and data of agents on other servers: shown as what they are."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.test import Client

from sessions_app.store.events import summarize
from sessions_app.store.events.event_text import data_text
from sessions_app.timeline.content_parts import parse_parts
from tests.image_data import PNG
from tests.pages.client import Get
from tests.timeline.story import Story

IMAGE = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
SOUND = {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}
RESOURCE = {
    "type": "resource",
    "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": IMAGE["data"]},
}
TEXT = {"type": "text", "text": "A plot"}
LETTER = {
    "kind": "data",
    "data": {"button": {"label": "Book a table"}},
    "metadata": {"mimeType": "application/json+a2ui"},
}


def response(*blocks: Any) -> dict[str, Any]:
    return {
        "functionResponse": {"id": "c1", "name": "plot", "response": {"content": [*blocks], "isError": False}}
    }


def file(text: str, mime: str = "text/plain", **fields: str) -> dict[str, Any]:
    return {
        "inlineData": {"mimeType": mime, "data": base64.urlsafe_b64encode(text.encode()).decode(), **fields}
    }


def data_part(value: Any) -> dict[str, Any]:
    return file(f"<a2a_datapart_json>{json.dumps(value)}</a2a_datapart_json>")


def wire(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"author": "agent", "content": {"parts": [*parts]}}


def test_images_and_sounds_of_an_mcp_result_are_media_and_not_text():
    summary = summarize(wire(response(TEXT, IMAGE, SOUND, RESOURCE)))
    assert [(media["mime"], media["name"], media["size"]) for media in summary["media"]] == [
        ("image/png", "", len(PNG)),
        ("audio/wav", "", 4),
        ("image/png", "file:///a.png", len(PNG)),
    ]
    assert "A plot" in summary["results"][0]["result"]
    assert IMAGE["data"][:12] not in summary["results"][0]["result"]
    [part] = parse_parts(wire(response(IMAGE, RESOURCE))["content"])
    assert [media.mime for media in part.answers_media] == ["image/png", "image/png"]


@pytest.mark.parametrize(
    ("result", "pointer"),
    [
        ({"result": [TEXT, IMAGE]}, "/result/1"),
        ({"result": {"content": [IMAGE], "isError": False}}, "/result/content/0"),
        ({"result": IMAGE}, "/result"),
        ({"content": IMAGE}, "/content"),
        ([TEXT, TEXT, IMAGE], "/2"),
        (IMAGE, ""),
        ({"image": {"mimetype": "image/png", "data": IMAGE["data"]}, "url": "https://a.example/"}, "/image"),
    ],
)
def test_image_that_a_function_passes_on_is_served(story: Story, result: Any, pointer: str):
    part = {"functionResponse": {"id": "c1", "name": "plot", "response": result}}
    seq = story.add(part)
    summary = summarize(wire(part))
    [media] = summary["media"]
    assert media["pointer"] == f"/content/parts/0/functionResponse/response{pointer}"
    assert IMAGE["data"][:12] not in summary["results"][0]["result"]
    [media_part] = parse_parts(wire(part)["content"])[0].answers_media
    assert media_part.pointer == media["pointer"]
    answer = Client().get(f"/sessions/id/{story.pk}/events/{seq}/blob/", {"pointer": media_part.pointer})
    assert (answer.content, answer["Content-Type"]) == (PNG, "image/png")


@pytest.mark.parametrize(
    "result",
    [
        None,
        "text",
        {"content": "text"},
        {"content": [None, 3, "x", TEXT]},
        {"content": [{"type": "image"}, {"type": "image", "data": 3}, {"type": "resource", "resource": "x"}]},
        {"data": "AAAA", "mimeType": "image/png"},
        {"items": [IMAGE]},
    ],
)
def test_results_of_other_forms_have_no_media(result: Any):
    assert "media" not in summarize(wire({"functionResponse": {"name": "f", "response": result}}))


def test_image_of_an_mcp_result_is_served(story: Story):
    seq = story.add(response(TEXT, IMAGE, RESOURCE))
    for number in (1, 2):
        pointer = f"/content/parts/0/functionResponse/response/content/{number}"
        answer = Client().get(f"/sessions/id/{story.pk}/events/{seq}/blob/", {"pointer": pointer})
        assert (answer.content, answer["Content-Type"]) == (PNG, "image/png")
    pointer = "/content/parts/0/functionResponse/response/content/0"
    assert (
        Client().get(f"/sessions/id/{story.pk}/events/{seq}/blob/", {"pointer": pointer}).status_code == 404
    )


def test_data_of_a_remote_agent_is_shown_and_found(story: Story, get: Get):
    seq = story.add(data_part(LETTER))
    page = get(f"/sessions/id/{story.pk}/?seq={seq}")
    row = page.one("article", data_seq=str(seq))
    assert "Book a table" in row.one("p", css="result").text
    assert not row.all("figure")
    part = page.one("div", css="part-data")
    assert "Book a table" in part.one("div", css="json").text
    assert "Book a table" in data_text(json.dumps(wire(data_part(LETTER))))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (data_part(LETTER), LETTER),
        (data_part([1]), [1]),
        (data_part("ü"), "ü"),
        (file('[{"beginRendering": 1}]', "application/json+a2ui"), [{"beginRendering": 1}]),
    ],
)
def test_data_parts_are_read(part: dict[str, Any], value: Any):
    [read_part] = parse_parts({"parts": [part]})
    assert (read_part.type, read_part.value, read_part.extras, read_part.media) == ("data", value, {}, None)


@pytest.mark.parametrize(
    "part",
    [
        file("<a2a_datapart_json>{broken</a2a_datapart_json>"),
        file("Plain text"),
        file("{}", "application/json", displayName="data.json"),
        file("not JSON", "application/json"),
        file("[" * 100_000, "application/json"),
        {"inlineData": {"mimeType": "application/json", "data": 3}},
        {"inlineData": {"mimeType": "text/plain", "data": "PGEyYV9kYXRhcGFydF9qc29u!"}},
    ],
)
def test_other_files_stay_files(part: dict[str, Any]):
    [file_part] = parse_parts({"parts": [part]})
    assert file_part.type == "inlineData"
    assert len(summarize(wire(part))["media"]) == 1
