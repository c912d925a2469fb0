"""Details and actions of an event, as the inspector lists them. No store."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from pydantic.alias_generators import to_camel

from sessions_app.timeline import event_details
from sessions_app.timeline.event_actions import describe_actions, parse_compaction, rewound_invocation
from sessions_app.timeline.event_details import parse_details
from tests.sessions.full_event import full_event

FULL: dict[str, Any] = full_event().model_dump(exclude_none=True, by_alias=True, mode="json")


def test_every_field_of_adks_event_has_a_place():
    field_names = {to_camel(name) for name in Event.model_fields}
    shown_names = (
        event_details.SHOWN_SEPARATELY
        | event_details.SPECIAL
        | set(event_details.LABELS)
        | set(event_details.TREES)
    )
    assert field_names <= shown_names, field_names - shown_names


def test_nothing_of_a_full_event_is_called_unknown_or_left_out():
    details = parse_details(FULL)
    assert all(tree.is_known for tree in details.trees)
    words = dict(details.facts)
    assert words["model"] == "scripted-1"
    assert words["finish reason"] == "STOP"
    assert words["interrupted"] == "yes"
    assert words["long-running calls"] == "call-1, call-2"
    assert (words["node"], words["output for"], words["message is output"]) == ("wf@1/agent@2", "wf@1", "yes")
    assert {tree.pointer for tree in details.trees} == {f"/{name}" for name in event_details.TREES}
    assert [(transcription.text, transcription.is_finished) for transcription in details.transcriptions] == [
        ("in", True),
        ("out", False),
    ]


def test_unknown_fields_are_kept_and_marked():
    [tree] = parse_details({"fieldOf/tomorrow": {"x": 1}}).trees
    assert (tree.title, tree.value, tree.pointer, tree.is_known) == (
        "fieldOf/tomorrow",
        {"x": 1},
        "/fieldOf~1tomorrow",
        False,
    )


def test_value_too_long_for_a_line_opens_as_json():
    details = parse_details({"modelVersion": "m" * 1000, "partial": False})
    assert details.facts == [("partial", "no")]
    assert [(tree.title, tree.is_known) for tree in details.trees] == [("model", True)]


@pytest.mark.parametrize("name", sorted(event_details.SPECIAL))
@pytest.mark.parametrize("value", ["x", 3, [1], [{"a": None}], {"webSearchQueries": "x", "citations": 3}])
def test_a_field_of_another_shape_is_shown_as_it_came(name: str, value: object):
    details = parse_details({name: value})
    if not isinstance(value, dict):
        assert [tree.value for tree in details.trees] == [value]


def test_event_without_metadata_has_no_details():
    assert parse_details({"content": {}, "nodeInfo": {"path": ""}, "actions": {}}).is_empty
    assert not parse_details({"finishReason": "STOP"}).is_empty


def test_metadata_of_the_model_call_is_shown_as_json():
    body = {
        "usageMetadata": {"promptTokenCount": 9},
        "cacheMetadata": {"cache_name": "c"},
        "avgLogprobs": -0.5,
    }
    details = parse_details(body)
    assert [(tree.title, tree.value) for tree in details.trees] == [
        ("Token usage", {"promptTokenCount": 9}),
        ("Context cache", {"cache_name": "c"}),
    ]
    assert details.facts == [("average log probability", "-0.5")]


def test_every_field_of_adks_actions_has_a_label():
    actions = describe_actions(FULL["actions"])
    separate = {"stateDelta", "artifactDelta", "compaction"}
    assert {action.name for action in actions} == {
        to_camel(name) for name in EventActions.model_fields
    } - separate
    assert all(action.is_known for action in actions)
    descriptions = {action.name: action.description for action in actions}
    assert descriptions["transferToAgent"] == "transfer to: other"
    assert descriptions["transferReason"] == "reason of the transfer: knows more"
    assert descriptions["requestedToolConfirmations"] == "confirmation requested"


def test_objects_and_lists_are_shown_as_json():
    values = {action.name: action.value for action in describe_actions(FULL["actions"])}
    assert values["agentState"] == {"step": 2, "nothing": None}
    assert values["setModelResponse"] == {"structured": [1]}
    assert values["escalate"] is values["rewindBeforeInvocationId"] is None


def test_unknown_action_is_kept():
    [action] = describe_actions({"beam/up": [1], "stateDelta": {"a": 1}, "escalate": None})
    assert (action.description, action.value, action.pointer, action.is_known) == (
        "beam/up",
        [1],
        "/actions/beam~1up",
        False,
    )


def test_false_action_is_shown_as_no():
    assert [action.description for action in describe_actions({"escalate": False})] == ["escalate: no"]


def test_a_compaction_has_a_span_and_parts():
    compaction = parse_compaction(FULL["actions"])
    assert (compaction.start, compaction.end) == (1.25, 2.5)
    assert compaction.parts[0].pointer == "/actions/compaction/compactedContent/parts/0"
    assert parse_compaction({"compaction": "x"}) is None


def test_a_rewind_names_an_invocation():
    assert rewound_invocation(FULL["actions"]) == "i-0"
    assert rewound_invocation({"rewindBeforeInvocationId": 3}) == ""
