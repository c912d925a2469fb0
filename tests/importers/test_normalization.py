"""Normalization of foreign events: ADK's fields get ADK's spelling, values of agents stay unchanged."""

from __future__ import annotations

import textwrap

import pytest
from google.adk.events.event import Event

from sessions_app.adk import event_mapping
from sessions_app.store.events.records import UNKNOWN_FIELDS
from sessions_app.store.events.timestamps import is_in_milliseconds, parse_timestamp
from sessions_app.transfer.readers import event_schema
from sessions_app.transfer.readers.normalization import normalize_event, removed_keys
from tests.sessions.full_event import full_event


def test_an_event_as_adk_stores_it_becomes_the_event_as_adk_sends_it():
    stored = full_event().model_dump(mode="json", exclude_none=True)

    wire, changes = normalize_event(stored)

    wire_event = event_mapping.to_wire(full_event())
    wire_event["actions"]["stateDelta"] = stored["actions"]["state_delta"]
    assert wire == wire_event
    assert not changes


def test_an_event_in_wire_form_stays_as_it_is():
    wire_event = full_event().model_dump(mode="json", exclude_none=True, by_alias=True)

    assert normalize_event(wire_event) == (wire_event, ())


def test_names_inside_agent_data_are_unchanged():
    raw = {
        "content": {"parts": [{"function_call": {"name": "f", "args": {"some_key": {"other_key": None}}}}]},
        "custom_metadata": {"my_key": 1},
        "actions": {"state_delta": {"my_key": {"inner_key": 1}}, "agent_state": {"step_no": 1}},
        "output": {"out_key": 1},
    }

    wire, _ = normalize_event(raw)

    assert wire["content"]["parts"][0]["functionCall"]["args"] == {"some_key": {"other_key": None}}
    assert wire["customMetadata"] == {"my_key": 1}
    assert wire["actions"]["stateDelta"] == {"my_key": {"inner_key": 1}}
    assert wire["actions"]["agentState"] == {"step_no": 1}
    assert wire["output"] == {"out_key": 1}


def test_fields_that_adk_refuses_move_to_metadata():
    raw = {
        "id": "e1",
        "actions": {"deletedArtifactIds": ["x"], "state_delta": None},
        "content": {"role": "model", "parts": [{"text": "hi", "mood": "good"}, {"inline_data": "no object"}]},
        "custom_metadata": {"mine": 1},
        "a_new_field": True,
    }

    wire, changes = normalize_event(raw)

    assert wire["customMetadata"]["mine"] == 1
    assert wire["customMetadata"][UNKNOWN_FIELDS] == {
        "actions.deletedArtifactIds": ["x"],
        "content.parts[0].mood": "good",
        "content.parts[1].inline_data": "no object",
    }
    assert wire["a_new_field"] is True
    assert len(changes) == 3
    Event.model_validate(wire)


@pytest.mark.parametrize("data", ["+/8AAQ==", "-_8AAQ==", "-_8AAQ", [251, 255, 0, 1]])
def test_bytes_of_either_alphabet_and_lists_of_numbers_are_the_same_bytes(data):
    wire, _ = normalize_event(
        {"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}}
    )

    assert wire["content"]["parts"][0]["inlineData"]["data"] == "-_8AAQ=="
    assert Event.model_validate(wire).content.parts[0].inline_data.data == b"\xfb\xff\x00\x01"


def test_javas_metadata_list_is_stored_under_a_name():
    wire, _ = normalize_event({"customMetadata": [{"key": "a"}], "errorCode": 429})

    assert wire["customMetadata"] == {UNKNOWN_FIELDS: {"customMetadata": [{"key": "a"}]}}
    assert wire["errorCode"] == "429"


def test_the_sentinel_of_java_removes_a_key():
    wire, _ = normalize_event({"actions": {"stateDelta": {"a": "__ADK_SENTINEL_REMOVED__", "b": 1}}})

    assert removed_keys(wire) == {"a"}
    assert wire["actions"]["stateDelta"] == {"a": None, "b": 1}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1767225600.5, 1767225600.5),
        (1767225600500, 1767225600.5),
        (1767225600500000, 1767225600.5),
        ("1767225600.5", 1767225600.5),
        ("2026-01-01 00:00:00.500000", 1767225600.5),
        ("2026-01-01T00:00:00.5Z", 1767225600.5),
        ("2026-01-01T01:00:00.500000000+01:00", 1767225600.5),
        (0, 0.0),
    ],
)
def test_timestamps_in_all_units_and_formats_are_read(value, seconds):
    assert parse_timestamp(value) == seconds


@pytest.mark.parametrize("value", [None, True, "yesterday", float("nan"), [], "nan"])
def test_invalid_timestamp_is_refused(value):
    with pytest.raises(ValueError, match="is no time"):
        parse_timestamp(value)


def test_milliseconds_are_recognised():
    assert is_in_milliseconds(1767225600123)
    assert not is_in_milliseconds(1767225600.123)


def test_the_table_of_fields_is_that_of_the_installed_adk():
    schema = Event.model_json_schema(by_alias=True)
    models = {
        "Event": schema,
        **{name: body for name, body in schema["$defs"].items() if "properties" in body},
    }

    ours = {name: " ".join(sorted(words.split())) for name, words in event_schema.TABLE.items()}
    theirs = {
        name: " ".join(sorted(_word(field, body, models) for field, body in model["properties"].items()))
        for name, model in models.items()
    }

    assert ours == theirs, textwrap.dedent("The fields of events have changed in this ADK.")
    strict = {name for name, model in models.items() if model.get("additionalProperties") is False}
    assert models.keys() - strict == event_schema.LENIENT


def _word(field, body, models):
    kind = _kind(body, models)
    return f"{field}:{kind}" if kind else field


def _kind(body, models):
    choices = [choice for choice in body.get("anyOf", [body]) if choice.get("type") != "null"]
    if len(choices) != 1:
        return ""
    [choice] = choices
    if "$ref" in choice:
        name = choice["$ref"].rsplit("/", 1)[1]
        return name if name in models else ""
    if choice.get("type") == "array":
        inner = _kind(choice.get("items", {}), models)
        return f"[{inner}]" if inner else ""
    if isinstance(choice.get("additionalProperties"), dict):
        inner = _kind(choice["additionalProperties"], models)
        return f"{{{inner}}}" if inner else ""
    return "bytes" if choice.get("format") == "base64url" else ""
