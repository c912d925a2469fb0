"""Evalset files edited in place: bytes outside the edit stay unchanged, in JSON and YAML."""

from __future__ import annotations

import difflib
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evals_app.files import BadFile, editing, json_edit, plain_yaml, yaml_edit
from evals_app.files.pairing import is_same_json, pair_items
from evals_app.files.parsing import parse_file
from evals_app.files.plain_yaml import PlainLoader
from sessions_app.store.errors import BadInput
from tests.evals.builders import FULL, LEGACY, case, evalset, turn

SMALL = evalset(case("a", turn("hi", "yo")), case("b", turn("x")))

COMMENTED = """\
# Smoke tests. Ask Ana before you touch them.
eval_set_id: smoke   # the file's own id
eval_cases:

  # --- greetings ---

  # the plain one
  - eval_id: hello  # first
    conversation:
      - user_content: {role: user, parts: [{text: hi}]}   # as people do
        final_response:
          role: model
          parts:
            - text: "Hello!"

  # --- weather ---

  - eval_id: 'rain'
    team: ours
    conversation:
      - user_content:
          parts:
            - text: |
                Will it rain?
                I hate rain.
    final_session_state: {}
# the end
"""


def apply_edit_to_text(text, edit, name="a.evalset.json"):
    return editing.apply_edit(parse_file(text, name, f"weather/{name}"), edit).text


def changes(before, after):
    """Return the lines that differ: removed ones, added ones."""
    lines = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
    return [line[2:] for line in lines if line[0] == "-"], [line[2:] for line in lines if line[0] == "+"]


def answer(text, case_at=0):
    def edit(cases):
        cases[case_at]["conversation"][0]["final_response"]["parts"][0]["text"] = text

    return edit


def nothing(cases):
    pass


def test_an_edit_that_changes_nothing_changes_no_byte():
    for text in (
        json.dumps(FULL),
        json.dumps(FULL, indent=7),
        '\t{"eval_set_id":"x" , "eval_cases":[ ]}\r\n',
    ):
        assert apply_edit_to_text(text, nothing) == text
    assert apply_edit_to_text(COMMENTED, nothing, "a.evalset.yaml") == COMMENTED


def test_changed_answer_is_one_line_of_json_in_the_files_style():
    text = json.dumps(FULL, indent=4) + "\n"
    removed, added = changes(text, apply_edit_to_text(text, answer("bye")))
    assert [line.strip() for line in removed] == ['"text": "yo"']
    assert [line.strip() for line in added] == ['"text": "bye"']


