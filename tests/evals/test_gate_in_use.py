"""The gate in ordinary situations: an evalset that passed, a change, and what `run_evals` then says of it.

Each test runs the command. Its exit code, the title of the summary and the files say the same.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from django.db import OperationalError

from evals_app.analysis import comparability
from evals_app.analysis.ci_gate import REGRESSION, Gate
from evals_app.analysis.exports import comparison_json
from evals_app.cases import version_contents
from evals_app.models import EvalAttempt, EvalRun, EvalSetVersion
from evals_app.runs import attempt_status
from evals_app.runs.writes import notes
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import run_evals, usage_error
from tests.store import finish_threads, saved_rows

AGENT = """
import json
import os
from pathlib import Path

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import errors, types


def world():
    return json.loads(Path({world!r}).read_text())


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        os.environ.get("GATE_STYLE")
        now = world()
        if now["status"]:
            raise errors.APIError(now["status"], {{"error": {{"message": "no", "status": "NO"}}}})
        if now["raises"]:
            raise RuntimeError("on fire")
        asked = llm_request.contents[-1].parts[0].text
        answer = now["answer"] if asked not in now["fails"] else "wrong"
        content = types.Content(role="model", parts=[types.Part(text=answer)])
        yield LlmResponse(content=content, model_version=now["version"])


class Judge(BaseLlm):
    @classmethod
    def supported_models(cls):
        return ["{judge}"]

    async def generate_content_async(self, llm_request, stream=False):
        now = world()
        verdict = "hm" if now["babbles"] else '{{"is_the_agent_response_valid": "valid"}}'
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=verdict)]))


LLMRegistry.register(Judge)
root_agent = LlmAgent(
    name="gate", model=Scripted(model={model!r}), instruction=lambda context: world()["instruction"]
)
"""

PASSING = {
    "answer": "right answer of the agent",
    "fails": [],
    "instruction": "Answer.",
    "version": "1",
    "raises": False,
    "status": 0,
    "babbles": False,
}
CASES, REPETITIONS = 6, 3
MATCH = ("--metrics=response_match_score", "--criteria=response_match_score=0.8")
COMPARED = ("--baseline=previous", "--fail-on=regression")
_numbers = itertools.count()


class Project:
    """An agent with an evalset, which behaves as a file outside of its folder says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"gate_{next(_numbers)}"
        self.world = folder / "world.json"
        self.judge = f"verdicts-of-{self.folder.name}"
        self.write_files()

    def write_files(self):
        """Write the files of an agent that passes, and no others."""
        shutil.rmtree(self.folder.parent)
        self.folder.parent.mkdir()
        self.names = [f"c{number}" for number in range(CASES)]
        self.behave()
        self.write_agent()
        self.write_cases(self.names)

    def behave(self, **changes):
        self.world.write_text(json.dumps(PASSING | changes))

    def fail(self, **changes):
        self.behave(answer="wrong", **changes)

    def write_agent(self, comment="", model="scripted"):
        text = AGENT.format(world=str(self.world), judge=self.judge, model=model)
        write(self.folder, "agent.py", f"# {comment}\n{text}")

    def write_cases(self, names, expected=PASSING["answer"]):
        cases = [case(name, turn(name, expected)) for name in names]
        write(self.folder, "draws.evalset.json", evalset(*cases, eval_set_id="draws"))

    def run(self, *options, metrics=MATCH, repetitions=REPETITIONS, cases="draws"):
        """Run the evalset; return the exit code, what was printed, and the files."""
        files = {name: self.folder.parent / f"{name}.out" for name in ("markdown", "junit", "json")}
        file_options = [f"--{name}={path}" for name, path in files.items()]
        code, printed = run_evals(
            self.folder, cases, f"--num-runs={repetitions}", *metrics, *options, *file_options
        )
        comment = files["markdown"].read_text()
        junit = ElementTree.fromstring(files["junit"].read_text())
        return SimpleNamespace(
            code=code,
            printed=printed,
            comment=comment,
            title=comment.splitlines()[0].removeprefix("### "),
            junit=junit,
            junit_gate=next(
                (item for item in junit.iter("testcase") if "earlier runs" in item.get("name")), None
            ),
        )

    def judge_now(self, **more):
        return self.run(*COMPARED, **more)


PassedProject = tuple[Project, Callable[[], None]]


@pytest.fixture(scope="module")
def passed_project(module_store: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PassedProject]:
    """An agent and its evalset, which passed once in all attempts, and a function that inserts the rows of this run."""
    project = Project(tmp_path_factory.mktemp("project"))
    assert project.run().code == 0
    finish_threads()
    with saved_rows() as insert_rows:
        yield project, insert_rows


