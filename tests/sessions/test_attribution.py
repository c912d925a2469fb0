"""Writers read off an event that no recorder saw."""

from __future__ import annotations

from sessions_app import events
from sessions_app.events.attribution import Writer, infer_writers, join_alternatives


def test_what_the_user_sends_is_an_explicit_delta():
    assert infer_writers({"a": 1}, author="user", responses=[], text="a") == {"a": Writer("delta")}


def test_the_one_tool_that_answered_wrote_the_keys():
    responses = [{"id": "c1", "name": "look", "response": {}}]
    assert infer_writers({"a": 1}, author="ann", responses=responses, text="") == {
        "a": Writer("tool", "look", "c1")
    }


def test_of_several_tools_any_could_have_written_and_no_call_is_named():
    responses = [{"id": "c1", "name": "look"}, {"id": "c2", "name": "count"}]
    found = infer_writers({"a": 1}, author="ann", responses=responses, text="")
    assert found == {"a": Writer("tool", "one of look, count")}


def test_two_calls_of_one_tool_are_that_tool():
    responses = [{"id": "c1", "name": "look"}, {"id": "c2", "name": "look"}]
    assert infer_writers({"a": 1}, author="ann", responses=responses, text="") == {
        "a": Writer("tool", "look")
    }


def test_a_key_that_holds_what_the_agent_said_is_its_output_key():
    found = infer_writers({"answer": "yes", "other": "no"}, author="ann", responses=[], text="yes")
    assert found == {"answer": Writer("output_key", "ann")}


def test_an_empty_value_beside_no_text_proves_nothing():
    assert infer_writers({"a": ""}, author="ann", responses=[], text="") == {}


def test_everything_inferred_says_so():
    assert Writer().inferred


def test_one_name_stands_alone():
    assert join_alternatives(["a", "a"]) == "a"
    assert join_alternatives([]) == ""


def test_the_writer_of_a_key_that_no_column_holds_is_inferred_too():
    event = {"id": "e1", "author": "user", "timestamp": 1.0, "actions": {"stateDelta": {"a\x00": 1, "b": 2}}}
    found = {write.key: write.writer for write in events.build_record(event).writes}
    assert found == {"a\N{REPLACEMENT CHARACTER}": Writer("delta"), "b": Writer("delta")}
