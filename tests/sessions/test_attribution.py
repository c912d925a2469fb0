"""Writers inferred from events without a recorder."""

from __future__ import annotations

from sessions_app.store import events
from sessions_app.store.events.attribution import Writer, infer_writers, join_alternatives


def test_delta_of_the_user_is_explicit():
    assert infer_writers({"a": 1}, author="user", responses=[], text="a") == {"a": Writer("delta")}


def test_single_answering_tool_is_the_writer():
    responses = [{"id": "c1", "name": "look", "response": {}}]
    assert infer_writers({"a": 1}, author="ann", responses=responses, text="") == {
        "a": Writer("tool", "look", "c1")
    }


def test_of_several_tools_any_could_have_written_and_no_call_is_named():
    responses = [{"id": "c1", "name": "look"}, {"id": "c2", "name": "count"}]
    writers = infer_writers({"a": 1}, author="ann", responses=responses, text="")
    assert writers == {"a": Writer("tool", "one of look, count")}


def test_two_calls_of_one_tool_are_that_tool():
    responses = [{"id": "c1", "name": "look"}, {"id": "c2", "name": "look"}]
    assert infer_writers({"a": 1}, author="ann", responses=responses, text="") == {
        "a": Writer("tool", "look")
    }


def test_key_that_equals_the_answer_is_the_output_key():
    writers = infer_writers({"answer": "yes", "other": "no"}, author="ann", responses=[], text="yes")
    assert writers == {"answer": Writer("output_key", "ann")}


def test_an_empty_value_beside_no_text_proves_nothing():
    assert infer_writers({"a": ""}, author="ann", responses=[], text="") == {}


def test_inferred_writers_are_marked_as_such():
    assert Writer().inferred


def test_single_name_is_kept():
    assert join_alternatives(["a", "a"]) == "a"
    assert join_alternatives([]) == ""


def test_writer_of_unstorable_key_is_inferred():
    event = {"id": "e1", "author": "user", "timestamp": 1.0, "actions": {"stateDelta": {"a\x00": 1, "b": 2}}}
    writers = {write.key: write.writer for write in events.build_record(event).writes}
    assert writers == {"a\N{REPLACEMENT CHARACTER}": Writer("delta"), "b": Writer("delta")}
