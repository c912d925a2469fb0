"""Redaction of credentials in error texts."""

from __future__ import annotations

import json

import pytest
from google.genai import types

from sessions_app.adk import event_mapping
from sessions_app.store.redaction import redact_text
from tests.sessions.build import event

GOOGLE = "AIzaSyD-0123456789abcdefghijklmnopqrs"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"API key {GOOGLE} is not valid.", "API key [redacted] is not valid."),
        ("Incorrect key: sk-proj-abc123456789xyz.", "Incorrect key: [redacted]."),
        ("boom token=s3cr3t-value, then", "boom token=[redacted], then"),
        ("GET https://x.test/v1?key=abcdef123&alt=json", "GET https://x.test/v1?key=[redacted]&alt=json"),
        ("{'api_key': 'hunter2hunter'}", "{'api_key': '[redacted]'}"),
        ('{"access_token": "abcdefghi"}', '{"access_token": "[redacted]"}'),
        ('{"password": "correct horse, \\"battery\\"", "a": 1}', '{"password": "[redacted]", "a": 1}'),
        ("login(password='Tr0@b&dor (3)')", "login(password='[redacted]')"),
        ('{"Authorization": "Basic YW5uOnMzY3IzdA=="}', '{"Authorization": "[redacted]"}'),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer [redacted]"),
        ("X-Api-Key: abcdefghijkl", "X-Api-Key: [redacted]"),
        ("x-goog-api-key: abcdefghijkl", "x-goog-api-key: [redacted]"),
        ("Ocp-Apim-Subscription-Key: 0123456789ab", "Ocp-Apim-Subscription-Key: [redacted]"),
        ("X-Auth-Token:abcdefghijkl", "X-Auth-Token:[redacted]"),
        ("Set-Cookie: sid=abcdefghijkl; Path=/", "Set-Cookie: sid=[redacted]; Path=/"),
        ("OPENAI_API_KEY=abcdefgh", "OPENAI_API_KEY=[redacted]"),
        ("postgresql://ann:s3cr3t@db.test/x", "postgresql://ann:[redacted]@db.test/x"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln expired", "[redacted] expired"),
    ],
)
def test_credentials_in_text_are_redacted(text: str, redacted: str):
    assert redact_text(text) == redacted
    assert redact_text(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "Unexpected token: foo at 3",
        "missing key: user:name_of_city",
        "Cookie: none was sent",
        "max_tokens=100000",
        "token=None",
        "KeyError: 'token'",
        "a risk-assessment-of-things on disk-0123456789ab",
        "http://[::1]:8080/x@y",
        "raise ValueError(f'token={token}')",
    ],
)
def test_ordinary_text_is_left_alone(text: str):
    assert redact_text(text) == text


def test_error_event_texts_are_redacted_and_stored_separately():
    record = event_mapping.to_record(event(error_code="429", error_message=f"quota of {GOOGLE}"))
    assert json.loads(record.data)["errorMessage"] == "quota of [redacted]"
    assert GOOGLE not in record.summary
    assert record.private is not None
    assert GOOGLE in record.private, "the session service gives the agent its own event back"


def test_results_of_failed_tools_are_redacted_and_others_are_not():
    def record(body: dict[str, object]):
        response = types.FunctionResponse(id="c", name="look", response=body)
        return event_mapping.to_record(
            event(content=types.Content(role="user", parts=[types.Part(function_response=response)]))
        )

    failed = record({"isError": True, "content": [{"type": "text", "text": f"401 for {GOOGLE}"}]})
    assert GOOGLE not in failed.data + failed.summary
    assert GOOGLE in record({"found": GOOGLE}).data
