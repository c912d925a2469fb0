"""Tags of cases: in files, forms and lists, on the command line, and slices of runs by tag."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from google.adk.evaluation.eval_set import EvalSet as AdkEvalSet

from evals_app.analysis import baselines, case_matrix
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports import comparison_json, html_page, run_json
from evals_app.analysis.exports.markdown import as_markdown
from evals_app.analysis.slices import read_slices
from evals_app.cases.case_forms import AppliedForm, case_form_data
from evals_app.cases.case_list import CaseList
from evals_app.files import BadFile, parse
from evals_app.files.editing import apply_edit, case_json
from evals_app.files.parsing import parse_file
from evals_app.models import EvalRun
from tests.evals import stored_runs
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import run_evals, usage_error
from tests.evals.stored_runs import cases, failing, passing
from tests.pages import html

TAGS_OF_CASES = {"a": ["billing", "edge case"], "b": ["billing"], "c": []}


def tagged_cases(tags=TAGS_OF_CASES):
    return [{**stored_case, "devui_tags": tags[stored_case["eval_id"]]} for stored_case in cases(*tags)]


def parse_text(text, name="a.evalset.json"):
    return parse(text, name, name)


def problems(tags):
    document = f'{{"eval_set_id": "s", "eval_cases": [{{"eval_id": "a", "conversation": [],\n"devui_tags": {tags}}}]}}'
    with pytest.raises(BadFile) as refused:
        parse_text(document)
    return [str(problem) for problem in refused.value.problems]


def test_tags_are_read_and_adk_reads_the_same_file():
    document = evalset(case("a", turn("hi"), devui_tags=["billing"]))
    content = parse_text(json.dumps(document))
    assert (content.cases[0].devui_tags, content.warnings) == (["billing"], [])
    assert AdkEvalSet.model_validate(document).eval_cases[0].eval_id == "a"


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ('"billing"', "2:1: case 'a', devui_tags: must be a list, not 'billing'"),
        ('["x", 3]', "2:21: case 'a', devui_tags[1]: must be text, not 3"),
        ('["x", ""]', "2:21: case 'a', devui_tags[1]: is an empty tag: write a word or omit it"),
        (
            '["x", "x"]',
            "2:1: case 'a', devui_tags: has the tag 'x' more than once: omit the repetition",
        ),
        (
            '["a,b"]',
            "2:16: case 'a', devui_tags[0]: has a comma or a quotation mark, which separate tags: omit it",
        ),
        (
            '[" x"]',
            "2:16: case 'a', devui_tags[0]: begins or ends with a space, or has a control character: omit it",
        ),
        (
            '["untagged"]',
            "2:16: case 'a', devui_tags[0]: is the name of the cases without tags: choose another word",
        ),
        (
            json.dumps(["x" * 51]),
            "2:16: case 'a', devui_tags[0]: is longer than 50 characters: shorten the tag",
        ),
    ],
)
def test_invalid_tags_are_problems_with_line_and_column(tags, problem):
    assert problems(tags) == [f"a.evalset.json:{problem}"]


def edit_tags(text, name, tags):
    """Return a file's text after its first case was edited in the form."""
    file = parse_file(text, name, name)

    def edit(edited):
        edited[0] = AppliedForm({**case_form_data(edited[0]), "tags": tags}, edited[0], "counter").case

    return apply_edit(file, edit).text


def test_form_changes_only_the_tags_and_keeps_order_and_comments():
    yaml = (
        "eval_set_id: s\neval_cases:\n- eval_id: a  # first\n  devui_tags: [billing]  # why\n"
        '  conversation:\n  - user_content: {parts: [{text: "hi"}]}\n'
    )
    assert edit_tags(yaml, "a.evalset.yaml", "billing") == yaml
    assert edit_tags(yaml, "a.evalset.yaml", "billing, edge case,, billing") == yaml.replace(
        "[billing]", "[billing, edge case]"
    )
    text = json.dumps(evalset(case("a", turn("hi"), devui_tags=["x"])), indent=2)
    assert edit_tags(text, "a.evalset.json", "x") == text
    assert json.loads(edit_tags(text, "a.evalset.json", "y, z"))["eval_cases"][0]["devui_tags"] == ["y", "z"]
    assert "devui_tags" not in edit_tags(text, "a.evalset.json", " ")


