"""Pages, exports and REST API of results."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import pytest
from django.test import Client
from google.adk.evaluation.eval_result import EvalSetResult
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager

from evals_app.files import adk_results, library
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs import adk_imports
from evals_app.runs.deletion import delete_run
from evals_app.runs.writes.outcomes import MetricScore
from sessions_app.prices.list_prices import read_list_date
from sessions_app.store.models import AgentSession
from sessions_app.transfer.writers import ImportReport
from tests.evals import stored_runs
from tests.evals.builders import case, turn
from tests.evals.stored_runs import broken, cases, failing, passing
from tests.pages.html import parse

pytestmark = pytest.mark.django_db
OSLO = [{"name": "get_weather", "args": {"city": "Oslo", "unit": "c"}}]
HOSTILE = '=cmd()<b>"'


@pytest.fixture
def web(settings, folder):
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    return Client()


def get(web, url, status=200, **headers):
    response = web.get(url, headers=headers)
    assert response.status_code == status, response.content.decode()[:2000]
    return parse(response.content)


@pytest.fixture
def two():
    """A run in which everything passed twice, and one after it that is worse."""
    names = ("falls", "shakes", HOSTILE)
    of = stored_runs.version(cases(*names))
    before = stored_runs.run(of, {name: [passing(), passing()] for name in names})
    after = stored_runs.run(
        of,
        {
            "falls": [failing(OSLO)] * 2,
            "shakes": [passing(), failing()],
            HOSTILE: [broken("a\nb")] * 2,
        },
        code="v2",
    )
    return before, after


@pytest.fixture
def history(two):
    """An earlier run of the code that passed, with so many repetitions that the later run is significantly worse."""
    mixed = [passing(), failing()] * 6
    earlier = stored_runs.run(
        two[0].version, {"falls": [passing()] * 12, "shakes": mixed, HOSTILE: [passing()] * 12}
    )
    EvalRun.objects.filter(pk=earlier.pk).update(created_at=two[0].created_at - 1)
    return earlier


def test_a_run_shows_rates_causes_and_groups(web, two):
    page = get(web, f"/evals/runs/{two[1].pk}/")
    assert page.one("div", css="figure-rate").one("strong").text == "17 %"
    heads = [head.one(css="cause-head-text").text for head in page.all("tr", css="cause-head")]
    assert heads == ["get_weather: not called", "get_weather: other city, unit", "RuntimeError: a"]
    assert [link.one(css="cause-text").text for link in page.one(css="causes").all("a")] == heads
    narrowed = get(web, f"/evals/runs/{two[1].pk}/?mixed=1&q=SHAKES&metric=tool_trajectory_avg_score")
    assert [row.one("th").all("a")[0].text for row in narrowed.all("tr", css="case")] == ["shakes"]
    assert narrowed.one("input", name="mixed").attrs["value"] == "1"
    nothing = get(web, f"/evals/runs/{two[1].pk}/?q=nothing")
    assert "No case matches" in nothing.one("section", css="matrix").text


def test_a_page_of_a_run_is_about_its_app(web, two):
    for address in ("", "compare/?with=previous"):
        page = get(web, f"/evals/runs/{two[1].pk}/{address}")
        assert page.one("details", css="app-switcher").one("summary").text == "counter"
        places = {link.text: link.attrs["href"] for link in page.one("nav", css="places").all("a")}
        assert places["Sessions"] == "/sessions/?app=counter"


def test_only_one_short_line_of_a_run_is_a_live_region(web, two):
    attempt = EvalAttempt.objects.filter(run=two[1]).first()
    page = get(web, f"/evals/runs/{two[1].pk}/?attempt={attempt.pk}").one("main")
    live = [item for item in page if item.attrs.get("aria-live") or item.attrs.get("role") == "status"]
    assert [item.attrs["id"] for item in live] == ["run-announcer"]


def test_attempt_shows_arguments_repetitions_and_duration(web, two):
    attempt = EvalAttempt.objects.get(run=two[1], case_id="falls", repetition=2)
    attempt.by_model = json.dumps({"m": {"prompt": 3, "output": 4, "cached": 0, "calls": 1}})
    attempt.save()
    page = get(web, f"/evals/runs/{two[1].pk}/?attempt={attempt.pk}").one("article")
    classes_by_argument = {
        row.one("dt").text: row.classes & {"same", "differs"}
        for row in page.one("tr", css="pair-arguments").one("dl").all("div")
    }
    assert classes_by_argument == {"city": {"differs"}, "unit": {"differs"}}
    assert "0 of 2 passed" in page.one(css="repeated").text
    assert "unknown" in page.one(css="spent").text


def test_different_state_is_shown_beside_expected_state(web):
    checks = [
        {"path": "n", "expected": 1, "actual": 2, "turn": None, "matches": False},
        {"path": "user:k", "expected": "x", "turn": 0, "matches": False},
        {"path": "fine", "expected": [1], "actual": [1], "turn": None, "matches": True},
    ]
    score = MetricScore(0, "devui_state_match", None, 1 / 3, 1.0, "failed", details={"state": checks})
    config = {"criteria": {"devui_state_match": 1.0}}
    run = stored_runs.run(
        stored_runs.version(cases("a")), {"a": [stored_runs.Outcome("failed", scores=[score])]}, config=config
    )
    page = get(web, f"/evals/runs/{run.pk}/?attempt={run.attempts.get().pk}")
    section = page.one("section", css="state-checks")
    assert "2 of 3 not as expected" in section.text
    rows = section.one("tbody").all("tr")
    assert "12" in rows[0].one("td").text.replace(" ", "").replace("→", "")
    assert "no value" in rows[1].one("td").text
    assert "after turn 1" in rows[1].text


def test_two_runs_are_shown_side_by_side_with_links(web, two, history):
    before, after = two
    page = get(web, f"/evals/runs/{after.pk}/compare/")
    assert [
        row.one("span", css="badge").text
        for row in page.one("table", css="compare-table").one("tbody").all("tr")
    ] == [
        "regressed",
        "regressed",
        "flaky",
    ]
    links = [
        link for link in page.one("table", css="compare-table").all("a") if "case-toggle" not in link.classes
    ]
    assert {link.attrs["href"].split("?")[0] for link in links} == {
        f"/evals/runs/{before.pk}/",
        f"/evals/runs/{after.pk}/",
    }
    assert "exact permutation test" in page.one(css="versus-effect").text
    only = get(web, f"/evals/runs/{after.pk}/compare/?with={before.pk}&verdict=flaky")
    assert len(only.one("table", css="compare-table").one("tbody").all("tr")) == 1
    filtered_page = get(web, f"/evals/runs/{after.pk}/compare/?with={before.pk}&q=FALLS")
    assert [
        row.one("th").text for row in filtered_page.one("table", css="compare-table").one("tbody").all("tr")
    ] == ["falls"]
    get(web, f"/evals/runs/{after.pk}/compare/?with=nothing", 404)


def test_run_without_counterpart_explains_comparisons(web):
    run = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    assert "only finished run" in get(web, f"/evals/runs/{run.pk}/compare/").one(css="empty").text


@pytest.mark.usefixtures("store")
def test_a_baseline_is_marked_and_the_next_run_is_held_to_it(web, two, history):
    before, after = two
    assert web.post(f"/evals/runs/{before.pk}/baseline/", {"baseline": "1"}).status_code == 302
    against = get(web, f"/evals/runs/{after.pk}/").one("p", css="against")
    assert "2 regressed" in against.text
    assert "1 flaky" in against.text
    row = get(web, f"/evals/runs/{after.pk}/?q=falls").one("tr", css="case")
    assert row.one("th").one(css="badge-danger").text == "regressed"
    attempt = after.attempts.filter(case_id="falls").first()
    page = get(web, f"/evals/runs/{after.pk}/?attempt={attempt.pk}").one("article")
    assert "regressed" in page.one(css="repeated").text
    web.post(f"/evals/runs/{before.pk}/baseline/", {"baseline": "0"})
    assert not get(web, f"/evals/runs/{after.pk}/").all("p", css="against")


@pytest.mark.usefixtures("store")
def test_notes_are_stored_and_shown_unchanged(web, two):
    run = two[1]
    attempt = run.attempts.first()
    web.post(f"/evals/runs/{run.pk}/note/", {"note": " <i>after</i> the change "})
    web.post(f"/evals/runs/{run.pk}/attempts/{attempt.pk}/note/", {"note": "judge was wrong"})
    page = get(web, f"/evals/runs/{run.pk}/?attempt={attempt.pk}")
    assert [note.text for note in page.all("span", css="note-text")] == [
        "<i>after</i> the change",
        "judge was wrong",
    ]
    assert page.one("svg", aria_label="has a note")
    assert web.post(f"/evals/runs/{two[0].pk}/attempts/{attempt.pk}/note/", {"note": "x"}).status_code == 404


def test_a_trend_is_drawn_with_links_to_its_runs(web, two):
    page = get(web, "/evals/counter/kept/trend/")
    drawn = page.one("svg", css="trend")
    assert [link.attrs["href"] for link in drawn.all("a")] == [f"/evals/runs/{run.pk}/" for run in two]
    assert len(drawn.all("circle", css="trend-mark")) == 1
    levels = [
        cell.one("a").classes & {"heat-all", "heat-none", "heat-some"}
        for cell in page.all("td", css="heat-cell")
    ]
    assert levels[:2] == [{"heat-all"}, {"heat-none"}]
    empty = EvalSet.objects.create(app_name="counter", evalset_id="empty")
    assert "No run has ended" in get(web, f"/evals/counter/{empty.evalset_id}/trend/").one(css="empty").text


def test_prices_page_names_file_and_models_without_price(web, two, folder):
    assert "list price" in get(web, "/evals/prices/").one(css="prices-used").text
    file = folder.root / "prices.toml"
    file.write_text('[[price]]\nmodel = "scripted"\ninput = 1.5\noutput = 3\n')
    page = get(web, "/evals/prices/")
    assert str(file) in page.text
    assert "USD 1.50 in, USD 3.00 out" in page.text
    file.write_text('[[price]]\nmodel = "other"\ninput = "x"\noutput = 3\n')
    broken_file = get(web, "/evals/prices/")
    assert "price[0].input must be a number" in broken_file.one(css="notice-danger").text
    assert "unknown" in broken_file.one("tbody").text


def export(web, run, kind):
    answer = web.get(f"/evals/runs/{run.pk}/export/{kind}/")
    assert answer.status_code == 200
    assert "attachment" in answer["Content-Disposition"]
    return answer.content.decode()


def test_a_run_leaves_as_csv_that_no_spreadsheet_takes_for_formulas(web, two):
    rows = list(csv.DictReader(io.StringIO(export(web, two[1], "csv"))))
    assert len(rows) == 6
    assert [row["case"] for row in rows[-2:]] == [f"'{HOSTILE}"] * 2
    assert (rows[0]["status"], rows[0]["cause"], rows[0]["cost"]) == (
        "failed",
        "get_weather: other city, unit",
        "",
    )
    assert rows[0]["tool_trajectory_avg_score"] == "0.0"


def test_a_run_leaves_as_json_with_rates_and_as_junit_with_causes(web, two):
    body = json.loads(export(web, two[1], "json"))["runs"][0]
    assert body["rate"]["pass_hat_k"] == {"1": pytest.approx(1 / 6), "2": 0.0}
    assert body["attempts"][0]["cost"] is None
    suite = ElementTree.fromstring(export(web, two[1], "junit"))[0]
    assert suite[0][0].get("type") == "get_weather: other city, unit"


def test_costs_in_two_currencies_are_called_so(web):
    of = stored_runs.version(cases("a"))
    euros, dollars = (
        {"currency": name, "price": [{"model": "m", "input": 1.0, "output": 1.0}]} for name in ("EUR", "USD")
    )
    stored_runs.run(of, {"a": [passing(cost=1.0, total_tokens=5)]}, prices=euros)
    after = stored_runs.run(of, {"a": [passing(cost=2.0, total_tokens=5)]}, prices=dollars)
    amounts = get(web, f"/evals/runs/{after.pk}/compare/").one("section", css="versus-amounts")
    assert "cost in two currencies" in amounts.text
    again = stored_runs.run(of, {"a": [passing(cost=2.0, total_tokens=5)]}, prices=dollars)
    amounts = get(web, f"/evals/runs/{again.pk}/compare/").one("section", css="versus-amounts")
    assert "USD 2.00 → 2.00 the same" in amounts.text


@pytest.mark.usefixtures("store")
def test_report_is_one_page_with_matrix_and_baseline(web, two, history):
    web.post(f"/evals/runs/{two[0].pk}/baseline/", {"baseline": "1"})
    web.post(f"/evals/runs/{two[1].pk}/note/", {"note": "after <b>the</b> change"})
    page = parse(export(web, two[1], "html").encode())
    assert page.one("title").text == "counter / kept, eval report"
    assert "after <b>the</b> change" in page.text
    assert "0 passes at 1" in page.text
    assert len(page.one("table", css="matrix").all("tr")) == 7
    assert page.one("div", css="wide").one("table"), "scrolls by itself in a narrow window"
    assert "2 regressed, 1 flaky" in page.text
    assert not page.all("script")
    assert not page.all("link")


def test_rubric_shows_the_reasons_of_its_turns(web):
    metric = "rubric_based_final_response_quality_v1"

    def rubric_score(turn_of, score, why):
        rubric = {"rubric_id": "r", "text": "It greets.", "score": score, "rationale": why}
        return MetricScore(0, metric, turn_of, score, 1.0, "failed", details={"rubrics": [rubric]})

    scores = [
        rubric_score(None, 0.5, "an aggregated score"),
        rubric_score(0, 1.0, "It says hello."),
        rubric_score(1, 0.0, "It is curt."),
    ]
    turns = [turn("hi", "hello"), turn("bye", "no")]
    outcome = stored_runs.Outcome("failed", scores=scores, actual=turns)
    run = stored_runs.run(
        stored_runs.version([case("a", *turns)]), {"a": [outcome]}, config={"criteria": {metric: 1.0}}
    )
    page = get(web, f"/evals/runs/{run.pk}/?attempt={run.attempts.get().pk}")
    reasons = [text.text for text in page.one("table", css="verdicts").all("span", css="rationale")]
    assert reasons == ["Turn 1, 1: It says hello.", "Turn 2, 0: It is curt."]
    assert "Turn 2, 0: It is curt." in parse(export(web, run, "html").encode()).text


def test_run_is_exported_as_a_file_that_adk_reads(web, folder):
    score = MetricScore(0, "response_match_score", None, 0.75, 0.5, "passed")
    rubric = MetricScore(
        1, "rubric_based_final_response_quality_v1", None, 1.0, 0.5, "passed",
        details={"rubrics": [{"rubric_id": "r", "rationale": "it greets", "score": 1.0}]},
    )  # fmt: skip
    turns = [turn("Paris", "Sunny.", stored_runs.PARIS)]
    criterion = {"threshold": 0.5, "x_y": {"aB": 1}}
    config = {"criteria": {score.metric: {"threshold": 0.5}, rubric.metric: criterion}}
    run = stored_runs.run(
        stored_runs.version(
            [case("a", turn("Paris", "Sunny!", stored_runs.PARIS)), case("b", turn("x", "y"))]
        ),
        {"a": [stored_runs.Outcome("passed", scores=[score, rubric], actual=turns)] * 2, "b": [broken()] * 2},
        config=config,
    )
    history = folder.path / adk_results.HISTORY
    history.mkdir(parents=True)
    name = f"counter_kept_{run.created_at}"
    (history / f"{name}{adk_results.SUFFIX}").write_text(export(web, run, "adk"))

    manager = LocalEvalSetResultsManager(str(folder.root))
    assert manager.list_eval_set_results("counter") == [name]
    read = manager.get_eval_set_result("counter", name)
    assert isinstance(read, EvalSetResult)
    first = read.eval_case_results[0]
    assert [(result.metric_name, result.score) for result in first.overall_eval_metric_results] == [
        ("response_match_score", 0.75),
        (rubric.metric, 1.0),
    ]
    per_turn = first.eval_metric_result_per_invocation[0]
    assert per_turn.actual_invocation.intermediate_data.tool_uses[0].args == {"city": "Paris"}
    assert per_turn.expected_invocation.final_response.parts[0].text == "Sunny!"
    stored = json.loads((history / f"{name}{adk_results.SUFFIX}").read_text())["eval_case_results"][0]
    assert stored["overall_eval_metric_results"][1]["criterion"] == criterion


def import_results(folder):
    """Import the results beside the agent `counter`; return the number of new runs."""
    report = ImportReport("adk web", str(folder.path))
    adk_imports.import_results("counter", folder.path, report)
    return report.eval_runs


def test_imported_case_with_unstorable_session_id_has_no_session(web, two, folder):
    run = two[1]
    result = json.loads(export(web, run, "adk"))
    for case_result in result["eval_case_results"]:
        case_result["session_id"] = "é" * 300
        case_result["session_details"] = {"id": "s", "app_name": "counter", "user_id": "u", "events": []}
    history = folder.path / adk_results.HISTORY
    history.mkdir(parents=True)
    (history / f"exported{adk_results.SUFFIX}").write_text(json.dumps(result))
    delete_run(run.pk)
    report = ImportReport("adk web", str(folder.path))
    adk_imports.import_results("counter", folder.path, report)
    assert report.eval_runs == 1
    assert all("longer than 512 bytes" in problem for problem in report.unread)
    assert not AgentSession.objects.filter(session_id__startswith="é").exists()


def test_exported_run_is_imported_only_after_its_deletion(web, two, folder):
    run = two[1]
    history = folder.path / adk_results.HISTORY
    history.mkdir(parents=True)
    (history / f"exported{adk_results.SUFFIX}").write_text(export(web, run, "adk"))
    assert import_results(folder) == 0

    delete_run(run.pk)
    assert import_results(folder) == 1
    imported_run = EvalRun.objects.get(source="import")
    counts = (imported_run.total, imported_run.passed, imported_run.failed, imported_run.num_runs)
    assert counts == (6, 1, 5, 2)
    attempt = imported_run.attempts.get(case_id="falls", repetition=1)
    assert json.loads(attempt.actual)[0]["intermediate_data"]["tool_uses"][0]["name"] == "get_weather"


def test_unknown_export_format_is_404(web, two):
    assert web.get(f"/evals/runs/{two[1].pk}/export/xls/").status_code == 404


API = "/api/v1/evals"


@pytest.mark.usefixtures("store")
def test_api_compares_marks_notes_and_returns_trend_and_prices(web, two, history):
    before, after = two

    def put(path, body, status=204):
        answer = web.put(f"{API}{path}", json.dumps(body), content_type="application/json")
        assert answer.status_code == status, answer.content

    assert web.get(f"{API}/runs/{after.pk}/compare").status_code == 404
    put(f"/runs/{before.pk}/baseline", {"baseline": True})
    body_json = web.get(f"{API}/runs/{after.pk}/compare").json()
    assert body_json["counts"] == {"regressed": 2, "flaky": 1}
    assert body_json["cases"][0]["before"]["passed"] == 2
    assert body_json["differences"] == [{"what": "code", "before": "v1", "after": "v2", "is_of_agent": True}]
    assert web.get(f"{API}/runs/{after.pk}/compare?with=previous").json()["before"] == before.pk
    put(f"/runs/{after.pk}/note", {"note": "n"})
    put(f"/attempts/{after.attempts.first().pk}/note", {"note": "n"})
    put("/attempts/0/note", {"note": "n"}, 404)
    put(f"/runs/{after.pk}/note", {"note": "x" * 10_001}, 422)
    trend = web.get(f"{API}/trend?app=counter&evalset=kept").json()
    assert [(point["rate"], point["note"]) for point in trend[1:]] == [(1.0, ""), (pytest.approx(1 / 6), "n")]
    assert web.get(f"{API}/prices").json()["list_date"] == read_list_date()
    assert library.find_evalset("counter", "kept").runs.get(baseline=True) == before


def test_junit_suite_time_includes_resumed_runs(web):
    run = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    EvalRun.objects.filter(pk=run.pk).update(started_at=1000.0, finished_at=1000.25, spent_seconds=31.25)
    suite = ElementTree.fromstring(export(web, run, "junit"))[0]
    assert suite.get("time") == "31.500"


def test_case_leaves_as_one_harmless_page_without_credentials(web):
    turns = [turn("Paris", "<script>alert(1)</script> The key is sk-1234567890abcdef.")]
    turns[0]["intermediate_data"] = {
        "tool_uses": [{"name": "login", "args": {"password": "correct horse, battery"}}]
    }
    of = stored_runs.version(cases(HOSTILE, "b"))
    outcome = stored_runs.Outcome("failed", actual=turns)
    run = stored_runs.run(of, {HOSTILE: [outcome] * 2, "b": [passing()] * 2})
    attempt = run.attempts.filter(case_id=HOSTILE).first()
    address = f"/evals/runs/{run.pk}/case/{attempt.pk}/export/"
    opened = get(web, f"/evals/runs/{run.pk}/?attempt={attempt.pk}")
    assert address in [link.attrs.get("href") for link in opened.all("a")]
    response = web.get(address)
    page = parse(response.content)
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert page.one("h1").text == HOSTILE
    assert len(page.all("details")) == 2
    assert "sk-1234567890abcdef" not in response.content.decode()
    assert "battery" not in page.text
    assert 'login(password="[redacted]")' in page.text
    assert "[redacted]" in page.text
    assert not [element for element in page if element.tag in {"script", "link", "img", "use", "iframe"}]
    policy = page.one("meta", http_equiv="Content-Security-Policy").attrs["content"]
    assert policy.startswith("default-src 'none'")
    get(web, f"/evals/runs/{run.pk}/case/{10**9}/export/", 404)
    whole_run = export(web, run, "html")
    assert "sk-1234567890abcdef" not in whole_run
    assert "correct horse" not in whole_run
