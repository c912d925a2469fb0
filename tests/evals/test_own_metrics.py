"""Metrics that DevUI or an installed package adds: in form, config, command line, scores, results and causes."""

from __future__ import annotations

import json
import logging
import textwrap
from pathlib import Path

import pytest
from google.adk.evaluation.eval_metrics import EvalMetric

from evals_app.cli.run_options import parse_criterion
from evals_app.execution.evaluators import MetricUnavailable, build_evaluator
from evals_app.metrics import catalog
from evals_app.metrics import config as configs
from evals_app.metrics.catalog import own_metrics
from evals_app.metrics.config import RunConfig
from evals_app.models import EvalAttempt, EvalRun
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from tests.evals.builders import case, evalset, turn
from tests.evals.conftest import wait_until_settled
from tests.evals.web_pages import get_page, start_run
from tests.parity.compare import compare

GROUP = "devui.metrics"
EXAMPLE = Path(__file__).parents[2] / "examples/plugin/src/devui_example_plugin"

WORDS = """
from evals_app.metrics.invocations import answer_text
from evals_app.metrics.own import MetricInput, MetricOutcome, Option, OwnMetric, Widget

async def score(data: MetricInput) -> MetricOutcome:
    scores = [float(data.options["word"] in answer_text(turn)) for turn in data.actual]
    details = {"word": data.options["word"]}
    turns = {turn: MetricOutcome(score) for turn, score in enumerate(scores)}
    return MetricOutcome(sum(scores) / len(scores), "looked for a word", details, turns)

metric = OwnMetric(
    name="word_found",
    description="Share of answers with a word.",
    score=score,
    default=0.75,
    options=(Option("word", "The word", Widget.TEXT, "sunny"),),
    cause=lambda details: f"the word {details['word']} is missing",
)
"""

NAMED = (
    "from evals_app.metrics.own import OwnMetric\nmetric = OwnMetric(name='{}', description='', score={})\n"
)
OUTCOME = "lambda data: __import__('evals_app.metrics.own').metrics.own.MetricOutcome({})"
SUNNY = evalset(case("a", turn("go", "It is sunny.")))


@pytest.fixture
def words(install_plugin):
    """An installed package with the metric `word_found`."""
    install_plugin(GROUP, "plugin_with_words", WORDS)


async def results_of(run, metric):
    def read():
        attempt = run.attempts.get()
        results = attempt.results.filter(metric=metric).order_by("invocation")
        return attempt, {result.invocation: result for result in results}

    return await units_of_work.read(read)


async def test_plugin_scores_attempt_and_its_turns(words, play):
    document = evalset(case("a", turn("go", "x"), turn("on", "y")))
    run = await play(
        document,
        lambda ctx, text: f"It is sunny, {text}." if text == "go" else "It rains.",
        {"word_found": 0.5},
    )
    attempt, results = await results_of(run, "word_found")
    assert attempt.status == EvalAttempt.Status.PASSED
    assert {number: (result.score, result.status) for number, result in results.items()} == {
        None: (0.5, "passed"),
        0: (1.0, "passed"),
        1: (0.0, "failed"),
    }
    assert results[None].reason == "looked for a word"
    assert json.loads(results[None].details) == {"word": "sunny"}


async def test_plugin_reads_its_option_and_names_the_cause(words, play):
    criterion = {"threshold": 0.5, "word": "rain"}
    run = await play(SUNNY, lambda ctx, text: "It is sunny.", {"word_found": criterion})
    attempt, results = await results_of(run, "word_found")
    assert (attempt.status, attempt.cause) == (EvalAttempt.Status.FAILED, "the word rain is missing")
    assert results[None].threshold == 0.5


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        ("lambda data: 1 / 0", "raised ZeroDivisionError: division by zero"),
        ("lambda data: float('nan')", "gave nan, which is no score."),
        ("lambda data: 7", "gave 7, which is outside its range 0 to 1."),
        ("lambda data: 'fine'", "returned str, not a number or a MetricOutcome."),
        ("lambda data: None", "returned NoneType, not a number or a MetricOutcome."),
        ("lambda data: exit(3)", "raised SystemExit: 3"),
        (
            "lambda data: __import__('evals_app.metrics.own').metrics.own.MetricOutcome('1')",
            "gave '1', which is no score.",
        ),
        (
            "lambda data: __import__('evals_app.metrics.own').metrics.own.MetricOutcome(1.0, details={1: {2}})",
            "gave details that are no JSON",
        ),
        (
            OUTCOME.format("1.0, turns={10**30: None}"),
            f"gave scores of the turns [{10**30}], which are no indexes from 0 to 0.",
        ),
        (OUTCOME.format("1.0, details={'state': 5}"), "gave details whose 'state' is no list of objects."),
        (
            OUTCOME.format("1.0, details={'state': [{'turn': 'last'}]}"),
            "gave details whose 'state' has a turn that is no index.",
        ),
        (
            OUTCOME.format("1.0, details={'rubrics': ['x']}"),
            "gave details whose 'rubrics' is no list of objects.",
        ),
    ],
)
async def test_plugin_without_a_score_never_passes(score, reason, install_plugin, play):
    install_plugin(GROUP, "bad_plugin", NAMED.format("bad_metric", score))
    run = await play(
        SUNNY, lambda ctx, text: "It is sunny.", {"bad_metric": 0.5, "response_match_score": 0.1}
    )
    attempt, results = await results_of(run, "bad_metric")
    assert (attempt.status, results[None].status) == (EvalAttempt.Status.INCOMPLETE, "not_evaluated")
    assert results[None].reason.startswith(f"The metric of bad_plugin {reason}")
    assert attempt.cause.startswith("bad metric gave no verdict")