@pytest.fixture
def project(passed_project: PassedProject, store: None) -> Project:
    """The project as it was after its first run."""
    project, insert_rows = passed_project
    insert_rows()
    project.write_files()
    version_contents._read_content.cache_clear()  # the keys of its rows are those of the test before
    version_contents.read_fixtures.cache_clear()
    comparability._read_cases.cache_clear()
    return project


def says_failed(result):
    assert (result.code, result.title) == (1, "Evals failed")
    assert result.comment.splitlines()[2].startswith("❌ ")
    assert result.junit_gate.find("failure").get("message") == "Evals failed"
    assert "\nEvals failed\n" in result.printed
    return True


def says_not_compared(result, title="Evals not compared"):
    assert result.code == 3, result.printed
    assert result.title.startswith(title)
    assert result.comment.splitlines()[2].startswith("⚠️ ")
    assert result.junit_gate.find("error").get("type") == "not compared"
    assert "not compared" in result.printed
    return True


def test_everything_passes_as_before(project):
    result = project.judge_now()
    assert (result.code, result.title) == (0, "Evals passed")
    assert result.comment.splitlines()[2].startswith("✅ ")
    assert result.junit_gate.find("failure") is None


def test_new_code_that_fails(project):
    project.write_agent("changed")
    project.fail()
    assert says_failed(project.judge_now())


def test_fall_with_the_same_code_has_an_external_cause(project):
    project.fail()
    result = project.judge_now()
    assert says_failed(result)
    assert "The code is the same: an external cause." in result.comment
    assert "the code is the same: an external cause" in result.printed.lower()


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"instruction": "Answer wrong, always."}, "requests"),
        ({"version": "2"}, "model version"),
    ],
)
def test_change_outside_of_the_folder_is_named(project, change, difference):
    project.fail(**change)
    result = project.judge_now()
    assert says_failed(result)
    assert f"What differs: {difference}" in result.comment


def test_environment_variable_that_the_agent_reads_is_named(project, monkeypatch):
    monkeypatch.setenv("GATE_STYLE", "polite")
    project.run()
    monkeypatch.setenv("GATE_STYLE", "rude")
    project.fail()
    result = project.judge_now()
    assert says_failed(result)
    assert "What differs: environment." in result.comment
    facts = comparison_json.comparison_facts(
        Gate("previous", REGRESSION).judge(EvalRun.objects.latest("created_at"))
    )
    [difference] = facts["differences"]
    assert (difference["what"], difference["before"]) == ("environment", "GATE_STYLE")


def test_changed_package_is_named(project):
    EvalRun.objects.update(packages=json.dumps({"google-adk": "0.0.1"}))
    project.fail()
    assert "What differs: packages." in project.judge_now().comment


@pytest.mark.parametrize("change", [{"raises": True}, {"answer": "wrong"}], ids=["raises", "wrong"])
def test_other_model_or_broken_agent(project, change):
    project.write_agent(model="other")
    project.behave(**change)
    result = project.judge_now()
    assert says_failed(result)
    assert "What differs: code" in result.comment


@pytest.mark.parametrize("status", [401, 403])
def test_missing_key_is_said_and_not_blamed_on_the_agent(project, status):
    project.behave(status=status)
    result = project.judge_now()
    assert result.code == 1
    assert "18 of 18 attempts have no outcome" in result.printed
    assert f"No access to scripted: {status}" in result.printed
    assert "regressed" not in result.printed


def test_changed_threshold_judges_stored_scores_again(project):
    project.fail()
    assert says_failed(project.judge_now(metrics=(MATCH[0], "--criteria=response_match_score=0.81")))


def test_stricter_threshold_that_earlier_runs_miss_is_no_regression(project):
    project.behave(answer="right answer of an agent")
    project.run()
    strict = (MATCH[0], "--criteria=response_match_score=0.95")
    result = project.judge_now(metrics=strict)
    assert (result.code, result.title) == (0, "No regression: 18 of 18 attempts fail, as before")


def test_added_metric_leaves_the_others_comparable(project):
    project.fail()
    more = ("--metrics=response_match_score,tool_trajectory_avg_score", MATCH[1])
    assert says_failed(project.judge_now(metrics=more))


def test_added_metric_that_alone_fails_is_not_compared(project):
    config = project.folder / "stricter.json"
    function = {"code_config": {"name": "tests.evals.own_metrics.says_sunny"}}
    criteria = {"response_match_score": 0.8, "sunny": 1.0}
    config.write_text(json.dumps({"criteria": criteria, "custom_metrics": {"sunny": function}}))
    result = project.judge_now(metrics=(f"--config={config}",))
    assert says_not_compared(result)
    assert "It fails only sunny, by which the earlier run was not judged." in result.printed


