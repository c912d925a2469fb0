"""Constants and rules that the store copies from ADK, compared with ADK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.adk.auth.auth_credential import _redact_credential_secrets
from google.adk.events._internal_metadata import public_event
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types
from google.genai._common import BaseModel
from hypothesis import given

from sessions_app.adk import _adk, event_mapping, event_reader
from sessions_app.store import events as wire
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event as EventRow
from sessions_app.store.models import SessionState, StateChange
from sessions_app.store.redaction import redact
from tests.sessions.build import create, event, get
from tests.sessions.full_event import ACCESS_TOKEN, INTERNAL_MARK, auth_config, full_event
from tests.sessions.strategies import credentials, events, json_values


def as_rest_sends(new_event: Event) -> Any:
    """Return an event as ADK's server answers it (`cli/api_server.py`)."""
    return _redact_credential_secrets(
        public_event(new_event).model_dump(mode="json", by_alias=True, exclude_none=True)
    )


def test_session_keeps_its_revision_mark():
    session = Session(app_name="a", user_id="u", id="s")
    assert _adk.stored_revision(session) is None
    _adk.mark_revision(session, 7)
    assert _adk.stored_revision(session) == 7


def test_a_session_of_a_list_is_as_adks_class_makes_it():
    make = _adk.session_factory("a")
    session, other = make("s", "u", {"n": 1}, 2.5, 7), make("s", "u", {"n": 1}, 2.5, 7)
    checked = Session(app_name="a", user_id="u", id="s", state={"n": 1}, events=[], last_update_time=2.5)
    assert session == other
    _adk.mark_revision(checked, 7)
    assert session == checked
    assert session.model_fields_set == checked.model_fields_set
    assert session.model_dump() == checked.model_dump()
    other.events.append(event())
    other.state["n"] = 2
    _adk.mark_revision(other, 8)
    assert session == checked
    assert session.model_copy(deep=True) == checked


def test_the_mark_of_a_foreign_store_is_no_revision():
    session = Session(app_name="a", user_id="u", id="s")
    session._storage_update_marker = "2026-01-01T00:00:00.000000"
    assert _adk.stored_revision(session) is None


@pytest.mark.parametrize(
    "function",
    [
        BaseModel._check_field_type_mismatches.__func__,
        Event._accept_convenience_kwargs.__func__,
        types.Part.__init__,
    ],
    ids=lambda function: function.__qualname__,
)
def test_function_that_reading_events_leaves_out_is_the_known_one(function):
    assert event_reader._is_known(function)


def test_events_are_read_without_these_functions(monkeypatch):
    text, expected = json.dumps(event_mapping.to_wire(full_event())), full_event()
    monkeypatch.setattr(Event, "model_validate_json", None)
    assert event_reader.read_event(text).content == expected.content


CREDENTIAL = {
    "authType": "oauth2",
    "oauth2": {"clientId": "me", "clientSecret": "s", "extra": {"token": "t"}},
}


@pytest.mark.parametrize(
    "value",
    [
        CREDENTIAL,
        {"auth_type": "API_KEY", "api_key": "k"},
        {"authType": "unknown", "apiKey": "kept"},
        {"authType": ["oauth2"], "token": "kept"},
        {"rawAuthCredential": {"oauth2": {"accessToken": "t"}}, "token": "kept"},
        {"requestedAuthConfigs": {"c1": {"credentialKey": "k", "exchangedAuthCredential": {"idToken": "t"}}}},
        {
            "name": "adk_request_credential",
            "args": {"authConfig": {"apiKey": "k"}, "other": {"apiKey": "kept"}},
        },
        {"name": "adk_request_credential", "response": {"oauth2": {"authCode": "c"}}, "id": "c1"},
        {"name": "other", "args": {"authConfig": {"apiKey": "kept"}}},
        {"list": [1, [CREDENTIAL], {"password": "kept"}]},
        "text",
        None,
    ],
)
def test_credentials_are_left_out_like_in_adk(value):
    assert redact(value) == _redact_credential_secrets(value)


@given(credentials)
def test_credentials_of_any_type_are_left_out_like_in_adk(value):
    assert redact(value) == _redact_credential_secrets(value)


@given(json_values)
def test_non_credentials_are_unchanged(value):
    assert redact(value) == value


@given(events)
def test_final_response_agrees_with_adk(new_event):
    body = new_event.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert wire.is_final_response(body) == new_event.is_final_response()


@given(events)
def test_stored_event_equals_adks_rest_response(new_event):
    assert json.loads(event_mapping.to_record(new_event).data) == as_rest_sends(new_event)


@given(events)
def test_reread_event_equals_the_original(new_event):
    record = event_mapping.to_record(new_event)
    restored = event_mapping.from_row(record.data, record.private, new_event.id, new_event.invocation_id)
    assert restored == new_event


async def test_pages_get_no_credential_and_the_agent_gets_it_back(ours):
    session = await create(ours)
    secret = {"token": auth_config().raw_auth_credential.model_dump(mode="json", by_alias=True)}
    new_event = full_event()
    new_event.actions.state_delta |= {
        "cred": secret,
        "user:cred": secret,
        "rawAuthCredential": {"apiKey": "k"},
    }
    await ours.append_event(session, new_event)

    row = await units_of_work.read(EventRow.objects.get)
    assert ACCESS_TOKEN not in row.data + row.summary
    assert INTERNAL_MARK not in row.data
    assert json.loads(row.data) == as_rest_sends(new_event)
    for value in await units_of_work.read(lambda: list(StateChange.objects.values_list("value", flat=True))):
        assert ACCESS_TOKEN not in value
        assert "apiKey" not in value
    assert not await units_of_work.read(SessionState.objects.filter(value__contains=ACCESS_TOKEN).exists)

    stored_session = await get(ours)
    assert stored_session.events[0] == new_event
    assert stored_session.events[0].custom_metadata[INTERNAL_MARK] is True
    config = stored_session.events[0].actions.requested_auth_configs["call-1"]
    assert config.raw_auth_credential.oauth2.access_token == ACCESS_TOKEN
    assert stored_session.state["user:cred"] == secret
    assert stored_session.state["rawAuthCredential"] == {"apiKey": "k"}


async def test_an_event_without_secrets_is_stored_once(ours):
    session = await create(ours)
    await ours.append_event(session, event("hello", {"a": 1}))
    assert (await units_of_work.read(EventRow.objects.get)).private is None


async def test_bytes_round_trip(ours):
    session = await create(ours)
    blob = types.Blob(data=b"\xfb\xff\xfe" * 5, mime_type="image/png")
    new_event = event(content=types.Content(role="model", parts=[types.Part(inline_data=blob)]))
    await ours.append_event(session, new_event)
    assert (await get(ours)).events[0].content.parts[0].inline_data.data == b"\xfb\xff\xfe" * 5


async def test_a_compaction_comes_back_with_its_range(ours):
    session = await create(ours)
    new_event = full_event()
    await ours.append_event(session, new_event)
    compaction = (await get(ours)).events[0].actions.compaction
    assert (compaction.start_timestamp, compaction.end_timestamp) == (1.25, 2.5)
    assert compaction == new_event.actions.compaction


async def test_every_action_comes_back(ours):
    session, new_event = await create(ours), full_event()
    await ours.append_event(session, new_event)
    [event] = (await get(ours)).events
    for name in type(new_event.actions).model_fields:
        assert getattr(new_event.actions, name) not in (None, {}), f"{name} is not tried"
        assert getattr(event.actions, name) == getattr(new_event.actions, name)