def test_form_adds_tags_in_the_spelling_of_the_file():
    document = {"eval_set_id": "s", "eval_cases": [{"evalId": "a", "conversation": [{"userContent": {}}]}]}
    added = edit_tags(json.dumps(document), "a.evalset.json", "x")
    assert json.loads(added)["eval_cases"][0]["devuiTags"] == ["x"]
    assert case_json(parse_text(added).cases[0])["devui_tags"] == ["x"]
    assert AdkEvalSet.model_validate_json(added).eval_cases[0].eval_id == "a"


def test_invalid_tag_in_the_form_is_an_error_of_its_field():
    form = AppliedForm({**case_form_data(case("a", turn("hi"))), "tags": "untagged"}, {}, "counter")
    assert form.errors["tags"] == "'untagged' is the name of the cases without tags: choose another word."


def found_cases(search):
    contents = tagged_cases()
    summaries = [
        {"id": content["eval_id"], "turns": 1, "scenario": False, "says": "Paris"} for content in contents
    ]
    return [row.id for row in CaseList.search(summaries, contents, search).cases]


def test_cases_are_searched_by_tag_and_text():
    assert found_cases("tag:billing") == ["a", "b"]
    assert found_cases('tag:"edge case" tag:billing') == ["a"]
    assert found_cases("tag:billing edge") == ["a"]
    assert found_cases("tag:untagged") == ["c"]
    assert found_cases("tag:bill") == []
    assert found_cases("billing") == ["a", "b"]


def test_changed_tags_leave_a_case_comparable(db):
    then = stored_runs.run(stored_runs.version(tagged_cases()), {"a": [passing()]})
    retagged = tagged_cases({**TAGS_OF_CASES, "a": ["other"]})
    now = stored_runs.run(stored_runs.version(retagged), {"a": [passing()]}, code="v2")
    assert [change.is_comparable for change in baselines.compare_runs(then, now).cases] == [True]


@pytest.fixture
def two_runs(db):
    """A run in which everything passed, and one of other code in which `b` fails and `a` in one of two attempts."""
    of = stored_runs.version(tagged_cases())
    then = stored_runs.run(of, {name: [passing()] * 2 for name in TAGS_OF_CASES})
    now = stored_runs.run(
        of, {"a": [passing(), failing()], "b": [failing()] * 2, "c": [passing()] * 2}, code="v2"
    )
    return then, now


def test_slices_weigh_every_case_the_same_and_have_the_earlier_rate(two_runs):
    then, now = two_runs
    slices = read_slices(now, baselines.compare_runs(then, now))
    assert [(tagged.tag, tagged.cases, tagged.rate.value) for tagged in slices] == [
        ("billing", 2, 0.25),
        ("edge case", 1, 0.5),
        ("untagged", 1, 1.0),
    ]
    assert [(tagged.before.value, tagged.after.value) for tagged in slices] == [
        (1.0, 0.25),
        (1.0, 0.5),
        (1.0, 1.0),
    ]
    assert read_slices(now)[0].before is None
    low, high = slices[0].as_json()["interval"]
    assert 0 < low < 0.25 < high < 1


def test_run_of_untagged_cases_has_no_slices(db):
    run = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    assert read_slices(run) == []
    assert case_matrix.matrix(run).tags == []


def test_retry_has_no_slices_because_its_attempts_were_chosen(two_runs):
    _, now = two_runs
    assert read_slices(now)
    now.source = "retry"
    assert read_slices(now) == []


def test_slice_without_outcomes_says_so(db):
    run = stored_runs.run(stored_runs.version(tagged_cases()), {"b": [passing()]})
    run.attempts.update(status="incomplete")
    assert "- `billing`: 1 case, none with an outcome" in as_markdown([Gate().judge(run)])


