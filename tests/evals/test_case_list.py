"""List of cases on an evalset's page: search by id and text, and pagination, without scripts."""

from __future__ import annotations

import json

import pytest

from evals_app.cases.case_list import PAGE_SIZE, CaseList
from evals_app.models import EvalRun
from sessions_app.store.database import units_of_work
from tests.evals import builders
from tests.evals.builders import case, evalset, turn
from tests.evals.web_pages import start_run
from tests.pages.html import parse

MANY = 1000


@pytest.fixture
def many(web, folder):
    cases = [
        case(f"case_{number}", turn(f"Question {number}", f"Answer {number * 7}")) for number in range(MANY)
    ]
    builders.write(folder.path, "many.evalset.json", evalset(*cases))
    return web


async def page_at(web, query=""):
    response = await web.get(f"/evals/counter/many/{query}")
    assert response.status_code == 200
    return response.content.decode()


def names(html):
    return [element.text for element in parse(html).all(css="case-name")]


async def test_very_many_cases_come_a_page_at_a_time(many):
    first = await page_at(many)
    assert names(first) == [f"case_{number}" for number in range(PAGE_SIZE)]
    assert "Page 1 of 10" in first
    assert "Run all 1,000 cases" in first
    assert len(first) < 200_000
    last = await page_at(many, "?page=10")
    assert names(last)[-1] == "case_999"
    assert names(await page_at(many, "?page=99")) == names(last)
    assert 'href="?page=9"' in last


async def test_cases_are_searched_by_id_and_by_any_text(many):
    assert names(await page_at(many, "?q=CASE_77")) == [
        "case_77",
        *[f"case_77{digit}" for digit in range(10)],
    ]
    assert names(await page_at(many, "?q=answer+6993")) == ["case_999"]
    nothing = await page_at(many, "?q=user_content")
    assert names(nothing) == []
    assert "No case matches" in nothing
    assert 'value="user_content"' in nothing
    assert "Run all 1,000 cases" in nothing


async def test_a_case_that_is_opened_is_on_the_page_that_is_shown(many):
    html = await page_at(many, "?case=512")
    assert "Page 6 of 10" in html
    assert "Answer 3584" in html


async def test_only_matching_cases_are_run(many, process):
    html = await page_at(many, "?q=case_77")
    assert "Run all 11 cases that match" in html
    await start_run(many, "many", metric=["response_match_score"], cases_with="case_77")
    run = await units_of_work.read(EvalRun.objects.get)
    assert run.total == 11
    assert json.loads(run.case_ids)[0] == "case_77"


async def test_a_text_that_no_case_has_runs_nothing(many, process):
    response = await start_run(many, "many", status=400, settle=False, cases_with="nowhere")
    [refusal] = parse(response.content.decode()).all(css="notice-danger")
    assert refusal.text.startswith("No case has 'nowhere' any more.")
    assert not await units_of_work.read(EvalRun.objects.exists)


def test_cases_of_unreadable_file_are_searched_by_listed_fields():
    summaries = [{"id": "a", "turns": 1, "scenario": False, "says": "Hello there"}]
    assert [row.id for row in CaseList.of(summaries, [], "HELLO").page] == ["a"]
    assert not CaseList.of(summaries, [], "gone").page
    assert CaseList.of([], [], "").page.paginator.num_pages == 1
