"""Parsing of evalset files: DevUI reads the files that ADK reads, and refuses others with a helpful message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from evals_app import files
from evals_app.files import BadFile, file_changes, plain_yaml
from evals_app.models import EvalSet
from sessions_app.store.errors import BadInput, NotFound
from tests.evals.builders import FULL, LEGACY, case, evalset, turn, write


def parse(document, name="a.evalset.json"):
    text = document if isinstance(document, str) else json.dumps(document, indent=2)
    return files.parse(text, name, f"weather/{name}")


def refusal(document, name="a.evalset.json"):
    with pytest.raises(BadFile) as refused:
        parse(document, name)
    return refused.value


def test_both_spellings_come_to_the_same_case():
    snake = parse(evalset(case("a", turn("hi", "yo"))))
    camel = parse(
        {
            "eval_set_id": "set",
            "eval_cases": [
                {
                    "evalId": "a",
                    "conversation": [
                        {
                            "userContent": {"role": "user", "parts": [{"text": "hi"}]},
                            "finalResponse": {"role": "model", "parts": [{"text": "yo"}]},
                        }
                    ],
                }
            ],
        }
    )
    assert snake.cases == camel.cases
    assert snake.as_adk() == camel.as_adk()


def test_yaml_is_read_with_types_of_json():
    text = (
        yaml.safe_dump(evalset(case("a-b", turn("on 2024-05-01?", "no"))))
        + "created: 2024-05-01\nanswer: no\n"
    )
    assert parse(text, "a.evalset.yaml").as_adk()["eval_cases"][0]["conversation"][0]["final_response"] == {
        "role": "model",
        "parts": [{"text": "no"}],
    }


def test_the_old_list_of_cases_is_read():
    content = parse(LEGACY)
    only = content.as_adk()["eval_cases"][0]
    assert content.form == "legacy"
    assert only["eval_id"] == "old"
    assert only["session_input"] == {"app_name": "a", "user_id": "u", "state": {"k": 1}}
    assert only["conversation"][0]["intermediate_data"]["tool_uses"] == [{"name": "t", "args": {"a": 1}}]


def test_flat_list_of_turns_is_one_case_named_after_its_file():
    content = parse([{"query": "q", "reference": "r"}, {"query": "s"}], "simple.test.json")
    assert content.form == "flat"
    assert [case.eval_id for case in content.cases] == ["simple"]
    assert len(content.cases[0].conversation or []) == 2


def test_fields_that_adk_ignores_are_kept():
    content = parse(FULL)
    assert content.cases[0].model_extra == {"more": 2}
    assert content.as_adk()["eval_cases"][0]["session_input"]["extra"] == 1
    assert "Case 'camel': ADK does not use the field 'more'." in content.warnings


def test_duplicate_case_id_has_warning():
    content = parse(evalset(case("a", turn("x")), case("a", turn("y"))))
    assert content.warnings == ["The case id 'a' is given 2 times."]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.evalset.json",
            '{"eval_set_id": "a",\n "eval_cases": [{"eval_id": "b",\n  "eval_id": "c", "conversation": []}]}',
        ),
        ("a.evalset.yaml", "eval_set_id: a\neval_cases:\n- eval_id: c\n  conversation: []\n  eval_id: c\n"),
    ],
)
def test_duplicate_key_has_warning(name, text):
    content = parse(text, name)
    assert content.cases[0].eval_id == "c"
    assert content.warnings[-1] == "An object contains a key twice, and the last one counts: 'eval_id'."


def test_warnings_say_how_many_duplicate_keys_and_odd_numbers_they_leave_out():
    keys = ", ".join(f'"k{number:02}": 1, "k{number:02}": NaN' for number in range(30))
    text = '{"eval_set_id": "a", "eval_cases": [{"eval_id": "c", "conversation": [], "session_input": '
    content = parse(text + '{"app_name": "x", "user_id": "u", "state": {' + keys + "}}}]}")
    assert any("'k19' and 10 more." in warning for warning in content.warnings)
    assert content.warnings[-1] == "10 more numbers are not valid in JSON."


@pytest.mark.parametrize("name", ["a.evalset.json", "a.test.json"])
def test_an_id_that_no_store_holds_is_refused_with_its_place(name):
    document = [{"name": "a\0b", "data": []}] if name == "a.test.json" else evalset(case("a\0b", turn("hi")))
    problem = refusal(document, name).problems[0]
    assert problem.case == "a\0b"
    assert problem.field in ("eval_id", "name")
    assert problem.line
    assert "holds a NUL character, which no store keeps" in problem.what


def test_lone_surrogate_is_refused_with_line():
    text = '{"eval_set_id": "a",\n "eval_cases": [{"eval_id": "\\ud800", "conversation": []}]}'
    problem = refusal(text).problems[0]
    assert problem.line == 2
    assert "half of a character" in problem.what


@pytest.mark.parametrize("name", ["a.evalset.json", "a.evalset.yaml"])
@pytest.mark.parametrize("depth", [400, 5_000, 200_000])
def test_too_deeply_nested_values_are_refused(name, depth):
    text = f'{{"eval_set_id": "a", "eval_cases": [], "x": {"[" * depth}{"]" * depth}}}'
    assert "nested too deeply" in refusal(text, name).problems[0].what


def test_fields_that_adk_ignores_have_warnings():
    persona = {"id": "p", "description": "d", "behaviors": [], "mood": "bad"}
    document = {
        **evalset(
            case("a", turn("x"), session_input={"app_name": "w", "user_id": "u", "locale": "de"}, more=1),
            {
                "eval_id": "b",
                "conversation_scenario": {
                    "starting_prompt": "hi",
                    "conversation_plan": "leave",
                    "user_persona": persona,
                },
            },
        ),
        "owner": "ann",
    }
    assert parse(document).warnings == [
        "ADK does not use the field 'owner' of the file.",
        "Case 'a': ADK does not use the field 'more'.",
        "Case 'a': ADK does not use the field 'session_input.locale'.",
        "Case 'b': ADK does not use the field 'conversation_scenario.user_persona.mood'.",
    ]


def rubrics(*ids):
    return [{"rubric_id": name, "rubric_content": {"text_property": "It greets."}} for name in ids]


@pytest.mark.parametrize(
    ("of_case", "of_turn", "message"),
    [
        (["a", "b", "a"], [], "the case has two rubrics of the id 'a': rename one"),
        (["a"], ["a"], "turn 2 has, with those of the case, two rubrics of the id 'a': rename one"),
        ([], ["b", "b"], "turn 2 has, with those of the case, two rubrics of the id 'b': rename one"),
    ],
)
def test_rubrics_of_one_id_are_refused_with_their_case(of_case, of_turn, message):
    second = {**turn("y"), "rubrics": rubrics(*of_turn)}
    document = evalset(case("one", turn("x"), second, rubrics=rubrics(*of_case)))
    [problem] = refusal(document).problems
    assert (problem.case, problem.line > 0, problem.what) == ("one", True, message)


def test_turns_may_share_an_id_of_a_rubric():
    turns = [{**turn(words), "rubrics": rubrics("a")} for words in ("x", "y")]
    assert parse(evalset(case("one", *turns, rubrics=rubrics("b")))).warnings == []


def test_invisible_id_has_warning():
    content = parse(evalset(case("a", turn("x")), case(" ", turn("y"))))
    assert content.warnings == ["Case 2 has an empty id: nobody can choose it by its name."]


def test_broken_json_is_refused_with_line_and_column():
    assert str(refusal('{\n  "eval_set_id": "a",\n  oops\n}').problems[0]) == (
        "weather/a.evalset.json:3:3: is no JSON: Expecting property name enclosed in double quotes"
    )


def test_broken_yaml_is_refused_with_line_and_column():
    problem = refusal("eval_set_id: a\neval_cases:\n  - {eval_id: b\n", "a.evalset.yaml").problems[0]
    assert (problem.line, problem.file) == (4, "weather/a.evalset.yaml")
    assert "is no YAML" in problem.what


def test_yaml_with_exponential_aliases_is_refused_unexpanded():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{step}: &a{step} [{', '.join([f'*a{step - 1}'] * 9)}]" for step in range(1, 30)]
    assert "aliases stand for more than" in refusal("\n".join(lines), "a.evalset.yaml").problems[0].what


def test_yaml_of_more_keys_and_values_than_can_be_read_soon_is_refused():
    with pytest.raises(ValueError, match="more than 9 keys and values"):
        plain_yaml.load_yaml("eval_set_id: a\neval_cases: []\nours: [{}, {}, {}, {}]\n", max_nodes=9)


def test_key_that_adk_reads_in_one_spelling_only_is_named():
    problems = refusal({"evalSetId": "a", "evalCases": []}).problems
    assert [problem.what.split(":")[0] for problem in problems] == [
        "must be spelled eval_set_id",
        "must be spelled eval_cases",
    ]


def test_a_missing_field_is_named_with_its_case_and_line():
    document = evalset(case("good", turn("x")), case("bad", {"final_response": None}))
    problem = refusal(document).problems[0]
    assert (problem.case, problem.field) == ("bad", "conversation[0].user_content")
    assert problem.what == "is required"
    lines = json.dumps(document, indent=2).splitlines()
    assert '"final_response": null' in lines[problem.line]


def test_misspelt_field_is_named_with_line():
    document = evalset(case("a", {**turn("x"), "final_respones": {}}))
    problem = refusal(document).problems[0]
    assert problem.field == "conversation[0].final_respones"
    assert "no known field" in problem.what
    assert "final_respones" in json.dumps(document, indent=2).splitlines()[problem.line - 1]


def test_yaml_problems_are_named_with_line_and_column():
    text = (
        "# ours\neval_set_id: s\neval_cases:\n  - eval_id: a\n    conversation:\n      - {user_content: 3}\n"
    )
    problem = refusal(text, "a.evalset.yaml").problems[0]
    assert (problem.case, problem.field) == ("a", "conversation[0].user_content")
    assert (problem.line, problem.column) == (6, 10)
    assert str(problem).startswith("weather/a.evalset.yaml:6:10: case 'a', conversation[0].user_content: ")


def test_json_that_is_no_yaml_has_lines_and_columns_as_well():
    text = '{"eval_set_id": "\\/",\n "eval_cases": [{"eval_id": "\\ud83d\\ude00",\n\t "conversation": 3}]}'
    problem = refusal(text).problems[0]
    assert (problem.line, problem.column, problem.case) == (3, 3, "😀")


def test_a_tab_in_json_does_not_cost_the_line():
    problem = refusal('{\n\t"eval_set_id": 3,\n\t"eval_cases": []\n}').problems[0]
    assert (problem.line, problem.column, problem.what) == (2, 2, "must be text, not 3")


def test_all_problems_are_listed_and_the_message_is_short():
    error = refusal(evalset(*[case(f"c{number}", {}) for number in range(9)]))
    assert len(error.problems) == 9
    assert error.message.splitlines()[-1] == "… and 4 more"


@pytest.mark.parametrize("document", ["", "null", "3", '"text"', "[1]", "{}"])
def test_invalid_evalset_is_refused(document):
    assert refusal(document).problems


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path):
    with pytest.raises(NotFound, match="there is no such file"):
        files.read_file(tmp_path / "nothing.evalset.json")
    (tmp_path / "image.evalset.json").write_bytes(b"\x89PNG\xff")
    with pytest.raises(BadFile, match="is not UTF-8"):
        files.read_file(tmp_path / "image.evalset.json")
    folder = write(tmp_path / "folder.evalset.json", "x", "").parent
    with pytest.raises(BadFile, match="cannot be read"):
        files.read_file(folder)


@pytest.mark.parametrize("name", ["a.evalset.json", "a.evalset.yaml"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_that_powershell_wrote_are_read(tmp_path: Path, name, encoding):
    text = '{"eval_set_id": "a", "name": "Köln", "eval_cases": []}'
    (tmp_path / name).write_text(text, encoding=encoding)
    assert files.read_text(tmp_path / name) == text
    assert files.read_file(tmp_path / name).name == "Köln"


def test_json_of_too_many_values_is_refused():
    assert "more than 1,000,000 values" in str(refusal("[" + "0," * 1_000_000 + "0]"))


def test_deeply_nested_json_is_refused_not_a_crash():
    assert "cannot be read" in str(refusal("[" * 100_000))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            '{"eval_set_id": "s", "eval_cases": [\n {"eval_id": "a",'
            ' "conversation": [{"user_content": {"parts": []}}],\n'
            '  "session_input": {"app_name": "w", "user_id": "u", "state": {"x": [1, NaN]}}}]}',
            "a.evalset.json",
        ),
        (
            "eval_set_id: s\neval_cases:\n- eval_id: a\n  conversation: [{user_content: {parts: []}}]\n"
            "  session_input:\n    app_name: w\n    user_id: u\n    state: {x: [1, .nan]}\n",
            "a.evalset.yaml",
        ),
    ],
    ids=["json", "yaml"],
)
def test_numbers_unknown_to_json_are_warned_about_with_position(text, name):
    line = 3 if name.endswith("json") else 8
    [warning] = parse(text, name).warnings
    assert warning.startswith(f"Line {line}, column ")
    assert warning.endswith("case 'a', session_input.state.x[1] must be a number that JSON has, not nan.")


def test_nan_is_no_number():
    assert parse(evalset(case("NaN", turn("Infinity and NaN", ".inf")))).warnings == []


def test_cases_that_adk_skips_or_cannot_judge_have_warnings():
    start = {"app_name": "", "user_id": "u", "state": {}}
    content = parse(evalset(case("empty"), case("nameless", turn("hi", "yo"), session_input=start)))
    assert content.warnings == [
        "Case 'empty' has no turns: no metric can judge it.",
        "Case 'nameless': session_input.app_name is empty. ADK refuses to run it, unless the agent is an App.",
    ]


@pytest.mark.parametrize("path", ["{}/login.json", "../login.json"])
def test_path_of_another_users_agent_stays_in_the_agents_folder(settings, tmp_path, path):
    agents = tmp_path / "agents"
    agents.mkdir()
    (tmp_path / "login.json").write_text("a secret")
    settings.DEVUI_AGENTS_DIR = str(agents)
    row = EvalSet(app_name="weather", evalset_id="s", path=path.format(tmp_path))
    assert file_changes.read_evalset_text(row) == "a secret"
    settings.DEVUI_AGENT_USER = "agents"
    for read in (file_changes.read_evalset_text, file_changes.read_cases):
        with pytest.raises(BadInput, match="lies outside the folder of agents"):
            read(row)
