"""`manage.py run_evals`: exit codes, lines, files and refusals."""

from __future__ import annotations

import csv
import json
import logging
from xml.etree import ElementTree

import pytest
from django.core.management import CommandError

from evals_app.cli import results
from evals_app.execution.local_runner import quiet_logging
from evals_app.management.commands.run_evals import EvalsetArgument
from evals_app.models import EvalRun, EvalSet
from evals_app.runs import run_orders
from sessions_app.store.models import RuntimeProcess
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import EXAMPLE_AGENTS, run_evals, usage_error


def test_an_evalset_that_passes_exits_0(store):
    code, out = run_evals(EXAMPLE_AGENTS / "weather", "lookups")
    assert code == 0
    assert "weather/lookups.evalset.json: 7 cases" in out
    assert "7 of 7 passed" in out
    run = EvalRun.objects.get()
    assert (run.source, run.status, run.config_source) == ("command", "done", "ADK's defaults")
    assert RuntimeProcess.objects.get(pk=run.runtime_id).stopped_at


def test_failed_case_exits_1_and_names_the_metrics(store):
    code, out = run_evals(
        EXAMPLE_AGENTS / "weather", EXAMPLE_AGENTS / "weather" / "one_fails_on_purpose.evalset.json"
    )
    assert code == 1
    line = next(line for line in out.splitlines() if "fails_on_purpose " in line)
    assert line.split()[0] == "failed"
    assert "tool_trajectory_avg_score 0 < 1" in line


def test_case_names_cannot_control_the_terminal(store, tmp_path):
    write(tmp_path, "own.evalset.json", evalset(case("a\x1b]0;mine\x07\nb\u202e", turn("Hello", "Hello"))))
    _, out = run_evals(EXAMPLE_AGENTS / "weather", tmp_path / "own.evalset.json")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert r"a\u001b]0;mine\u0007 b\u202e" in out


def test_an_error_and_a_metric_that_cannot_run_exit_1(store):
    code, out = run_evals(EXAMPLE_AGENTS / "office", "raises_on_purpose")
    assert (code, "RuntimeError: The printer on floor 7 does not answer." in out) == (1, True)
    code, out = run_evals(
        EXAMPLE_AGENTS / "weather", "lookups:one_city", "--metrics", "safety_v1", "--criteria", "safety_v1=1"
    )
    assert (code, "needs the vertex extra" in out) == (1, True)


def test_cases_repetitions_and_thresholds_are_chosen(store):
    code, out = run_evals(
        EXAMPLE_AGENTS / "weather",
        "lookups:one_city,no_station",
        "--num_runs=3",
        "--parallelism=2",
        "--criteria=response_match_score=0.1",
    )
    run = EvalRun.objects.get()
    assert code == 0
    assert "2 cases × 3" in out
    assert "one_city #3" in out
    assert (run.total, run.num_runs, run.parallelism) == (6, 3, 2)
    assert json.loads(run.config)["criteria"] == {
        "tool_trajectory_avg_score": 1.0,
        "response_match_score": 0.1,
    }
    assert json.loads(run.case_ids) == ["one_city", "no_station"]


def test_option_config_overrides_the_file_beside_the_evalset(store, tmp_path):
    run_evals(EXAMPLE_AGENTS / "writer", "notes:code")
    assert EvalRun.objects.get().config_source == "writer/test_config.json"
    config = write(tmp_path, "mine.json", {"criteria": {"response_match_score": 0.2}})
    run_evals(EXAMPLE_AGENTS / "writer", "notes:code", "--config", config)
    assert EvalRun.objects.latest("created_at").config_source == str(config)


