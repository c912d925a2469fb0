"""List of cases on an evalset's page: search by id and text, and pagination, without scripts."""

from __future__ import annotations

import json

import pytest

from evals_app.cases.case_list import CaseList
from evals_app.models import EvalRun
from evals_app.tables.case_columns import PAGE_SIZE
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
    assert [row.id for row in CaseList.search(summaries, [], "HELLO").cases] == ["a"]
    assert not CaseList.search(summaries, [], "gone").cases
    assert CaseList.search([], []).total == 0


@pytest.fixture
def tagged(web, folder):
    """An evalset of three cases with other tags and numbers of turns."""
    cases = [
        case("b", turn("one"), turn("two"), devui_tags=["slow"]),
        case("C", turn("three")),
        case("a", turn("=four"), turn("five"), turn("six"), devui_tags=["fast", "slow"]),
    ]
    builders.write(folder.path, "many.evalset.json", evalset(*cases))
    return web


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("", ["b", "C", "a"]),
        ("-position", ["a", "C", "b"]),
        ("case", ["a", "b", "C"]),
        ("-case", ["C", "b", "a"]),
        ("tags", ["a", "b", "C"]),
        ("-turns", ["a", "b", "C"]),
        ("turns", ["C", "b", "a"]),
    ],
)
async def test_cases_are_sorted_by_every_column_both_ways(tagged, sort, expected):
    page = await page_at(tagged, f"?sort={sort}")
    assert names(page) == expected


async def test_unknown_order_of_cases_is_refused(tagged):
    response = await tagged.get("/evals/counter/many/?sort=says")
    assert response.status_code == 400
    assert "Sort by one of position, case, tags, turns" in response.text


async def test_sorted_cases_keep_search_columns_and_order_of_runs(tagged):
    page = parse(await page_at(tagged, "?q=tag:slow&hide=tags&runs-sort=created"))
    assert (
        page.one("a", id="sort-case").attrs["href"] == "?q=tag%3Aslow&hide=tags&runs-sort=created&sort=case"
    )
    assert [head.text for head in page.one("table", css="case-table").one("thead").all("th")][1:] == [
        "No.",
        "Case",
        "Turns",
    ]
    [tag_link, *_] = page.all("a", css="case-tag")
    assert tag_link.attrs["href"] == "?q=tag%3Afast&hide=tags&runs-sort=created"
    assert page.one("input", form="cases-filters", name="hide").attrs["value"] == "tags"


async def test_page_of_an_opened_case_follows_the_order(many):
    page = await page_at(many, "?case=0&sort=-position")
    assert "Page 10 of 10" in page
    assert parse(page).one(id="case-body-0").text


async def test_cases_are_exported_in_the_order_of_the_list(tagged):
    page = parse(await page_at(tagged, "?q=tag:slow&sort=turns&hide=position"))
    csv_link = page.one(id="cases").one("details", css="table-menu").all("a")[-1]
    assert csv_link.attrs["href"].startswith("/evals/counter/many/cases.csv?")
    response = await tagged.get(csv_link.attrs["href"])
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.text.splitlines() == ["case,tags,turns", "b,slow,2", 'a,"fast, slow",3']


async def test_cases_of_an_unknown_evalset_are_not_exported(web, folder):
    assert (await web.get("/evals/counter/nothing/cases.csv")).status_code == 404
    assert (await web.get("/evals/counter/nothing/runs.csv")).status_code == 404


async def test_cases_that_cannot_be_run_have_no_boxes(tagged, folder):
    assert len(parse(await page_at(tagged)).all("td", css="pick")) == 3
    (folder.path / "many.evalset.json").unlink()
    assert not parse(await page_at(tagged)).all("td", css="pick")


async def test_search_without_cases_offers_all(tagged):
    empty = parse(await page_at(tagged, "?q=nothing&sort=case")).one(id="cases").one(css="empty")
    assert empty.one("h2").text == "No case matches"
    assert empty.one("a").attrs["href"] == "?sort=case"


async def test_part_of_the_page_has_the_sorted_cases_alone(tagged):
    headers = {"HX-Request": "true", "HX-Target": "cases"}
    response = await tagged.get("/evals/counter/many/?sort=case", headers=headers)
    assert names(response.text) == ["a", "b", "C"]
    assert "<html" not in response.text
    assert "run-form" not in response.text.replace('form="run-form"', "")