def test_edited_cases_are_not_compared_and_named(project):
    project.write_cases(project.names, "another right answer")
    result = project.judge_now()
    assert says_not_compared(
        result, "Evals not compared; new or changed cases that fail: `c0`, `c1`, `c2` and 3 more"
    )
    assert "The case was changed between the two runs." in result.comment


def test_renamed_cases_are_not_compared_and_named(project):
    project.write_cases([f"new{number}" for number in range(CASES)])
    project.fail()
    result = project.judge_now()
    assert says_not_compared(result, "Evals not compared; new cases that fail: `new0`, `new1`")


def test_new_case_that_fails_beside_removed_ones_is_named(project):
    project.write_cases(["c0", "new"])
    project.behave(fails=["new"])
    result = project.judge_now(metrics=(*MATCH, "--min-compared=0.5"))
    assert (result.code, result.title) == (
        0,
        "No regression: 3 of 6 attempts fail; new case that fails: `new`",
    )
    gate = Gate("previous", REGRESSION, settings={"min_compared": 0.5})
    compared = gate.judge(EvalRun.objects.latest("created_at"))
    assert (compared.mark, "You need not do anything" in compared.explanation) == ("info", False)


def test_new_cases_are_not_compared_if_they_are_many(project):
    project.write_cases(["c0", "new"])
    project.behave(fails=["new"])
    assert says_not_compared(project.judge_now(), "Evals not compared; new case that fails: `new`")


def test_previous_looks_back_past_a_run_that_was_judged_otherwise(project):
    first = EvalRun.objects.get()
    project.run(metrics=("--metrics=tool_trajectory_avg_score",))
    project.fail()
    result = project.judge_now()
    assert says_failed(result)
    assert f"against run {first.pk[:8]}" in result.comment


def test_previous_is_no_run_of_a_single_case_or_of_a_test_suite(project):
    first = EvalRun.objects.get()
    project.run(cases="draws:c0")
    project.run()
    EvalRun.objects.filter(pk=EvalRun.objects.latest("created_at").pk).update(source="pytest")
    project.behave(fails=project.names[1:])
    result = project.judge_now()
    assert says_failed(result)
    assert f"against run {first.pk[:8]}" in result.comment


def test_run_of_chosen_cases_is_compared_with_earlier_runs_of_chosen_cases(store, tmp_path):
    project = Project(tmp_path)
    chosen = "draws:c0,c1,c2"
    assert project.run(cases=chosen).code == 0
    assert project.judge_now(cases=chosen).title == "Evals passed"
    project.fail()
    assert says_failed(project.judge_now(cases=chosen))


@pytest.mark.parametrize("error_type", [attempt_status.MODEL_UNAVAILABLE, attempt_status.NO_MODEL_ACCESS])
def test_previous_looks_back_past_a_run_that_lost_attempts(project, error_type):
    project.write_agent("second")
    project.run()
    lost_attempts = EvalRun.objects.latest("created_at").attempts.filter(case_index__lt=2)
    lost_attempts.update(status=EvalAttempt.Status.ERROR, error_type=error_type)
    project.write_agent("third")
    project.fail()
    assert says_failed(project.judge_now())


def test_previous_looks_back_past_a_run_without_access(project):
    project.write_agent("second")
    project.behave(status=401)
    project.run()
    project.write_agent("third")
    project.fail()
    assert says_failed(project.judge_now())


def test_unreadable_judge_is_not_compared(project):
    config = project.folder / "judged.json"
    judged = {"threshold": 0.5, "judgeModelOptions": {"judgeModel": project.judge, "numSamples": 1}}
    config.write_text(json.dumps({"criteria": {"final_response_match_v2": judged}}))
    options = (f"--config={config}",)
    assert project.run(metrics=options).code == 0
    project.behave(babbles=True)
    result = project.judge_now(metrics=options)
    assert says_not_compared(result)
    assert "18 of 18 attempts are incomplete: " in result.printed


def test_run_that_stops_at_a_limit_fails(project):
    result = project.run("--limit=seconds=0.000001", *COMPARED)
    assert (result.code, result.title) == (1, "Evals failed")
    assert "The run is stopped at a limit." in result.printed


