"""Fixtures in the form of a case."""

from __future__ import annotations

import copy
import json

import pytest

from evals_app.files.fixtures import ToolFixtures
from tests.evals.builders import case, evalset, turn, write
from tests.evals.case_form_data import apply_form
from tests.evals.form_filling import Browser

FIXTURES = [
    {
        "tool_name": "list_mails",
        "injection_configs": [
            {
                "injected_error": {"injected_http_error_code": 504, "error_message": "Gateway time-out"},
                "injected_latency_seconds": 0.2,
                "devui_times": 1,
                "injection_probability": 0.5,
                "random_seed": 3,
            },
            {
                "match_args": {"folder": "in"},
                "devui_match_args": {"count": {"range": [1, None]}},
                "injected_response": {"mails": []},
            },
        ],
        "mock_strategy_type": 0,
    },
    {"tool_name": "search", "mock_strategy_type": 1},
    {"tool_name": "send", "injection_configs": [{"injected_response": {"status": "sent"}}]},
]


@pytest.fixture
def eval_case():
    return case("mails", turn("hi"), devui_fixtures=copy.deepcopy(FIXTURES))


def test_unchanged_form_keeps_fixtures(eval_case):
    form = apply_form(eval_case)
    assert (form.case["devui_fixtures"], form.errors) == (FIXTURES, {})


def test_each_field_of_a_fixture_can_be_changed_and_hidden_ones_stay(eval_case):
    changed = {
        "error": "Busy",
        "code": "503",
        "seconds": "1.5",
        "times": "2",
        "args": '{"folder": "out"}',
        "matchers": '{"count": {"type": "integer"}}',
    }
    form = apply_form(eval_case, **{f"fixtures__0__{name}": value for name, value in changed.items()})
    assert not form.errors
    [mails, *others] = form.case["devui_fixtures"]
    assert others == FIXTURES[1:]
    assert mails["injection_configs"][0] == {
        "injected_error": {"injected_http_error_code": 503, "error_message": "Busy"},
        "injected_latency_seconds": 1.5,
        "devui_times": 2,
        "injection_probability": 0.5,
        "random_seed": 3,
        "match_args": {"folder": "out"},
        "devui_match_args": {"count": {"type": "integer"}},
    }
    ToolFixtures.model_validate(mails)


def test_fixture_of_another_tool_moves_to_that_tool(eval_case):
    [mails, _, send] = apply_form(eval_case, fixtures__1__tool="send").case["devui_fixtures"]
    assert len(mails["injection_configs"]) == 1
    assert send["injection_configs"] == [
        FIXTURES[0]["injection_configs"][1],
        *FIXTURES[2]["injection_configs"],
    ]


def test_new_fixture_is_added_and_error_has_a_usual_status():
    form = apply_form(case("one", turn("hi")), fixtures__0__tool="pay", fixtures__0__error="No money")
    assert form.case["devui_fixtures"] == [
        {
            "tool_name": "pay",
            "injection_configs": [
                {"injected_error": {"injected_http_error_code": 500, "error_message": "No money"}}
            ],
        }
    ]


def test_case_without_fixtures_stays_without():
    assert "devui_fixtures" not in apply_form(case("one", turn("hi"))).case


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"tool": ""}, "tool", "Which tool is answered for?"),
        ({"result": "{"}, "result", "No JSON"),
        ({"result": "[1]"}, "result", "An object is needed"),
        ({"result": ""}, "result", "Write either a result"),
        ({"error": "too"}, "result", "Write either a result"),
        ({"seconds": "soon"}, "seconds", "'soon' is not a number."),
        ({"times": "1.5"}, "times", "'1.5' is not a whole number."),
    ],
)
def test_wrong_fixture_shows_error_at_its_field(changed, field, message):
    row = {"tool": "pay", "result": '{"ok": true}', **changed}
    form = apply_form(
        case("one", turn("hi")), **{f"fixtures__0__{name}": value for name, value in row.items()}
    )
    assert message in form.errors[f"fixtures.0.{field}"]


async def test_fixture_is_written_in_the_form_of_a_case(web, folder):
    write(folder.path, "set.evalset.json", json.dumps(evalset(case("one", turn("x")), eval_set_id="set")))
    browser = Browser(web)
    await browser.get("/evals/counter/set/case/?id=one")
    await browser.send("add:fixtures")
    typed = {"tool": "count", "result": '{"n": 1}', "matchers": '{"by": {"glob": "1"}}'}
    typed = {f"fixtures__0__{name}": value for name, value in typed.items()}
    page = await browser.send("review", status=400, **typed)
    assert "unknown matcher 'glob'" in page.text
    await browser.send("review", fixtures__0__matchers='{"by": {"range": [1, 2]}}')
    await browser.save()
    [saved] = json.loads((folder.path / "set.evalset.json").read_text())["eval_cases"]
    assert saved["devui_fixtures"] == [
        {
            "tool_name": "count",
            "injection_configs": [
                {"devui_match_args": {"by": {"range": [1, 2]}}, "injected_response": {"n": 1}}
            ],
        }
    ]