async def test_metric_that_cannot_tell_where_it_applies_is_an_error(install_plugin, play):
    source = NAMED.format("bad_metric", "lambda data: 1.0, applies=lambda case: case['absent']")
    install_plugin(GROUP, "bad_plugin", source)
    run = await play(SUNNY, lambda ctx, text: "It is sunny.")
    attempt, results = await results_of(run, "bad_metric")
    assert (attempt.status, results[None].status) == (EvalAttempt.Status.INCOMPLETE, "not_evaluated")
    assert "raised KeyError" in results[None].reason


async def test_cause_that_raises_leaves_the_plain_one(install_plugin, play):
    source = NAMED.format("low_metric", "lambda data: 0.0, cause=lambda details: details['absent']")
    install_plugin(GROUP, "low_plugin", source)
    run = await play(SUNNY, lambda ctx, text: "It is sunny.", {"low_metric": 0.5})
    attempt, _ = await results_of(run, "low_metric")
    assert attempt.cause == "low metric: below its threshold"


@pytest.mark.parametrize("name", ["response_match_score", "devui_state_match", "word_found"])
def test_name_that_is_in_use_is_refused_and_logged(name, words, install_plugin, caplog):
    install_plugin(GROUP, "second_plugin", NAMED.format(name, "lambda data: 1.0"))
    with caplog.at_level(logging.ERROR):
        metric = catalog.all_metrics()[name]
    assert getattr(metric, "module", "") != "second_plugin"
    assert f"Another OwnMetric '{name}' is omitted: the name is in use." in caplog.text


@pytest.mark.parametrize(
    ("source", "logged"),
    [
        ("metric = 1", "names no OwnMetric"),
        (NAMED.format("two words", "len"), "A metric's name consists of letters, digits and underscores"),
        (NAMED.format("uncallable", "3"), "score of the metric uncallable is not callable"),
        (
            NAMED.format("endless", "len, default=float('nan')"),
            "a bound or the threshold of the metric endless",
        ),
        (NAMED.format("optional", "len, options=('word',)"), "an option of the metric optional is 'word'"),
        (NAMED.format("wordless", "len, otherwise=None"), "otherwise of OwnMetric is not text: None"),
        (NAMED.format("halved", "len, computed=chr(0xD800)"), "surrogates not allowed"),
        ("raise SystemExit(3)", "cannot be loaded"),
    ],
)
def test_plugin_that_names_no_metric_is_logged(source, logged, install_plugin, caplog):
    without_plugin = set(own_metrics())
    install_plugin(GROUP, "empty_plugin", source)
    with caplog.at_level(logging.ERROR):
        assert set(own_metrics()) == without_plugin
    assert logged in caplog.text


def test_config_file_with_unknown_option_is_refused(words):
    config = RunConfig({"criteria": {"word_found": {"threshold": 0.5, "wrod": "x"}}}, "test_config.json")
    with pytest.raises(BadInput, match=r"test_config.json: word_found has no option 'wrod'") as refused:
        configs.check_config(config)
    assert refused.value.hint == "Options: word."


def test_custom_function_of_the_file_wins_over_a_plugin_of_its_name(words, folder):
    custom = {"word_found": {"code_config": {"name": "tests.evals.own_metrics.says_sunny"}}}
    config = RunConfig({"criteria": {"word_found": 0.5}, "custom_metrics": custom}, "test_config.json")
    assert configs.check_config(config) == []