def test_merged_regression_fails_against_a_marked_baseline_only(project):
    first = EvalRun.objects.get()
    project.write_agent("regression")
    project.fail()
    project.run()
    project.write_agent("next")
    result = project.judge_now()
    assert (result.code, result.title) == (0, "No regression: 18 of 18 attempts fail, as before")
    assert result.comment.splitlines()[2].startswith("➖ ")
    assert result.junit.find("testsuite").get("failures") == "18"
    notes.mark_baseline(first.pk)
    assert says_failed(project.run("--baseline=baseline", "--fail-on=regression"))


def test_fallen_scores_fail_only_where_asked(project):
    project.names = [f"c{number}" for number in range(8)]
    project.write_cases(project.names, "a b c d e f g h i j")
    project.behave(answer="a b c d e f g h i j")
    project.run(repetitions=1)
    project.write_agent("vaguer")
    project.behave(answer="a b c d e f g h i k")
    result = project.judge_now(repetitions=1)
    assert (result.code, result.title) == (0, "Evals passed")
    assert "`response_match_score`: 1 → 0.9, worse" in result.comment
    assert "You need not do anything" not in result.comment
    scores = ("--baseline=" + EvalRun.objects.order_by("created_at")[1].pk, "--fail-on=scores")
    result = project.run(*scores, repetitions=1)
    assert result.code == 1
    assert "response_match_score fell from 1 to 0.9 over 8 cases" in result.printed
    assert project.run(*scores, "--score-tolerance=response_match_score=0.2", repetitions=1).code == 0


def test_first_run_without_a_pass_is_not_compared_even_if_allowed(store, tmp_path):
    project = Project(tmp_path)
    project.fail()
    result = project.run(*COMPARED, "--allow-no-baseline")
    assert (result.code, result.title) == (3, "Evals not compared")
    project.behave(fails=["c0"])
    EvalRun.objects.all().delete()
    result = project.run(*COMPARED, "--allow-no-baseline")
    assert (result.code, result.title) == (0, "No earlier run: 3 of 18 attempts fail")


def test_single_failing_case_is_unclear_and_said_in_the_title(project):
    project.write_agent("changed")
    project.behave(fails=["c0"])
    result = project.judge_now()
    assert (result.code, result.title) == (
        0,
        "No proven regression: 3 of 18 attempts fail, 1 case looks worse",
    )


def test_gate_counts_first_outcomes_after_a_retry(project):
    project.write_agent("changed")
    project.fail()
    assert says_failed(project.judge_now())
    failed = EvalRun.objects.latest("created_at")
    project.behave()
    code, _ = run_evals(project.folder, f"--retry={failed.pk}", *COMPARED)
    assert code == 1
    failed.refresh_from_db()
    assert (failed.passed, failed.failed) == (0, 18)


def test_page_and_api_say_the_same(project, client):
    project.fail()
    result = project.judge_now()
    run = EvalRun.objects.latest("created_at")
    page = client.get(f"/evals/runs/{run.pk}/compare/?with=previous").content.decode()
    facts = comparison_json.comparison_facts(Gate("previous", REGRESSION).judge(run))
    assert result.title in page
    assert "an external cause" in page
    assert (facts["title"], facts["exit_code"], facts["cause"]) == (
        "Evals failed",
        1,
        "The code is the same: an external cause.",
    )


def test_previous_looks_back_past_a_run_that_was_judged_by_some_of_the_metrics(project):
    both = ("--metrics=response_match_score,tool_trajectory_avg_score", MATCH[1])
    project.run(metrics=both)
    first = EvalRun.objects.latest("created_at")
    project.run()
    project.fail()
    result = project.judge_now(metrics=both)
    assert says_failed(result)
    assert f"against run {first.pk[:8]}" in result.comment


def test_title_has_hostile_names_in_one_short_line(project):
    names = ["new\nline", "\u202eleft", "x" * 3000]
    project.write_cases(["c0", *names])
    project.fail()
    project.run(*COMPARED, "--min-compared=0")
    title = Gate("previous", REGRESSION).judge(EvalRun.objects.latest("created_at")).title
    assert title.isprintable()
    assert "new line" in title
    assert len(title) < 300


def test_attempts_without_an_outcome_do_not_fail_as_before(project):
    project.run()
    run = EvalRun.objects.latest("created_at")
    run.attempts.filter(case_index=0).update(status=EvalAttempt.Status.CANCELLED)
    EvalRun.objects.filter(pk=run.pk).update(passed=15, cancelled=3)
    run.refresh_from_db()
    result = Gate("previous", REGRESSION).judge(run)
    assert (result.exit_code, result.title) == (0, "No regression: 3 of 18 attempts do not pass")
    assert (result.mark, "You need not do anything" in result.explanation) == ("info", False)


