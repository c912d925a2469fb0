"""Pages of evals, requested as a browser does."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from evals_app.files import library
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs import dispatch
from evals_app.runs.writes.runs import claim_run
from evals_app.views import evalsets
from sessions_app.agent_processes import processes
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import RuntimeUnavailable
from tests.evals.builders import case, evalset, turn, write
from tests.evals.conftest import Process
from tests.evals.web_pages import get_page, start_run
from tests.pages.html import parse
from tests.patience import PATIENCE_S


async def test_the_list_shows_evalsets_broken_files_and_the_newest_run(web, process, folder, smoke):
    write(folder.path, "broken.evalset.json", '{\n "eval_set_id": 3,\n "eval_cases": []}')
    await start_run(web)
    page = await get_page(web, "/evals/")
    rows = page.one("table", css="evalset-table").one("tbody").all("tr")
    assert [row.one("a", css="row-link").text for row in rows] == ["broken", "smoke"]
    assert "counter/broken.evalset.json:2 eval_set_id must be text, not 3" in rows[0].text
    assert "failed" in rows[1].text
    assert "1/3" in rows[1].text


async def test_evalsets_are_sorted_and_exported(web, folder, smoke):
    write(folder.path, "more.evalset.json", evalset(case("one", turn("hi")), eval_set_id="more"))
    page = await get_page(web, "/evals/?sort=-cases&hide=ran")
    rows = page.one("table", css="evalset-table").one("tbody").all("tr")
    assert [row.one("td", data_label="Cases").text for row in rows] == ["3", "1"]
    assert [row.one("td", data_label="App").one("a").attrs["href"] for row in rows] == [
        "/agents/counter/"
    ] * 2
    assert "When" not in page.one("thead").text
    lines = (await web.get("/evals/evalsets.csv?sort=cases&hide=ran")).text.splitlines()
    assert lines == ["name,app,cases,run", "more,counter,1,", "smoke,counter,3,"]


async def test_evalsets_are_sorted_by_their_newest_run(web, process, folder, smoke):
    write(folder.path, "more.evalset.json", evalset(case("one", turn("hi")), eval_set_id="more"))
    await start_run(web)
    for sort, expected in {
        "ran": ["more", "smoke"],
        "-ran": ["smoke", "more"],
        "-run": ["smoke", "more"],
    }.items():
        page = await get_page(web, f"/evals/?sort={sort}")
        assert [link.text for link in page.all("a", css="row-link")] == expected
    [first, *_] = (await get_page(web, "/evals/?sort=name")).all("a", css="row-link")
    assert first.text == "more"


async def test_app_without_evalsets_offers_those_of_all_apps(web, folder, smoke):
    empty = (await get_page(web, "/evals/?app=nobody")).one(css="empty")
    assert empty.one("h2").text == "No evalset matches"
    assert empty.one("a").attrs["href"] == "?"


async def test_runs_of_an_evalset_are_sorted_and_paged(web, process, smoke, monkeypatch):
    monkeypatch.setattr(evalsets, "RUNS_SHOWN", 1)
    for _ in range(2):
        await start_run(web)
    address = "/evals/counter/smoke/"
    newest = (await get_page(web, address)).one(id="evalset-runs")
    oldest = (await get_page(web, f"{address}?runs-sort=created")).one(id="evalset-runs")
    assert newest.one("tbody").one("tr").attrs["id"] != oldest.one("tbody").one("tr").attrs["id"]
    further = f"{address}{oldest.one('a', rel='next').attrs['href']}"
    part = await get_page(web, further, HX_Request="true", HX_Target="evalset-runs")
    assert not part.all("html")
    assert part.one("tbody").one("tr").attrs["id"] == newest.one("tbody").one("tr").attrs["id"]


async def test_runs_of_an_evalset_are_exported(web, process, smoke):
    await start_run(web)
    runs = (await get_page(web, "/evals/counter/smoke/?runs-hide=code")).one(id="evalset-runs")
    heads, row = (
        await web.get(runs.one("details", css="table-menu").all("a")[-1].attrs["href"])
    ).text.splitlines()
    assert heads == "outcome,created,duration"
    assert row.startswith("done,20")


async def test_empty_list_explains_how_to_create_evalsets(web):
    assert "smoke.evalset.json" in (await get_page(web, "/evals/")).one(css="empty").text


async def test_evalset_lists_cases_and_opens_one(web, smoke):
    page = await get_page(web, "/evals/counter/smoke/?case=1")
    assert [name.text for name in page.all("span", css="case-name")] == ["good", "bad <script>", "breaks"]
    opened = page.one(id="case-body-1")
    assert 'get_weather(city="Rome", unit="<c>")' in opened.text
    assert "starts with 1 state key" in opened.text
    part = await get_page(web, "/evals/counter/smoke/?case=0", HX_Request="true", HX_Target="case")
    assert not part.all("html")
    assert "It is sunny" in part.text


async def test_form_offers_metrics_and_marks_unavailable_ones(web, smoke, folder):
    write(
        folder.path,
        "test_config.json",
        {"criteria": {"tool_trajectory_avg_score": {"threshold": 0.9, "match_type": "ANY_ORDER"}}},
    )
    form = (await get_page(web, "/evals/counter/smoke/")).one("form", id="run-form")
    chosen = [box.attrs["value"] for box in form.all("input", name="metric") if "checked" in box.attrs]
    assert chosen == ["tool_trajectory_avg_score"]
    assert form.one("input", name="threshold:tool_trajectory_avg_score").attrs["value"] == "0.9"
    match_type = form.one("select", name="option:tool_trajectory_avg_score:match_type")
    assert match_type.one("option", selected="").attrs["value"] == "ANY_ORDER"
    assert "needs the vertex extra" in form.text


async def test_a_run_started_from_the_page_is_shown_case_by_case(web, process, smoke):
    response = await start_run(web)
    assert process.asked == [("POST", "/devui/evals")]
    page = await get_page(web, response.url)
    assert page.one("p", css="outcome-count").text.startswith("1 of 3 passed")
    rows = page.one("tbody", id="cases").all("tr", css="case")
    assert [row.attrs["data-status"] for row in rows] == ["failed", "error", "passed"]
    assert "RuntimeError: <b>on fire</b>" in rows[1].text
    assert "data-live" not in page.one(id="summary").attrs
    file_order = await get_page(web, f"{response.url}?order=file")
    assert [row.one("th").one("a").text for row in file_order.one(id="cases").all("tr", css="case")] == [
        "good",
        "bad <script>",
        "breaks",
    ]
    failed = await get_page(web, f"{response.url}?status=failed")
    assert len(failed.one(id="cases").all("tr", css="case")) == 1


async def test_an_attempt_shows_expected_beside_actual_and_its_session(web, process, smoke):
    response = await start_run(web)
    first = (await get_page(web, response.url)).one(id="cases").all("tr", css="case")[0].one("th").one("a")
    url = f"{response.url}{first.attrs['href']}"
    part = await get_page(web, url, HX_Request="true", HX_Target="attempt")
    article = part.one("article")
    assert article.one(id="attempt-title").text == "bad <script>"
    assert [
        status.attrs["data-status"] for status in article.one("table", css="verdicts").all(css="badge")
    ] == ["failed", "failed"]
    pair = article.one("tr", css="pair")
    assert {"wrong", "first", "pair-args"} <= pair.classes
    assert [element.text for element in pair.all(css="removed")] == ['city="Rome"', 'unit="<c>"']
    assert [element.text for element in pair.all(css="added")] == ['city="Paris"']
    assert "It rains." in article.one("div", css="answers").text
    [session] = [
        link.attrs["href"]
        for link in article.all("a", css="button-small")
        if link.attrs["href"].startswith("/sessions/id/")
    ]
    event = next(a for a in pair.all("a"))
    assert event.attrs["href"].startswith(f"{session}?seq=")


async def test_failed_attempt_shows_error_traceback_and_events(web, process, smoke):
    response = await start_run(web, case=["breaks"])
    row = (await get_page(web, response.url)).one(id="cases").one("tr", css="case")
    page = await get_page(web, response.url + row.one("th").one("a").attrs["href"])
    notice = page.one("article").one("div", css="notice-danger")
    assert "RuntimeError: <b>on fire</b>" in notice.text
    assert "raise RuntimeError" in notice.one("pre").text
    assert "never" in page.one("div", css="answers").text


async def test_only_selected_cases_run_and_choices_are_remembered(web, process, smoke):
    response = await start_run(
        web,
        case=["good"],
        num_runs="3",
        options=["tool_trajectory_avg_score"],
        judge_model="judge-x",
        judge_samples="2",
        **{
            "option:tool_trajectory_avg_score:match_type": "IN_ORDER",
            "option:tool_trajectory_avg_score:ignore_args": "1",
        },
    )
    run = await units_of_work.read(EvalRun.objects.get)
    assert (run.total, json.loads(run.case_ids)) == (3, ["good"])
    assert json.loads(run.config)["criteria"]["tool_trajectory_avg_score"] == {
        "threshold": 1.0,
        "match_type": "IN_ORDER",
        "ignore_args": True,
    }
    assert "changed in the form" in run.config_source
    page = await get_page(web, response.url)
    assert len(page.all("a", css="repetition")) == 3


async def test_judge_of_the_form_is_used(web, process, smoke):
    await start_run(
        web,
        metric=["final_response_match_v2"],
        judge_model="judge-yes",
        judge_samples="2",
        case=["good"],
        **{"threshold:final_response_match_v2": "0.5"},
    )
    run = await units_of_work.read(EvalRun.objects.get)
    assert json.loads(run.config)["criteria"]["final_response_match_v2"]["judge_model_options"] == {
        "judge_model": "judge-yes",
        "num_samples": 2,
    }
    assert run.passed == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metric": []}, "No metric is chosen."),
        ({"threshold:response_match_score": "7"}, "outside its range 0 to 1"),
        ({"threshold:response_match_score": "much"}, "is no number: 'much'"),
        ({"num_runs": "many"}, "is no whole number: 'many'"),
        ({"num_runs": "0"}, "Repetitions must be 1 to"),
        ({"parallelism": "1000"}, "Parallelism must be 1 to 64"),
        ({"case": ["nobody"]}, "has no case 'nobody'"),
        ({"metric": ["nonsense"], "threshold:nonsense": "1"}, "There is no metric 'nonsense'"),
    ],
)
async def test_invalid_form_shows_errors_on_the_page(web, process, smoke, fields, message):
    response = await start_run(web, status=404 if "case" in fields else 400, **fields)
    alert = parse(response.content).one("div", css="notice", role="alert")
    assert message in alert.text
    assert not await units_of_work.read(EvalRun.objects.exists)


async def test_a_broken_file_cannot_be_run(web, process, folder):
    write(folder.path, "smoke.evalset.json", "{")
    page = await get_page(web, "/evals/counter/smoke/")
    assert "is no JSON" in page.one("div", css="notice-danger").text
    await start_run(web, status=400)


async def test_run_without_process_says_so(web, smoke):
    class Nobody(Process):
        async def client(self, app_name):
            raise RuntimeUnavailable("The process could not be started.", hint="Look at the log.")

    runs.register(Nobody(None))
    response = await start_run(web)
    page = await get_page(web, response.url)
    assert (
        "RuntimeUnavailable: The process could not be started." in page.one("div", css="notice-danger").text
    )
    assert page.one(css="page-head").one(css="badge").text == "could not run"


async def test_a_run_that_is_not_there_cannot_be_cancelled(web, smoke):
    assert (await web.post("/evals/runs/nobody/cancel/")).status_code == 404


async def test_a_run_that_waits_can_be_cancelled(web, smoke):
    class Slow(Process):
        async def call(self, method, path, body=None):
            return None

    runs.register(Slow(None))
    response = await start_run(web, settle=False)
    page = await get_page(web, response.url)
    assert page.one(id="summary").attrs["data-live"].startswith("/ws/evals/runs/")
    answer = await web.post(page.one(id="summary").all("form")[0].attrs["action"])
    assert answer.status_code == 302
    page = await get_page(web, response.url)
    assert page.one(css="page-head").one(css="badge").text == "cancelled"
    assert "data-live" not in page.one(id="summary").attrs


async def test_a_run_is_exported(web, process, smoke):
    response = await start_run(web)
    for kind, start_of in (("json", b'{\n  "runs"'), ("junit", b"<?xml"), ("html", b"<!doctype html>")):
        answer = await web.get(f"{response.url}export/{kind}/")
        assert answer.content.lstrip().startswith(start_of)
        assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert b"<script>" not in answer.content
    assert (await web.get(f"{response.url}export/exe/")).status_code == 404


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/evals/counter/none/", "'counter' has no evalset 'none'"),
        ("/evals/runs/none/", "No eval run 'none'"),
        ("/evals/nobody/none/", "'nobody' has no evalset 'none'"),
    ],
)
async def test_missing_object_has_a_404_page(web, url, expected):
    assert expected in (await get_page(web, url, status=404)).text


async def test_an_attempt_of_another_run_is_refused(web, process, smoke):
    first, other = await start_run(web), await start_run(web)
    theirs = await units_of_work.read(lambda: EvalAttempt.objects.filter(run=other.url.split("/")[3]).first())
    await get_page(web, f"{other.url}?attempt={theirs.pk}")
    for attempt in (theirs.pk, "abc", "²", "9" * 30):
        page = await get_page(web, f"{first.url}?attempt={attempt}", status=404)
        assert f"The run has no attempt '{attempt}'." in page.one("main").text
    await get_page(web, f"{first.url}?attempt={'9' * 5000}", status=404)


async def test_ids_may_hold_any_character(web, process, folder, smoke):
    smoke.rename(folder.path / "a b&c%2F?.evalset.json")
    page = await get_page(web, "/evals/")
    link = page.one("a", css="row-link").attrs["href"]
    assert link == "/evals/counter/a%20b&c%252F%3F/"
    await units_of_work.write(library.refresh, folder, "counter")
    assert await units_of_work.read(EvalSet.objects.filter(evalset_id="a b&c%2F?").exists)


async def test_a_process_that_does_not_react_to_a_cancel_is_ended(web, smoke, monkeypatch):
    monkeypatch.setattr(dispatch, "CANCEL_GRACE_S", 0.05)
    ended = asyncio.Event()

    class Blocked(Process):
        async def call(self, method, path, body=None):
            await units_of_work.write(processes.register, "r" * 32, "counter", 1, "v1")
            await units_of_work.write(claim_run, body["eval_run_id"], "r" * 32)

        async def end_process(self, runtime_id, why):
            self.asked.append((runtime_id, why))
            ended.set()
            return True

    blocked = Blocked(None)
    runs.register(blocked)
    response = await start_run(web, settle=False)
    await web.post(f"{response.url}cancel/")
    await asyncio.wait_for(ended.wait(), PATIENCE_S)
    ((runtime_id, why),) = blocked.asked
    assert runtime_id == "r" * 32
    assert "did not react" in why
    assert (await units_of_work.read(EvalRun.objects.get)).status == EvalRun.Status.CANCELLED


async def test_lists_show_the_beginning_and_the_end_of_an_endless_id(web, process, folder):
    endless = "begins-" + "x" * 3200 + "-ends"
    write(folder.path, "long.evalset.json", evalset(case(endless, turn("Paris", "Paris"))))
    response = await start_run(web, "long")
    run = await units_of_work.read(EvalRun.objects.get)
    for url in (response.url, "/evals/counter/long/", f"/evals/counter/long/trend/?run={run.id}"):
        page_text = (await get_page(web, url)).one("main").text
        assert re.search("begins-x{50,180}…x+-ends", page_text), url
        assert endless not in page_text
    attempt = await units_of_work.read(run.attempts.get)
    assert endless in (await get_page(web, f"{response.url}?attempt={attempt.pk}")).text