@pytest.mark.parametrize(
    ("settings", "criterion"),
    [
        (["word_found=0.5"], 0.5),
        (["word_found.word=rain"], {"threshold": 0.75, "word": "rain"}),
        (["word_found=0.5", "word_found.word=a=b"], {"threshold": 0.5, "word": "a=b"}),
    ],
)
def test_command_line_sets_threshold_and_options_of_a_plugin(settings, criterion, words):
    criteria = dict(parse_criterion(setting) for setting in settings)
    config = configs.choose_metrics(configs.default_config(), settings=criteria)
    assert config.criteria["word_found"] == criterion


@pytest.mark.parametrize(
    ("setting", "criterion"),
    [
        ("tool_trajectory_avg_score.match_type=in order", {"threshold": 1.0, "match_type": "IN_ORDER"}),
        ("tool_trajectory_avg_score.ignore_args=true", {"threshold": 1.0, "ignore_args": True}),
        ("tool_trajectory_avg_score.include_nested=true", {"threshold": 1.0, "include_nested": True}),
    ],
)
def test_command_line_sets_options_of_adks_metrics(setting, criterion):
    config = configs.choose_metrics(configs.default_config(), settings=dict([parse_criterion(setting)]))
    assert config.criteria["tool_trajectory_avg_score"] == criterion


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("word_found.wrod=x", "word_found has no option 'wrod'"),
        ("tool_trajectory_avg_score.match_type=SOMEHOW", "none of the choices"),
        ("tool_trajectory_avg_score.ignore_args=perhaps", "true or false, not 'perhaps'"),
        ("word_fuond=1", "There is no metric 'word_fuond'"),
    ],
)
def test_command_line_refuses_unknown_options_and_values(setting, problem, words):
    with pytest.raises(BadInput, match=problem):
        configs.choose_metrics(configs.default_config(), settings=dict([parse_criterion(setting)]))


async def test_plugin_is_chosen_in_the_form_and_shown_in_the_results(words, web, process, smoke):
    form = (await get_page(web, "/evals/counter/smoke/")).one("form", id="run-form")
    assert form.one("input", name="option:word_found:word").attrs["value"] == "sunny"
    await start_run(
        web,
        "smoke",
        metric=["word_found"],
        options=["word_found"],
        **{"threshold:word_found": "0.5", "option:word_found:word": "fog"},
    )
    await wait_until_settled()
    run = await units_of_work.read(EvalRun.objects.get)
    assert json.loads(run.config)["criteria"] == {"word_found": {"threshold": 0.5, "word": "fog"}}
    page = await get_page(web, f"/evals/runs/{run.id}/")
    assert "word found" in page.text
    assert "the word fog is missing" in page.text


async def test_metrics_of_plugins_are_listed_by_the_api(words, web):
    listed = (await web.get("/api/v1/evals/metrics")).json()
    own = {
        metric["name"]: (metric["kind"], metric["default"]) for metric in listed if metric["kind"] == "own"
    }
    assert own["devui_state_match"] == ("own", 1.0)
    assert own["word_found"] == ("own", 0.75)


def test_parity_does_not_count_metrics_that_adk_lacks(words):
    scores = [{"metric": name, "turn": None, "score": 1.0, "status": "passed"} for name in own_metrics()]
    attempt = {"case": "a", "repetition": 1, "status": "passed", "metrics": scores}
    assert compare([{"case": "a", "verdict": "passed", "metrics": []}], [attempt]).differences == []


def test_metric_whose_package_is_gone_says_so():
    with pytest.raises(MetricUnavailable, match="no metric 'word_found': is the package installed"):
        build_evaluator(EvalMetric(metric_name="word_found", threshold=0.5))


async def test_example_of_the_contributing_page_works(install_plugin, play):
    install_plugin(GROUP, "example_plugin", (EXAMPLE / "metrics.py").read_text())
    criterion = {"threshold": 1.0, "max_words": 3}
    run = await play(SUNNY, lambda ctx, text: "It rains in Paris.", {"example_brevity": criterion})
    attempt, results = await results_of(run, "example_brevity")
    assert (run.failed, attempt.cause) == (1, "an answer is too long")
    assert results[None].reason == "The longest answer has 4 words."


def test_contributing_page_shows_the_code_of_the_example():
    page = (EXAMPLE.parents[3] / "docs/contributing.md").read_text()
    code = (EXAMPLE / "metrics.py").read_text().partition("def score_brevity")
    assert textwrap.indent("".join(code[1:]), "   ") in page