def test_cancelled_attempts_that_make_a_run_incomparable_have_to_run_again(project):
    project.run()
    run = EvalRun.objects.latest("created_at")
    run.attempts.filter(case_index__gt=1).update(status=EvalAttempt.Status.CANCELLED)
    EvalRun.objects.filter(pk=run.pk).update(passed=6, cancelled=12)
    run.refresh_from_db()
    result = Gate("previous", REGRESSION).judge(run)
    assert result.exit_code == 3
    assert "Run the evalset again, or accept fewer cases" in result.not_compared


def test_reasons_that_cases_share_are_written_once(project):
    project.fail()
    result = project.run("--baseline=previous", "--fail-on=any")
    assert result.code == 1
    assert result.printed.count("It failed 3 of 3 times now and passed in all 3 earlier attempts.") == 1
    assert "fails c0, c1, c2, c3, c4 and 1 more: It failed 3 of 3 times" in result.printed


def test_exceeded_limit_without_a_baseline_is_red_in_junit(project):
    result = project.run("--max-latency-p95=0")
    assert (result.code, result.title) == (1, "Evals failed")
    suite = result.junit.find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("19", "1")
    [failure] = suite.iter("failure")
    assert "more than 0 s (--max-latency-p95)" in failure.text


def test_run_that_could_not_run_is_red_in_junit(store, tmp_path):
    project = Project(tmp_path)
    project.write_agent("no\nraise RuntimeError('on fire')")
    result = project.run()
    assert (result.code, result.title) == (2, "Evals could not run")
    suite = result.junit.find("testsuite")
    assert (suite.get("errors"), suite.get("skipped")) == ("1", "18")
    [error] = suite.iter("error")
    assert (error.get("type"), error.get("message")) == ("could not run", "Evals could not run")


def test_missing_baseline_is_refused_before_a_run_is_retried(project):
    project.fail()
    project.run()
    count = EvalRun.objects.count()
    message = usage_error(project.folder, "--retry=last", "--baseline=nope", "--fail-on=regression")
    assert message.startswith("draws has no other run 'nope'.")
    assert EvalRun.objects.count() == count


def test_retry_is_no_baseline(project):
    project.fail()
    project.run()
    first = EvalRun.objects.latest("created_at")
    run_evals(project.folder, "--retry=last")
    retry = EvalRun.objects.get(source="retry")
    message = usage_error(project.folder, "draws", f"--baseline={retry.pk}", "--fail-on=regression", *MATCH)
    assert message == (
        f"Run {retry.pk} retries what failed in another run: its outcomes are no baseline.\n"
        f"Compare with the first run, {first.pk}."
    )


def test_cause_of_fallen_scores_is_said(project):
    project.names = [f"c{number}" for number in range(8)]
    project.write_cases(project.names, "a b c d e f g h i j")
    project.behave(answer="a b c d e f g h i j")
    project.run(repetitions=1)
    project.behave(answer="a b c d e f g h i k")
    result = project.run("--baseline=previous", "--fail-on=scores", repetitions=1)
    assert says_failed(result)
    assert "\n- The code is the same: an external cause.\n" in result.comment


def test_locked_store_is_said_in_one_line(project, monkeypatch):
    def lock(*_):
        raise OperationalError("database is locked") from sqlite_error

    sqlite_error = sqlite3.OperationalError("database is locked")
    sqlite_error.sqlite_errorname = "SQLITE_BUSY"
    monkeypatch.setattr("evals_app.management.commands.run_evals._create_runs", lock)
    message = usage_error(project.folder, "draws", *MATCH)
    assert "is busy" in message.splitlines()[0] or "locked" in message.splitlines()[0]


@pytest.mark.parametrize(
    ("model", "column", "text"), [(EvalRun, "config", "{"), (EvalSetVersion, "content", "{}")]
)
def test_earlier_rows_that_cannot_be_read_are_no_regression(project, model, column, text):
    model.objects.update(**{column: text})
    version_contents._read_content.cache_clear()
    project.write_cases(["c0", "other"])
    project.fail()
    message = usage_error(project.folder, "draws", *MATCH, *COMPARED)
    assert message.startswith("DevUI failed with ")
    assert "The store may have rows that DevUI did not write." in message


def test_baseline_that_is_deleted_during_a_run_is_not_compared(project, monkeypatch):
    def delete_others(console, run):
        EvalRun.objects.exclude(pk=run.pk).delete()

    monkeypatch.setattr("evals_app.cli.terminal.Console.write_retries", delete_others)
    baseline = EvalRun.objects.get().pk
    result = project.run(f"--baseline={baseline}", "--fail-on=regression")
    assert (result.code, result.title) == (3, "Evals not compared")
    assert f"draws has no other run '{baseline}'." in result.comment