def test_results_are_written_as_json_junit_csv_and_html(store, tmp_path):
    write(
        tmp_path, "own.evalset.json", evalset(case("<b>&", turn("What is the weather in Paris?", "<script>")))
    )
    files = {name: tmp_path / "out" / f"r.{name}" for name in ("json", "junit", "csv", "html")}
    code, _ = run_evals(
        EXAMPLE_AGENTS / "weather",
        tmp_path / "own.evalset.json",
        EXAMPLE_AGENTS / "weather" / "lookups.evalset.json:one_city",
        *[f"--{name}={path}" for name, path in files.items()],
    )
    assert code == 1
    runs = json.loads(files["json"].read_text())["runs"]
    assert [run["evalset"] for run in runs] == ["own", "lookups"]
    attempt = runs[0]["attempts"][0]
    assert (attempt["case"], attempt["status"]) == ("<b>&", "failed")
    assert {metric["metric"] for metric in attempt["metrics"]} >= {"response_match_score", "token_usage_v1"}
    assert attempt["actual"][0]["final_response"]["parts"][0]["text"] == "It is sunny in Paris, 24 °C."

    suites = ElementTree.fromstring(files["junit"].read_text())
    assert [(suite.get("tests"), suite.get("failures")) for suite in suites] == [("1", "1"), ("1", "0")]
    assert suites[0][0].get("name") == "<b>&"
    assert "response_match_score" in suites[0][0][0].get("message", "")

    lines = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert [(line["evalset"], line["case"], line["status"]) for line in lines] == [
        ("own", "<b>&", "failed"),
        ("lookups", "one_city", "passed"),
    ]

    html = files["html"].read_text()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;&amp;" in html
    assert "http" not in html.replace("http-equiv", "")


def test_an_agent_that_cannot_be_loaded_exits_2(store, tmp_path):
    (tmp_path / "broken_agent").mkdir()
    (tmp_path / "broken_agent" / "agent.py").write_text("import nothing_of_this_name\n")
    write(tmp_path / "broken_agent", "a.evalset.json", evalset(case("a", turn("x", "y"))))
    code, out = run_evals(tmp_path / "broken_agent", "a")
    assert code == 2
    assert "could not run ModuleNotFoundError" in out
    assert "nothing_of_this_name" in out


EXITS = """
import sys
from google.adk.agents import LlmAgent

def leave(callback_context, llm_request):
    sys.exit(4)

root_agent = LlmAgent(name="leaver", model="gemini-2.5-flash", before_model_callback=leave)
"""


def test_an_agent_that_calls_sys_exit_does_not_end_the_command(store, tmp_path):
    (tmp_path / "leaver").mkdir()
    (tmp_path / "leaver" / "agent.py").write_text(EXITS)
    cases = [case(name, turn("x", "y")) for name in ("a", "b", "c")]
    write(tmp_path / "leaver", "s.evalset.json", evalset(*cases))
    code, out = run_evals(tmp_path / "leaver", "s", "--parallelism=2")
    assert (code, out.count("The agent called sys.exit(4).")) == (1, 3)
    assert "0 of 3 passed, 3 error" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((EXAMPLE_AGENTS / "weather", "lookupz"), "There is no evalset 'lookupz'"),
        ((EXAMPLE_AGENTS / "weather", "lookups:nobody"), "has no case 'nobody'"),
        ((EXAMPLE_AGENTS, "lookups"), "name one of helper, office, shop, team, weather, writer"),
        ((EXAMPLE_AGENTS / "nowhere", "lookups"), "does not exist"),
        (
            (EXAMPLE_AGENTS / "weather", "lookups", "--metrics=tool_trajectory"),
            "Did you mean tool_trajectory_avg_score?",
        ),
        ((EXAMPLE_AGENTS / "weather", "lookups", "--metrics=safety_v1"), "no default threshold"),
        (
            (EXAMPLE_AGENTS / "weather", "lookups", "--criteria=response_match_score=7"),
            "outside its range 0 to 1",
        ),
        ((EXAMPLE_AGENTS / "weather", "lookups", "--num-runs=0"), "Repetitions must be 1 to"),
        ((EXAMPLE_AGENTS / "weather", "lookups", "--parallelism=0"), "Parallelism must be 1 to"),
        ((EXAMPLE_AGENTS / "weather", "lookups", "--config=nothing.json"), "there is no such file"),
    ],
)
def test_unrunnable_order_is_reported_before_any_run(store, arguments, message):
    assert message in usage_error(*arguments)
    assert not EvalRun.objects.exists()


def test_dead_link_to_an_evalset_is_named(store, tmp_path):
    link = tmp_path / "gone.evalset.json"
    link.symlink_to(tmp_path / "nowhere.json")
    message = usage_error(EXAMPLE_AGENTS / "weather", str(link))
    assert "is a link to" in message
    assert "nowhere.json', which does not exist" in message


def test_no_evalset_stays_pending_if_a_later_one_is_refused(store):
    assert "has no case 'nobody'" in usage_error(
        EXAMPLE_AGENTS / "weather", "lookups:one_city", "lookups:nobody"
    )
    assert not EvalRun.objects.exists()


