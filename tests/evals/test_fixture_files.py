"""Fixtures in evalset files: read by ADK and DevUI, kept by edits, refused where they are wrong, compared by runs."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from google.adk.evaluation.local_eval_sets_manager import load_eval_set_from_file
from google.adk.tools.environment_simulation import environment_simulation_config as adk
from pydantic import ValidationError

from evals_app.analysis.comparability import read_cases
from evals_app.files import BadFile, fixtures, library, parse, read_file
from evals_app.files.argument_matchers import MATCHERS, matches_arguments, require_matchers
from evals_app.files.editing import apply_edit, case_json
from evals_app.files.fixtures import merge_fixtures
from evals_app.files.parsing import parse_file
from evals_app.models import EvalAttempt
from tests.evals.builders import case, evalset, turn, write
from tests.evals.form_filling import Browser
from tests.evals.run_evals_command import EXAMPLE_AGENTS, run_evals, usage_error

INJECTION = {"injected_response": {"sky": "stormy"}}
FIXTURE = {"tool_name": "get_weather", "injection_configs": [INJECTION]}


def problem(**fields):
    """Return the problem of a case with a fixture that has these fields, without its place."""
    document = evalset(case("a", turn("hi"), devui_fixtures=[{**FIXTURE, **fields}]))
    with pytest.raises(BadFile) as refused:
        parse(json.dumps(document, indent=1), "a.evalset.json", "a.evalset.json")
    return str(refused.value.problems[0]).partition(": ")[2]


def test_fixtures_are_read_and_adk_reads_the_same_file(tmp_path):
    document = {**evalset(case("a", turn("hi"), devui_fixtures=[FIXTURE])), "devui_fixtures": [FIXTURE]}
    path = write(tmp_path, "a.evalset.json", document)
    content = read_file(path)
    assert content.warnings == []
    assert content.as_adk()["devui_fixtures"] == [FIXTURE]
    assert content.as_adk()["eval_cases"][0]["devui_fixtures"] == [FIXTURE]
    assert load_eval_set_from_file(str(path), "a").eval_cases[0].eval_id == "a"


@pytest.mark.parametrize(
    ("model", "adk_model", "own"),
    [
        (fixtures.InjectedError, adk.InjectedError, set()),
        (fixtures.Injection, adk.InjectionConfig, {fixtures.MATCH_ARGS, fixtures.TIMES}),
        (fixtures.ToolFixtures, adk.ToolSimulationConfig, set()),
    ],
)
def test_models_have_adk_s_fields_and_defaults(model, adk_model, own):
    assert model.model_fields.keys() - own == adk_model.model_fields.keys()
    for name in adk_model.model_fields.keys() - {"mock_strategy_type"}:
        ours, theirs = model.model_fields[name], adk_model.model_fields[name]
        assert (ours.is_required(), ours.default) == (theirs.is_required(), theirs.default)
    values = {strategy.name: strategy.value for strategy in adk.MockStrategy}
    assert fixtures.MOCK_STRATEGIES.items() <= values.items()


@pytest.mark.parametrize(
    ("fields", "where", "what"),
    [
        ({"match_arg": {}}, ".match_arg", "is no known field: correct the name or omit it"),
        ({"injected_response": "x"}, ".injected_response", "must be an object, not 'x'"),
        (
            {"injected_response": {}},
            "",
            "needs either injected_error or a non-empty injected_response",
        ),
        ({"injection_probability": 2}, ".injection_probability", "must be less than or equal to 1, not 2"),
        (
            {"injected_latency_seconds": -1},
            ".injected_latency_seconds",
            "must be greater than or equal to 0, not -1",
        ),
        ({"devui_times": 0}, ".devui_times", "must be greater than or equal to 1, not 0"),
        (
            {"devui_match_args": {"city": {"glob": "R*"}}},
            ".devui_match_args.city",
            "has the unknown matcher 'glob': use one of any, range, regex, subset, type, unordered",
        ),
        (
            {"devui_match_args": {"city": {"regex": "("}}},
            ".devui_match_args.city",
            "gives the matcher 'regex' a wrong value: use a regular expression of at most 1,000 characters",
        ),
        (
            {"devui_match_args": {"city": {}}},
            ".devui_match_args.city",
            "names no matcher: use one of any, range, regex, subset, type, unordered",
        ),
    ],
)
def test_wrong_injection_is_refused_at_its_field(fields, where, what):
    place = f"case 'a', devui_fixtures[0].injection_configs[0]{where}"
    assert problem(injection_configs=[{**INJECTION, **fields}]) == f"{place}: {what}"


def test_tool_without_an_answer_and_repeated_tool_are_refused():
    needs = "needs injection_configs, or the mock_strategy_type MOCK_STRATEGY_TOOL_SPEC"
    assert problem(injection_configs=[]) == f"case 'a', devui_fixtures[0]: {needs}"
    with pytest.raises(BadFile, match="has several objects for the tool 'get_weather': combine"):
        parse(json.dumps({**evalset(), "devui_fixtures": [FIXTURE, FIXTURE]}), "a.evalset.json", "a")


def test_run_evals_refuses_a_wrong_fixture_before_anything_runs(store, tmp_path):
    document = evalset(case("a", turn("hi"), devui_fixtures=[{"tool_name": "get_weather"}]))
    path = write(tmp_path, "own.evalset.json", document)
    assert "case 'a', devui_fixtures[0]: needs injection_configs" in usage_error(
        EXAMPLE_AGENTS / "weather", path
    )


def test_run_evals_refuses_an_unknown_tool_before_the_first_attempt(store, tmp_path):
    wrong = [{**FIXTURE, "tool_name": "get_wether"}]
    path = write(tmp_path, "own.evalset.json", evalset(case("a", turn("hi"), devui_fixtures=wrong)))
    code, out = run_evals(EXAMPLE_AGENTS / "weather", path)
    rule = "devui_fixtures of the case 'a': the agent has no tool 'get_wether'."
    assert (code, rule in out, EvalAttempt.objects.get().started_at) == (2, True, None)


@pytest.mark.parametrize("value", ["a{99999999999999999999}", "a|" * 1_000, 1, None])
def test_expression_that_cannot_be_compiled_or_is_long_is_refused(value):
    with pytest.raises(ValueError, match="gives the matcher 'regex' a wrong value"):
        require_matchers({"regex": value})


def test_expression_that_takes_too_long_is_given_up():
    with pytest.raises(TimeoutError):
        matches_arguments({"x": {"regex": r"^(a?){40}(a+)+\2c"}}, {"x": "a" * 60})


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"devui_times": "1"}, "devui_times"),
        ({"devui_times": True}, "devui_times"),
        ({"injected_latency_seconds": "5"}, "injected_latency_seconds"),
        ({"injection_probability": True}, "injection_probability"),
    ],
)
def test_number_of_a_fixture_that_is_text_or_a_truth_value_is_refused(fields, where):
    with pytest.raises(ValidationError) as refusal:
        fixtures.Injection.model_validate_json(json.dumps({"injected_response": {"a": 1}, **fields}))
    assert [error["loc"] for error in refusal.value.errors()] == [(where,)]


@pytest.mark.parametrize(
    ("matcher", "fitting", "others"),
    [
        ({"any": True}, ["", None, 1], []),
        ({"regex": "^R"}, ["Rome"], ["Lima R", 1, None]),
        ({"range": [1, 3]}, [1, 2.5, 3], [0, 4, True, "2", None]),
        ({"range": [None, 3]}, [-9, 3], [4]),
        (
            {"subset": {"a": {"b": 1}}},
            [{"a": {"b": 1.0, "c": 2}, "d": 3}],
            [{"a": {}}, {"a": {"b": True}}, 1],
        ),
        ({"subset": [1, 1]}, [[1, 2, 1]], [[1, 2], {"1": 1}]),
        ({"unordered": [1, 2, 2]}, [[2, 1, 2]], [[1, 2], [1, 1, 2], [1, 2, 2, 3], "122"]),
        ({"type": "integer"}, [1, 2.0, 10**400], [1.5, True, "1"]),
        ({"type": "null"}, [None], [0, ""]),
        ({"type": "number", "range": [0, None]}, [0, 1.5], [-1]),
    ],
)
def test_matchers_of_an_argument(matcher, fitting, others):
    assert all(MATCHERS[name].is_valid(value) for name, value in matcher.items())
    assert [value for value in fitting if not matches_arguments({"x": matcher}, {"x": value})] == []
    assert [value for value in others if matches_arguments({"x": matcher}, {"x": value})] == []
    assert not matches_arguments({"x": matcher}, {"y": fitting[0]})


def test_edit_of_a_file_in_camel_case_keeps_names_inside_fixtures():
    stored = {"evalId": "a", "conversation": [], "devuiFixtures": [FIXTURE]}
    file = parse_file(json.dumps(evalset(stored)), "a.evalset.json", "a")
    assert case_json(file.content.cases[0])["devui_fixtures"] == [FIXTURE]

    def change(cases):
        cases[0]["devui_fixtures"][0]["injection_configs"].append({"injected_response": {"a_b": 1}})

    [edited] = json.loads(apply_edit(file, change).text)["eval_cases"]
    injections = [INJECTION, {"injected_response": {"a_b": 1}}]
    assert edited["devuiFixtures"] == [{"tool_name": "get_weather", "injection_configs": injections}]


async def test_form_of_a_case_keeps_its_fixtures(web, folder):
    document = {**evalset(case("a", turn("hi", "yo"), devui_fixtures=[FIXTURE])), "devui_fixtures": [FIXTURE]}
    path = write(folder.path, "set.evalset.json", json.dumps(document, indent=2) + "\n")
    before = path.read_text()
    browser = Browser(web)
    await browser.get("/evals/counter/set/case/?id=a")
    await browser.send("review", turns__0__answer="good day")
    await browser.save()
    assert path.read_text() == before.replace('"yo"', '"good day"')


def test_case_with_other_fixtures_is_another_case(folder, transactional_db):
    def digests(shared, own):
        cases = [case("a", turn("hi"), devui_fixtures=own), case("b", turn("hi"))]
        path = write(folder.path, "a.evalset.json", {**evalset(*cases), "devui_fixtures": shared})
        version = library.current_version(library.register_file(folder, "counter", path))
        return [stored.digest for stored in read_cases(version)]

    def answer(items):
        return [{"tool_name": "f", "injection_configs": [{"injected_response": {"items": items, "n": 1}}]}]

    a, b = digests(answer([]), answer([1]))
    assert digests(answer([]), answer([2])) != [a, b]
    assert digests(answer([]), answer([2]))[1] == b
    assert digests(answer([3]), answer([1]))[0] == a
    assert digests(answer([3]), answer([1]))[1] != b


def test_versions_show_a_change_of_the_shared_fixtures(folder, transactional_db, settings):
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    for sky in ("stormy", "foggy"):
        shared = [{"tool_name": "f", "injection_configs": [{"injected_response": {"sky": sky}}]}]
        path = write(
            folder.path, "a.evalset.json", {**evalset(case("a", turn("hi"))), "devui_fixtures": shared}
        )
        evalset_row = library.register_file(folder, "counter", path)
    newer, older = evalset_row.versions.order_by("-pk")
    page = Client().get(f"/evals/counter/a/versions/?from={older.pk}&to={newer.pk}").content.decode()
    assert all(sky in page for sky in ("stormy", "foggy"))


def test_mock_strategy_may_be_named():
    for strategy in ("MOCK_STRATEGY_TOOL_SPEC", 1):
        [merged] = merge_fixtures([{"tool_name": "f", "mock_strategy_type": strategy}], [])
        assert (merged.is_mocked, merged.numbers) == (True, [fixtures.MOCK])
