"""What an event says of itself, and what it does, in words. No store."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from pydantic.alias_generators import to_camel

from sessions_app.timeline import event_details
from sessions_app.timeline.event_actions import actions_of, compaction_of, rewound_invocation
from sessions_app.timeline.event_details import details_of
from tests.sessions.full_event import full_event

FULL: dict[str, Any] = full_event().model_dump(exclude_none=True, by_alias=True, mode="json")


def test_every_field_of_adks_event_has_a_place():
    named = {to_camel(name) for name in Event.model_fields}
    known = (
        event_details.SHOWN_SEPARATELY
        | event_details.SPECIAL
        | set(event_details.LABELS)
        | set(event_details.TREES)
    )
    assert named <= known, named - known


def test_nothing_of_a_full_event_is_called_unknown_or_left_out():
    details = details_of(FULL)
    assert all(tree.is_known for tree in details.trees)
    words = dict(details.facts)
    assert words["model"] == "scripted-1"
    assert words["finish reason"] == "STOP"
    assert words["interrupted"] == "yes"
    assert words["long-running calls"] == "call-1, call-2"
    assert (words["node"], words["output for"], words["message is output"]) == ("wf@1/agent@2", "wf@1", "yes")
    assert {tree.pointer for tree in details.trees} == {f"/{name}" for name in event_details.TREES}
    assert details.grounding.queries == [("web", "weather")]
    assert [source.url for source, _ in details.citations] == ["https://example.org"]
    assert [(heard.text, heard.is_finished) for heard in details.transcriptions] == [
        ("in", True),
        ("out", False),
    ]


def test_unknown_fields_are_kept_and_marked():
    [tree] = details_of({"fieldOf/tomorrow": {"x": 1}}).trees
    assert (tree.title, tree.value, tree.pointer, tree.is_known) == (
        "fieldOf/tomorrow",
        {"x": 1},
        "/fieldOf~1tomorrow",
        False,
    )


def test_value_too_long_for_a_line_opens_as_json():
    details = details_of({"modelVersion": "m" * 1000, "partial": False})
    assert details.facts == [("partial", "no")]
    assert [(tree.title, tree.is_known) for tree in details.trees] == [("model", True)]


@pytest.mark.parametrize("name", sorted(event_details.SPECIAL))
@pytest.mark.parametrize("value", ["x", 3, [1], [{"a": None}], {"webSearchQueries": "x", "citations": 3}])
def test_a_field_of_another_shape_is_shown_as_it_came(name: str, value: object):
    details = details_of({name: value})
    if not isinstance(value, dict) and not (name == "avgLogprobs" and value == 3):
        assert [tree.value for tree in details.trees] == [value]


def test_event_without_metadata_has_no_details():
    assert details_of({"content": {}, "nodeInfo": {"path": ""}, "actions": {}}).is_empty
    assert not details_of({"finishReason": "STOP"}).is_empty


def test_tokens_are_shown_by_kind_with_their_sum():
    usage = details_of(
        {
            "usageMetadata": {
                "promptTokenCount": 1000,
                "cachedContentTokenCount": 750,
                "candidatesTokenCount": 50,
                "thoughtsTokenCount": 150,
                "toolUsePromptTokenCount": 50,
                "totalTokenCount": 1250,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
                "trafficType": "ON_DEMAND",
            }
        }
    ).usage
    assert [(share.name, share.count, share.width) for share in usage.bar] == [
        ("cached", 750, 60.0),
        ("prompt", 250, 20.0),
        ("tool", 50, 4.0),
        ("thoughts", 150, 12.0),
        ("output", 50, 4.0),
    ]
    assert [share.start for share in usage.bar] == [0, 60.0, 80.0, 84.0, 96.0]
    assert (usage.total, usage.cached_percent) == (1250, 75)
    assert usage.modalities == [("prompt", "TEXT", 1000)]
    assert usage.more == {"trafficType": "ON_DEMAND"}


def test_average_token_probability_is_in_percent():
    assert details_of({"avgLogprobs": 0}).certainty == (0.0, 100.0)
    assert details_of({"avgLogprobs": -0.6931471805599453}).certainty[1] == pytest.approx(50)
    assert details_of({"avgLogprobs": 400.0}).certainty[1] == 100


def test_grounding_leads_from_the_answer_to_its_sources():
    grounding = details_of(
        {
            "groundingMetadata": {
                "groundingChunks": [
                    {"web": {"uri": "https://example.org/a", "title": "A"}},
                    {"retrievedContext": {"uri": "gs://kb/doc", "text": "said so"}},
                    {"web": {"uri": "javascript:alert(1)"}},
                ],
                "groundingSupports": [
                    {
                        "segment": {"text": "so it is"},
                        "groundingChunkIndices": [0, 1],
                        "confidenceScores": [0.9],
                    }
                ],
                "searchEntryPoint": {"renderedContent": "<script>"},
            }
        }
    ).grounding
    assert [(source.number, source.title, source.url) for source in grounding.sources] == [
        (1, "A", "https://example.org/a"),
        (2, "gs://kb/doc", ""),
        (3, "javascript:alert(1)", ""),
    ]
    assert [(support.text, support.sources) for support in grounding.supports] == [
        ("so it is", [(1, 90), (2, None)])
    ]
    assert grounding.more == {"searchEntryPoint": {"renderedContent": "<script>"}}


def test_the_context_cache_is_read_in_adks_snake_case_and_in_others():
    for spelled in ({"cache_name": "c/1", "invocations_used": 3}, {"cacheName": "c/1", "invocationsUsed": 3}):
        cache = details_of({"cacheMetadata": {**spelled, "new": 1}}).cache
        assert (cache.name, cache.invocations, cache.created_at, cache.more) == ("c/1", 3, None, {"new": 1})


def test_every_field_of_adks_actions_has_words():
    said = actions_of(FULL["actions"])
    beside = {"stateDelta", "artifactDelta", "transferReason", "compaction"}
    assert {action.name for action in said} == {to_camel(name) for name in EventActions.model_fields} - beside
    assert all(action.is_known for action in said)
    words = {action.name: action.description for action in said}
    assert words["transferToAgent"] == "Transfers to other: knows more"
    assert words["route"] == "The workflow continues by route left, 1, True"
    assert words["requestedToolConfirmations"] == "Requests confirmation of 1 call: sure?"


def test_details_without_a_sentence_are_shown_as_json():
    shown = {action.name: action.value for action in actions_of(FULL["actions"])}
    assert shown["agentState"] == {"step": 2, "nothing": None}
    assert shown["setModelResponse"] == {"structured": [1]}
    assert shown["escalate"] is shown["route"] is shown["rewindBeforeInvocationId"] is None


def test_unknown_action_is_kept():
    [action] = actions_of({"beam/up": [1], "stateDelta": {"a": 1}, "escalate": None})
    assert (action.description, action.value, action.pointer, action.is_known) == (
        "beam/up",
        [1],
        "/actions/beam~1up",
        False,
    )


def test_reason_without_transfer_and_refused_escalation_are_shown():
    said = [action.description for action in actions_of({"transferReason": "why", "escalate": False})]
    assert said == ["Reason of the transfer: why", "Does not escalate to the parent agent"]


def test_a_compaction_has_a_span_and_parts():
    compaction = compaction_of(FULL["actions"])
    assert (compaction.start, compaction.end) == (1.25, 2.5)
    assert compaction.parts[0].pointer == "/actions/compaction/compactedContent/parts/0"
    assert compaction_of({"compaction": "x"}) is None


def test_a_rewind_names_an_invocation():
    assert rewound_invocation(FULL["actions"]) == "i-0"
    assert rewound_invocation({"rewindBeforeInvocationId": 3}) == ""