def test_retry_accepts_only_another_parallelism(store):
    run_evals(EXAMPLE_AGENTS / "office", "raises_on_purpose")
    run_evals(EXAMPLE_AGENTS / "office", "--retry=last", "--parallelism=7")
    assert EvalRun.objects.get(source="retry").parallelism == 7
    error_text = usage_error(
        EXAMPLE_AGENTS / "office", "--retry=last", "--num-runs=2", "--criteria=response_match_score=0.1"
    )
    assert "--num-runs, --criteria" in error_text


def test_a_criterion_without_a_threshold_is_refused(store):
    with pytest.raises(CommandError, match="is no NAME=THRESHOLD"):
        run_evals(EXAMPLE_AGENTS / "weather", "lookups", "--criteria=response_match_score")


def test_a_broken_file_is_refused_by_line(store, tmp_path):
    path = write(tmp_path, "bad.evalset.json", '{"eval_set_id": "x",\n "eval_cases": [{"eval_id": "c"}]}')
    error_text = usage_error(EXAMPLE_AGENTS / "weather", path)
    assert f"{path}:2:17: case 'c': needs exactly one of conversation and conversation_scenario" in error_text


def test_file_that_becomes_unwritable_is_reported_and_results_remain(store, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "require_writable", lambda path, option: None)
    (tmp_path / "file").write_text("")
    assert "cannot be written" in usage_error(
        EXAMPLE_AGENTS / "weather", "lookups:one_city", f"--json={tmp_path}/file/r.json"
    )
    assert EvalRun.objects.get().passed == 1


@pytest.mark.parametrize(
    ("argument", "name", "cases"),
    [
        ("smoke", "smoke", ""),
        ("smoke-test:a,b", "smoke-test", "a,b"),
        ("smoke:a:1, b", "smoke", "a:1, b"),
        ("smoke:", "smoke", ""),
    ],
)
def test_an_evalset_is_named_with_its_cases(argument, name, cases):
    assert EvalsetArgument.parse(argument) == EvalsetArgument(name, cases)


def test_list_of_cases_that_is_too_long_for_a_file_name_is_parsed():
    cases = ",".join(f"customer_refund_case_{number:03}" for number in range(12))
    assert EvalsetArgument.parse(f"many:{cases}") == EvalsetArgument("many", cases)


def test_a_path_with_a_colon_is_a_path(tmp_path):
    path = write(tmp_path / "a:b", "c.evalset.json", {})
    assert EvalsetArgument.parse(str(path)) == EvalsetArgument(str(path))
    assert EvalsetArgument.parse(f"{path}:one") == EvalsetArgument(str(path), "one")


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("a,b", ["a,b"]),
        ("a", ["a"]),
        ("a,b,c", ["a,b", "c"]),
        ("c,a,b", ["c", "a,b"]),
        (" c , a", ["c", "a"]),
        ("  pad ", ["  pad "]),
        ("pad", ["pad"]),
        ("c,  pad ,a", ["c", "  pad ", "a"]),
        ("case,1:case,2", ["case,1:case,2"]),
        ("x, y", ["x, y"]),
        ("gone , a,b", ["gone", "a,b"]),
        (",", [","]),
        ("c,,a", ["c", "a"]),
        ("", []),
    ],
)
def test_ids_with_commas_and_blanks_are_chosen(text, chosen):
    ids = ["a,b", "a", "b", "c", "  pad ", "case,1:case,2", "x, y", ","]
    row = EvalSet(cases=json.dumps([{"id": case_id} for case_id in ids]))
    assert run_orders.split_case_ids(row, text) == chosen


def test_case_with_a_comma_in_its_id_runs(store, tmp_path):
    cases = [case(case_id, turn("hi", "hi")) for case_id in ("a,b", " a", "b")]
    path = write(tmp_path, "commas.evalset.json", evalset(*cases))
    _, out = run_evals(
        EXAMPLE_AGENTS / "office", f"{path}:a,b", f"{path}: a", "--metrics", "response_match_score"
    )
    assert [json.loads(run.case_ids) for run in EvalRun.objects.order_by("created_at")] == [
        ["a,b"],
        [" a"],
    ], out


def test_tracebacks_that_adk_logs_stay_out_of_the_results(monkeypatch, capfd):
    adk = logging.getLogger("google_adk")
    monkeypatch.setattr(adk, "handlers", [])
    with quiet_logging():
        try:
            raise RuntimeError("on fire")
        except RuntimeError:
            logging.getLogger("google_adk.nodes").exception("Node execution failed with exception")
    assert capfd.readouterr().err == ""
    assert adk.handlers == []
