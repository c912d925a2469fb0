"""Eval results that ADK stored beside an agent are imported once, as runs with scores, turns and sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.adk.evaluation.eval_case import Invocation
from google.adk.evaluation.eval_metrics import EvalMetricResult, EvalMetricResultPerInvocation, EvalStatus
from google.adk.evaluation.eval_result import EvalCaseResult
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

from evals_app.models import EvalAttempt, EvalRun, EvalSet
from sessions_app.store.models import AgentSession, StateChange, UserState
from sessions_app.transfer.writers import ImportReport, import_location
from tests.importers.import_jobs import wait_for_jobs
from tests.pages.html import parse


def content_of(text: str, role: str = "model") -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def result(metric: str, score: float | None, status: EvalStatus, threshold: float = 0.8) -> EvalMetricResult:
    return EvalMetricResult(metric_name=metric, score=score, eval_status=status, threshold=threshold)


def case_result(
    name: str, status: EvalStatus, *metrics: EvalMetricResult, session: str = "s"
) -> EvalCaseResult:
    turn = EvalMetricResultPerInvocation(
        actual_invocation=Invocation(
            user_content=content_of("hi", "user"), final_response=content_of("Hello Ann")
        ),
        expected_invocation=Invocation(
            user_content=content_of("hi", "user"), final_response=content_of("Hello")
        ),
        eval_metric_results=list(metrics),
    )
    event = Event(
        author="greeter",
        content=content_of("Hello Ann"),
        actions=EventActions(state_delta={"user:greeted": 1, "n": 2}),
    )
    stored_session = Session(
        id=session,
        app_name="greeter",
        user_id="ann",
        events=[event],
        state={"user:greeted": 1, "n": 2, "seed": "s"},
    )
    return EvalCaseResult(
        eval_set_id="manners",
        eval_id=name,
        final_eval_status=status,
        overall_eval_metric_results=list(metrics),
        eval_metric_result_per_invocation=[turn],
        session_id=session,
        session_details=stored_session,
        user_id="ann",
    )


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """The folder of the agent `greeter` after one run of the evalset `manners` in `adk web`."""
    rouge = "response_match_score"
    LocalEvalSetResultsManager(str(tmp_path)).save_eval_set_result(
        "greeter",
        "manners",
        [
            case_result("polite", EvalStatus.PASSED, result(rouge, 0.9, EvalStatus.PASSED), session="a"),
            case_result("polite", EvalStatus.FAILED, result(rouge, 0.1, EvalStatus.FAILED), session="b"),
            case_result("never_judged", EvalStatus.PASSED, session="c"),
        ],
    )
    return tmp_path / "greeter"


def result_file(agent: Path) -> Path:
    return next((agent / ".adk" / "eval_history").iterdir())


def import_folder(agent: Path) -> ImportReport:
    return import_location(str(agent))


def test_run_is_imported_with_attempts_scores_and_threshold(store, agent):
    assert import_folder(agent).eval_runs == 1

    run = EvalRun.objects.get()
    assert (run.app_name, run.evalset.evalset_id, run.source, run.status) == (
        "greeter",
        "manners",
        "import",
        "done",
    )
    assert (run.total, run.passed, run.failed, run.incomplete) == (3, 1, 1, 1)
    assert json.loads(run.config) == {"criteria": {"response_match_score": 0.8}}
    first = run.attempts.get(case_id="polite", repetition=1)
    overall, turn = first.results.order_by("invocation")
    assert {(overall.score, overall.status), (turn.score, turn.status)} == {(0.9, "passed")}


def test_case_passed_by_adk_without_verdict_is_incomplete(store, agent):
    report = import_folder(agent)

    assert EvalAttempt.objects.get(case_id="never_judged").status == EvalAttempt.Status.INCOMPLETE
    assert list(report.changed) == ["case never_judged: ADK says passed, but no metric did: incomplete"]


@pytest.mark.parametrize("score", ["NaN", "Infinity", "null"])
def test_pass_without_a_score_is_incomplete(store, agent, score):
    file = result_file(agent)
    file.write_text(file.read_text().replace(": 0.9", f": {score}"))
    import_folder(agent)
    first = EvalAttempt.objects.get(case_id="polite", repetition=1)
    assert first.status == EvalAttempt.Status.INCOMPLETE
    assert {(each.score, each.status) for each in first.results.all()} == {(None, "not_evaluated")}


def test_attempts_link_their_sessions_and_real_state_is_unchanged(store, agent):
    import_folder(agent)

    attempt = EvalAttempt.objects.get(case_id="polite", repetition=2)
    session = attempt.session
    assert (session.realm, session.session_id, session.last_seq) == (attempt.realm, "b", 1)
    assert not AgentSession.objects.filter(realm="").exists()
    assert not UserState.objects.filter(owner__realm="").exists()
    seeds = StateChange.objects.filter(session=session, seq=0)
    assert [(change.key, change.cause) for change in seeds] == [("seed", "import")]


def test_report_shows_expected_and_actual_answers(store, agent, client):
    import_folder(agent)
    run = EvalRun.objects.get()

    page = client.get(f"/evals/runs/{run.pk}/?attempt={run.attempts.get(case_id='polite', repetition=2).pk}")

    assert page.status_code == 200
    assert "Ann" in page.content.decode()


def test_data_that_adk_lacks_is_unknown_and_no_price_problem(store, agent, client):
    import_folder(agent)
    run = EvalRun.objects.get()

    figures = parse(client.get(f"/evals/runs/{run.pk}/").content).one("dl", css="figures")

    values = {figure.one("dt").text: figure.one("dd").text for figure in figures.all(css="figure")}
    assert values["Cost"] == "unknown adk web keeps no prices"
    assert values["Duration"] == "unknown"
    assert not figures.all("a")


def test_second_import_adds_nothing(store, agent):
    import_folder(agent)
    assert import_folder(agent).eval_runs == 0
    assert EvalRun.objects.count() == 1


def test_evalset_without_file_is_marked_as_removed(store, agent):
    import_folder(agent)
    assert EvalSet.objects.get().gone


def test_dry_run_counts_and_writes_nothing(store, agent):
    assert import_location(str(agent), dry_run=True).eval_runs == 1
    assert not EvalRun.objects.exists()


def test_older_format_with_json_in_a_string_is_read(store, agent):
    file = result_file(agent)
    file.write_text(json.dumps(file.read_text()))
    assert import_folder(agent).eval_runs == 1


def test_invalid_file_is_reported_and_others_are_imported(store, agent):
    (agent / ".adk" / "eval_history" / "a.evalset_result.json").write_text("{")
    (agent / ".adk" / "eval_history" / "b.evalset_result.json").write_text('{"eval_set_id": 1}')
    (agent / ".adk" / "eval_history" / "c.evalset_result.json").write_text("[]")

    report = import_folder(agent)

    assert report.eval_runs == 1
    a, b, c = report.unread
    assert a.startswith("a.evalset_result.json cannot be read: ")
    assert b.startswith("b.evalset_result.json: ")
    assert c.startswith("c.evalset_result.json: Input should be ")


def test_home_page_offers_imports(store, agent, client, settings):
    settings.DEVUI_AGENTS_DIR = str(agent.parent)
    (agent / "agent.py").write_text("")

    offer: Any = client.get("/imports/").content.decode()

    assert "stored eval results in the folder of" in offer


def test_imported_results_are_linked(store, agent, client, settings):
    settings.DEVUI_AGENTS_DIR = str(agent.parent)
    (agent / "agent.py").write_text("")
    client.post("/imports/start/", {"app": "greeter"})
    wait_for_jobs()

    links = parse(client.get("/imports/").content).one("form").all("a")

    assert [(link.text, link.attrs["href"]) for link in links] == [("Show the evals", "/evals/?app=greeter")]
