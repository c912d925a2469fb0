"""Edits of a person at a pause: what was not changed stays what it was, with its credentials."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from devui.runtime.pause_edits import change_request, restore_unchanged
from sessions_app.runs.pauses import Decision
from sessions_app.store.redaction import redact


def test_unchanged_content_stays_the_object_that_it_is():
    image = types.Content(role="user", parts=[types.Part.from_bytes(data=b"png", mime_type="image/png")])
    request = LlmRequest(contents=[image, types.Content(role="user", parts=[types.Part(text="hi")])])
    shown: list[Any] = [{"parts": [{"inlineData": {"data": "[cut]"}}]}, {"parts": [{"text": "hi"}]}]
    contents = [{"role": "user", "parts": [{"text": "first"}]}, shown[0]]
    change_request(request, shown, Decision("continue", contents=contents))
    assert [content.parts[0].text for content in request.contents if content.parts] == ["first", None]
    assert request.contents[1] is image


def test_credentials_that_were_not_changed_reach_the_tool():
    original = {"auth": {"token": "s3cret", "city": "Oslo"}, "list": [{"password": "p"}, 1]}
    shown = {"auth": {"token": "[redacted]", "city": "Oslo"}, "list": [{"password": "[redacted]"}, 1]}
    edited = {"auth": {"token": "[redacted]", "city": "Rome"}, "list": [1, {"password": "[redacted]"}, 2]}
    assert restore_unchanged(edited, shown, original) == {
        "auth": {"token": "s3cret", "city": "Rome"},
        "list": [1, {"password": "p"}, 2],
    }


def test_credentials_of_equal_items_are_not_swapped():
    original = [{"auth_type": "http", "token": token} for token in "ab"]
    shown = redact(original)
    assert restore_unchanged(shown, shown, original) == original
    assert restore_unchanged(["first", *shown], shown, original) == ["first", *original]
    z, *items = [{"city": "Oslo"}, *shown]
    assert restore_unchanged(items, [z, *shown], [z, *original]) == original
    assert restore_unchanged([*shown, 1, shown[0]], [*shown, 0], [*original, 0]) == [
        *original,
        1,
        original[1],
    ]


def test_equal_contents_stay_the_objects_that_they_are():
    images = [types.Part.from_bytes(data=data, mime_type="image/png") for data in (b"a", b"b")]
    contents = [types.Content(role="user", parts=[image]) for image in images]
    request = LlmRequest(contents=[*contents, types.Content(role="user", parts=[types.Part(text="hi")])])
    cut: dict[str, Any] = {"parts": [{"inlineData": {"data": "[cut]"}}]}
    asked = {"role": "user", "parts": [{"text": "bye"}]}
    change_request(
        request, [cut, cut, {"parts": [{"text": "hi"}]}], Decision("continue", contents=[cut, cut, asked])
    )
    assert request.contents[:2] == contents


@pytest.mark.parametrize(
    ("edited", "sent"),
    [
        ({"auth_type": "http", "city": "Rome"}, {"auth_type": "http", "city": "Rome", "token": "s3cret"}),
        (
            {"auth_type": "http", "city": "Rome", "token": "x"},
            {"auth_type": "http", "city": "Rome", "token": "x"},
        ),
        ({"city": "Rome"}, {"city": "Rome", "token": "s3cret"}),
        ({}, {}),
    ],
)
def test_credentials_that_are_not_shown_stay_unless_their_object_is_emptied(edited, sent):
    original = {"auth_type": "http", "city": "Oslo", "token": "s3cret"}
    assert restore_unchanged(edited, redact(original), original) == sent
    assert restore_unchanged([edited, 1], [redact(original)], [original]) == [sent, 1]