def test_slices_are_in_summary_json_and_report(two_runs):
    then, now = two_runs
    summary = as_markdown([Gate(then.pk, "regression").judge(now)])
    assert "- `billing`: 2 cases, 25 % passed (3 % to 80 %); 100 % earlier" in summary
    facts = json.loads(run_json.as_json([now]))["runs"][0]["slices"]
    assert [(fact["tag"], fact["cases"], fact["passed"], fact["before"]) for fact in facts] == [
        ("billing", 2, 0.25, None),
        ("edge case", 1, 0.5, None),
        ("untagged", 1, 1.0, None),
    ]
    compared = comparison_json.comparison_facts(Gate(then.pk).judge(now))["slices"]
    assert (compared[0]["compared"], compared[0]["before"], compared[0]["after"]) == (2, 1.0, 0.25)
    assert "edge case" in html_page.as_html([now])


def test_pages_show_slices_and_filter_by_tag(two_runs):
    then, now = two_runs
    web = Client()
    page = html.parse(web.get(f"/evals/runs/{now.pk}/").content)
    rows = page.all("table", css="captioned-table")[-1].one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == ["billing", "edge case", "untagged"]
    narrowed = html.parse(web.get(f"/evals/runs/{now.pk}/?tag=billing").content)
    assert [row.attrs["id"] for row in narrowed.all("tr", css="case")] == ["case-0", "case-1"]
    compared = html.parse(web.get(f"/evals/runs/{now.pk}/compare/?with={then.pk}").content)
    first = compared.all("table", css="captioned-table")[-1].one("tbody").all("tr")[0]
    assert "100 % → 25 %" in " ".join(first.text.split())
    exported = web.get(f"/evals/runs/{now.pk}/compare/export/?with={then.pk}")
    assert "edge case" in exported.content.decode()


def test_case_page_lists_tags_as_filters(web, folder):
    write(folder.path, "set.evalset.json", evalset(*tagged_cases()))
    page = html.parse(Client().get('/evals/counter/set/?q=tag:"edge case"').content)
    assert [row.text for row in page.all(css="case-name")] == ["a"]
    assert [" ".join(link.text.split()) for link in page.all("a", css="case-tag")] == [
        "billing 2",
        "edge case 1",
        "untagged 1",
    ]


@pytest.fixture
def tagged_echo(echo):
    answered = [("a", "a", ["billing"]), ("b", "x", ["billing", "slow"]), ("c", "c", [])]
    document = evalset(*(case(name, turn(name, answer), devui_tags=tags) for name, answer, tags in answered))
    write(echo, "s.evalset.json", document)
    return echo


JUDGED = ("--metrics=response_match_score", "--criteria=response_match_score=1")


def test_command_line_runs_cases_with_a_tag_and_shows_slices(store, tagged_echo):
    code, out = run_evals(tagged_echo, "s", *JUDGED, "--tags=slow,billing")
    assert (code, EvalRun.objects.get().total) == (1, 2)
    assert "  tag billing: 2 cases, 50 % passed (9 % to 91 %)\n" in out
    assert "  tag slow: 1 case, 0 % passed (0 % to 79 %)\n" in out
    assert run_evals(tagged_echo, "s", *JUDGED, "--tags=untagged")[0] == 0
    assert EvalRun.objects.latest("created_at").total == 1


def test_unknown_tag_is_refused_before_anything_runs(store, tagged_echo):
    assert usage_error(tagged_echo, "s", "--tags=bill") == (
        "No case has the tag 'bill'.\nTags of the cases: billing, slow."
    )
    assert "--tags names no tag." in usage_error(tagged_echo, "s", "--tags=,")
    assert "--tags cannot be given" in usage_error(tagged_echo, "--resume=last", "--tags=slow")
    assert not EvalRun.objects.exists()


def test_tags_choose_cases_before_shards_deal_them(store, tagged_echo):
    run_evals(tagged_echo, "s", *JUDGED, "--tags=billing", "--shard=1/2")
    assert EvalRun.objects.get().total == 1