def test_a_new_field_of_a_case_in_camel_case_is_in_camel_case():
    def edit(cases):
        cases[0]["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["snake_arg"] = 1
        cases[0]["conversation"].append(
            {**turn("more"), "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "t"}}]}
        )

    document = json.loads(apply_edit_to_text(json.dumps(FULL, indent=2), edit))
    first, second = document["eval_cases"][0]["conversation"]
    assert first["intermediateData"]["toolUses"][0]["args"] == {"x": 1, "snake_arg": 1}
    assert second["userContent"]["parts"] == [{"text": "more"}]
    assert second["rubrics"][0]["rubricContent"] == {"textProperty": "t"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": [1, 2]}', '{"a": [1, 2, 3]}'),
        ('{"a":[1,2]}', '{"a":[1,2,3]}'),
        ('{\r\n\t"a": [\r\n\t\t1\r\n\t]\r\n}', '{\r\n\t"a": [\r\n\t\t1,\r\n\t\t3\r\n\t]\r\n}'),
        ('{"a": [ 1 ,2 ]}', '{"a": [ 1,2,3 ]}'),
        ('{\n  "a": []\n}', '{\n  "a": [\n    3\n  ]\n}'),
        ('{"a": "\\u00e9"}', '{"a": "\\u00e9", "b": "\\u00e8"}'),
        ('{"a": "é"}', '{"a": "é", "b": "è"}'),
    ],
)
def test_new_parts_are_written_like_their_neighbours(before, after):
    assert json_edit.rewrite_json(before, json.loads(before), json.loads(after)) == after


def test_duplicate_key_keeps_both_and_the_last_one_counts():
    text = '{"eval_set_id": "x", "eval_set_id": "set", "eval_cases": [{"eval_id": "a", "conversation": []}]}'
    new = apply_edit_to_text(text, lambda cases: cases.append(case("b")))
    assert new.startswith('{"eval_set_id": "x", "eval_set_id": "set", ')
    assert json.loads(new)["eval_cases"][1]["eval_id"] == "b"


def test_changed_answer_is_one_line_of_yaml_with_all_comments():
    new = apply_edit_to_text(COMMENTED, answer("No: 3 # times"), "a.evalset.yaml")
    assert changes(COMMENTED, new) == (
        ['            - text: "Hello!"'],
        ['            - text: "No: 3 # times"'],
    )


def test_a_value_in_brackets_stays_in_brackets_and_its_comment_behind_it():
    def edit(cases):
        cases[0]["conversation"][0]["user_content"]["parts"][0]["text"] = "good day"

    new = apply_edit_to_text(COMMENTED, edit, "a.evalset.yaml")
    assert changes(COMMENTED, new)[1] == [
        "      - user_content: {role: user, parts: [{text: good day}]}   # as people do"
    ]


def test_moved_yaml_cases_keep_the_comments_above_them():
    new = apply_edit_to_text(COMMENTED, lambda cases: cases.reverse(), "a.evalset.yaml")
    assert [line.strip() for line in new.splitlines() if line.strip().startswith(("#", "- eval_id"))] == [
        "# Smoke tests. Ask Ana before you touch them.",
        "# --- greetings ---",
        "# --- weather ---",
        "- eval_id: 'rain'",
        "# the plain one",
        "- eval_id: hello  # first",
        "# the end",
    ]
    assert sorted(new.splitlines()) == sorted(COMMENTED.splitlines())


def test_removed_yaml_case_takes_its_own_comment_only():
    new = apply_edit_to_text(COMMENTED, lambda cases: cases.pop(0), "a.evalset.yaml")
    assert "# the plain one" not in new
    assert "# --- greetings ---" in new
    assert "# --- weather ---" in new


def test_new_yaml_parts_read_the_same_in_every_parser():
    texts = [
        "no",
        "2024-05-01",
        "1e3",
        "null",
        "a: b",
        "- x",
        "two\nlines\n",
        " lead",
        "#",
        "",
        "é",
        "\t",
        "0x1F",
        "~",
    ]

    def edit(cases):
        cases.append(case("new", *[turn(text, text) for text in texts]))

    new = apply_edit_to_text(COMMENTED, edit, "a.evalset.yaml")
    for loader in (PlainLoader, yaml.SafeLoader):
        added = yaml.load(new, loader)["eval_cases"][2]
        assert [turn_json["user_content"]["parts"][0]["text"] for turn_json in added["conversation"]] == texts


def test_multiline_text_in_place_of_one_line_keeps_the_comment():
    text = "name: one  # why\neval_cases: []\n"
    new = yaml_edit.rewrite_yaml(
        text, {"name": "one", "eval_cases": []}, {"name": "one\ntwo", "eval_cases": []}
    )
    assert new == "name: |-  # why\n  one\n  two\neval_cases: []\n"


@pytest.mark.parametrize("word", ["1e3", "1.5E3", "0o17", "y", "N", "no", "2020-01-01", "~", "1_000"])
def test_word_with_a_special_meaning_in_yaml_is_quoted(word):
    assert plain_yaml.dump_yaml({"text": word}) == f"text: '{word}'\n"


def test_a_value_that_is_no_number_is_the_same_as_before():
    assert is_same_json({"state": [float("nan")]}, {"state": [float("nan")]})
    assert not is_same_json(float("nan"), 1.0)


def test_a_yaml_file_without_cases_gets_its_first_in_block_style():
    new = apply_edit_to_text(
        "eval_set_id: s\neval_cases: []", lambda cases: cases.append(case("a")), "a.evalset.yaml"
    )
    assert new == "eval_set_id: s\neval_cases:\n- eval_id: a\n  conversation: []"


def test_yaml_value_with_aliases_is_not_edited():
    start = "{app_name: a, user_id: u, state: {k: 1}}"
    text = (
        f"eval_set_id: s\neval_cases:\n- eval_id: a\n  conversation: []\n  session_input: &start {start}\n"
        "- eval_id: b\n  conversation: []\n  session_input: *start\n"
    )
    for place in (0, 1):
        with pytest.raises(BadInput, match="changed by hand only"):
            apply_edit_to_text(
                text,
                lambda cases, at=place: cases[at]["session_input"].update(user_id="v"),
                "a.evalset.yaml",
            )
    renamed = apply_edit_to_text(text, lambda cases: cases[1].update(eval_id="c"), "a.evalset.yaml")
    assert renamed == text.replace("eval_id: b", "eval_id: c")


SHARED = """\
eval_set_id: shared
eval_cases:
- eval_id: first
  conversation: &talk
  - user_content: {parts: [{text: hi}]}
- eval_id: second
  conversation: *talk
"""


def test_a_yaml_file_that_ends_with_an_alias_takes_a_case_and_a_field():
    def add(cases):
        cases.append(case("third", turn("ho")))

    def expect(cases):
        cases[1]["final_session_state"] = {"k": 1}

    removed, added = changes(SHARED, apply_edit_to_text(SHARED, add, "a.evalset.yaml"))
    assert not removed
    assert added[0] == "- eval_id: third"
    assert (
        apply_edit_to_text(SHARED, expect, "a.evalset.yaml") == f"{SHARED}  final_session_state:\n    k: 1\n"
    )


@pytest.mark.parametrize("remaining", [[1], [1, 0]])
def test_a_case_that_others_refer_to_stays_where_it_is(remaining):
    def edit(cases):
        cases[:] = [cases[place] for place in remaining]

    with pytest.raises(BadInput, match="changed by hand only"):
        apply_edit_to_text(SHARED, edit, "a.evalset.yaml")


def test_yaml_line_endings_are_kept():
    text = COMMENTED.replace("\n", "\r\n")
    new = apply_edit_to_text(text, answer("Bye."), "a.evalset.yaml")
    assert new == text.replace('"Hello!"', '"Bye."')


@pytest.mark.parametrize("name", ["old.test.json", "old.evalset.yaml"])
def test_edit_of_an_older_form_converts_the_file(name):
    text = json.dumps(LEGACY)
    assert apply_edit_to_text(text, nothing, name) == text
    new = yaml.load(apply_edit_to_text(text, answer("R"), name), PlainLoader)
    (converted,) = new["eval_cases"]
    assert (new["eval_set_id"], converted["eval_id"]) == ("old", "old")
    assert converted["conversation"][0]["final_response"]["parts"] == [{"text": "R"}]
    assert converted["session_input"]["state"] == {"k": 1}


def test_flat_list_of_turns_takes_another_case():
    new = apply_edit_to_text('[{"query": "q"}]', lambda cases: cases.append(case("b")), "a.test.json")
    assert [case_json["eval_id"] for case_json in json.loads(new)["eval_cases"]] == ["a", "b"]


def test_an_edit_that_makes_no_evalset_is_refused():
    with pytest.raises(BadFile, match=r"needs exactly one of conversation"):
        apply_edit_to_text(json.dumps(SMALL), lambda cases: cases[0].pop("conversation"))
    with pytest.raises(BadInput, match="JSON"):
        apply_edit_to_text(json.dumps(SMALL), lambda cases: cases[0].update(extra=float("nan")))
    with pytest.raises(BadInput):
        apply_edit_to_text(json.dumps(SMALL), lambda cases: cases[0].update(extra="\ud800"))


def test_items_are_matched_by_content_then_id_then_position():
    a, b, c = case("a", turn("1")), case("b", turn("2")), case("c", turn("3"))
    assert pair_items([a, b, c], [c, a]) == [2, 0]
    assert pair_items([a, b], [case("b", turn("other")), a]) == [1, 0]
    assert pair_items([a, b], [a, case("z", turn("2"))]) == [0, 1]
    assert pair_items([1, 1], [1, 1, 1]) == [0, 1, None]
    assert not is_same_json(1, True)
    assert not is_same_json([1], [1.0])


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029\ufeff"), max_size=12
    ),
)
keys = st.text("abcXY_: #-é\"'", min_size=1, max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
documents = st.dictionaries(keys, values, min_size=1, max_size=4)


@given(documents, documents, st.sampled_from([None, 1, 2, "\t"]))
def test_any_json_becomes_any_other(old, new, indent):
    text = json.dumps(old, indent=indent, ensure_ascii=False)
    assert is_same_json(json.loads(json_edit.rewrite_json(text, old, new)), new)


@given(documents, documents, st.booleans())
def test_any_yaml_edit_is_applied_or_refused(old, new, indented):
    from evals_app.files.plain_yaml import dump_yaml

    text = dump_yaml(old, indented=indented)
    read = yaml.load(text, PlainLoader)
    try:
        rewritten = yaml_edit.rewrite_yaml(text, read, new)
    except yaml_edit.UneditableYaml:
        return
    assert is_same_json(yaml.load(rewritten, PlainLoader), new)
