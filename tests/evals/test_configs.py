"""Configuration of a run: choice and validation of metrics, and errors with a way out."""

from __future__ import annotations

import pytest
from google.adk.evaluation import eval_config, metric_info_providers
from google.adk.evaluation.eval_metrics import MetricInfoProvider, PrebuiltMetrics, ToolTrajectoryCriterion

from evals_app.execution.evaluators import describe_metrics
from evals_app.files import BadFile
from evals_app.metrics import catalog
from evals_app.metrics import config as configs
from evals_app.metrics.catalog import all_metrics, suggest_name
from evals_app.metrics.config import RunConfig
from evals_app.metrics.criterion_options import JUDGE, with_value
from evals_app.metrics.metric import MetricKind
from sessions_app.store.errors import BadInput
from tests.evals.builders import write


def test_the_table_of_metrics_is_adks():
    assert set(catalog.ADK_METRICS) == {metric.value for metric in PrebuiltMetrics}
    assert set(catalog.INFORMATIONAL_METRICS) == set(eval_config._DEFAULT_EFFICIENCY_METRICS)
    assert configs.default_config().data["criteria"] == eval_config._DEFAULT_EVAL_CONFIG.criteria


def adk_metric_infos():
    """Return ADK's descriptions of metrics. One provider serves two metrics."""
    for name, provider in vars(metric_info_providers).items():
        if name == "ResponseEvaluatorMetricInfoProvider":
            for metric in ("response_evaluation_score", "response_match_score"):
                yield provider(metric).get_metric_info()
        elif name.endswith("MetricInfoProvider") and provider is not MetricInfoProvider:
            yield provider().get_metric_info()


def test_the_ranges_of_metrics_are_adks():
    infos = {info.metric_name: info for info in adk_metric_infos()}
    assert set(infos) == set(catalog.ADK_METRICS)
    for name, metric in catalog.ADK_METRICS.items():
        interval = infos[name].metric_value_info.interval
        assert (metric.low, metric.high) == (
            (interval.min_value, interval.max_value) if interval else (None, None)
        )
        assert (metric.kind is MetricKind.INFORMATIONAL) == (not infos[name].requires_threshold)


def test_every_renamed_metric_exists_under_its_new_name():
    assert set(catalog.FORMER_NAMES.values()) <= set(all_metrics())
    assert not set(catalog.FORMER_NAMES) & set(all_metrics())


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("tool_trajectory", "tool_trajectory_avg_score"),
        ("tool_trajectory_score", "tool_trajectory_avg_score"),
        ("response_match", "response_match_score"),
        ("final_response_match", "final_response_match_v2"),
        ("final_response_match_v1", "response_match_score"),
        ("response_quality", "rubric_based_final_response_quality_v1"),
        ("rubric_based_tool_use", "rubric_based_tool_use_quality_v1"),
        ("Hallucination", "hallucinations_v1"),
        ("hallucination_score", "hallucinations_v1"),
        ("safety", "safety_v1"),
        ("user_simulator_quality", "per_turn_user_simulator_quality_v1"),
        ("multi_turn_tool_use_quality", "multi_turn_tool_use_quality_v1"),
        ("token_usage", "token_usage_v1"),
        ("response_match_scor", "response_match_score"),
        ("state_match", "devui_state_match"),
        ("zzz", ""),
    ],
)
def test_an_unknown_metric_is_answered_with_the_right_name(wrong, right):
    assert suggest_name(wrong, all_metrics()) == right


def test_an_unknown_metric_is_refused():
    with pytest.raises(BadInput, match="no metric 'tool_trajectory'") as refused:
        configs.check_config(RunConfig({"criteria": {"tool_trajectory": 1.0}}, "x"))
    assert refused.value.hint == "Did you mean tool_trajectory_avg_score?"


@pytest.mark.parametrize("threshold", [4.0, -0.1, float("inf"), float("nan")])
def test_invalid_threshold_is_refused(threshold):
    with pytest.raises(BadInput, match="rubric_based_final_response_quality_v1"):
        configs.check_config(
            RunConfig({"criteria": {"rubric_based_final_response_quality_v1": {"threshold": threshold}}}, "x")
        )


JUDGED = "final_response_match_v2"
TOOLS = "tool_trajectory_avg_score"


@pytest.mark.parametrize(
    ("metric", "message", "expected", "way_out"),
    [
        (TOOLS, {"match_type": "EXCAT"}, "not one of EXACT, IN_ORDER, ANY_ORDER", "Did you mean EXACT?"),
        (TOOLS, {"matchType": "in_ordr"}, "'in_ordr'", "Did you mean IN_ORDER?"),
        (TOOLS, {"match_type": 3}, "is 3, which is not one of", "Write one of them."),
        (TOOLS, {"ignore_args": "perhaps"}, "not true or false", "Correct it or omit it."),
        (JUDGED, {"judge_model_options": {"num_samples": "many"}}, "not a whole number", "Correct it"),
        (JUDGED, {"judge_model_options": {"num_samples": 0}}, "is 0, .* of at least 1", "Correct it"),
        (JUDGED, {"judgeModelOptions": {"judgeModel": 7}}, "judge_model of final_.* is 7", "Correct it"),
        (
            JUDGED,
            {"judge_model_options": {"num_samples": None}},
            "num_samples of .* is null or NaN",
            "Correct",
        ),
        (JUDGED, {"judge_model_options": None}, "judge_model of .* is null or NaN", "Correct it"),
        (
            "rubric_based_tool_use_quality_v1",
            {"rubrics": None},
            "null or NaN, .* a list of rubrics",
            "Correct",
        ),
        (TOOLS, {"match_type": None}, "is null or NaN, which is not one of", "Write one of them."),
    ],
)
def test_invalid_criterion_is_refused_when_ordered(metric, message, expected, way_out):
    with pytest.raises(BadInput, match=f"weather/test_config.json: .*{expected}") as refused:
        configs.check_config(
            RunConfig({"criteria": {metric: {"threshold": 0.5, **message}}}, "weather/test_config.json")
        )
    assert refused.value.hint.startswith(way_out)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "2.5", "null"])
@pytest.mark.parametrize("option", ["num_samples", "parallelism_limit"])
def test_option_that_is_no_whole_number_is_refused_before_the_run(option, number):
    text = f'{{"threshold": 0.5, "judge_model_options": {{"{option}": {number}}}}}'
    config = configs.parse_config(f'{{"criteria": {{"{JUDGED}": {text}}}}}', "test_config.json", "here")
    with pytest.raises(BadInput, match=f"here: judge_model_options.{option} of {JUDGED} is .*whole number"):
        configs.check_config(config)


def test_cleared_option_is_removed_from_its_criterion():
    criterion = {"threshold": 0.5, "judge_model_options": {"numSamples": 3, "judge_model": "m"}}
    option = next(option for option in JUDGE if option.name.endswith("num_samples"))
    assert with_value(criterion, option, None)["judge_model_options"] == {"judge_model": "m"}


@pytest.mark.parametrize("message", [0, 2, "exact", "in-order", "Any order", "ANY_ORDER"])
def test_ways_to_write_a_kind_of_match_that_adk_reads_are_allowed(message):
    criterion = {"threshold": 1.0, "match_type": message, "ignore_args": "true"}
    assert configs.check_config(RunConfig({"criteria": {TOOLS: criterion}}, "x")) == []
    assert ToolTrajectoryCriterion.model_validate(criterion).ignore_args is True


def test_a_threshold_for_a_metric_that_is_only_reported_is_refused():
    with pytest.raises(BadInput, match="takes no threshold"):
        configs.check_config(RunConfig({"criteria": {"token_usage_v1": 100.0}}, "x"))


def test_a_low_hallucination_threshold_is_warned_about():
    assert (
        "lets nearly everything pass"
        in configs.check_config(RunConfig({"criteria": {"hallucinations_v1": 0.1}}, "x"))[0]
    )


def test_a_custom_metric_has_the_range_it_declares():
    declared = {
        "code_config": {"name": "a.b"},
        "metric_info": {
            "metric_name": "mine",
            "metric_value_info": {"interval": {"min_value": -10.0, "max_value": 10.0}},
        },
    }
    assert (
        configs.check_config(
            RunConfig({"criteria": {"mine": 5.0}, "custom_metrics": {"mine": declared}}, "x")
        )
        == []
    )
    with pytest.raises(BadInput, match="-10 to 10"):
        configs.check_config(
            RunConfig({"criteria": {"mine": 11.0}, "custom_metrics": {"mine": declared}}, "x")
        )
    undeclared = {"mine": {"code_config": {"name": "a.b"}}}
    with pytest.raises(BadInput, match="0 to 1"):
        configs.check_config(RunConfig({"criteria": {"mine": 5.0}, "custom_metrics": undeclared}, "x"))


def test_chosen_metrics_keep_their_options_from_the_file():
    criterion = {"threshold": 1.0, "match_type": "IN_ORDER"}
    config = RunConfig(
        {"criteria": {"tool_trajectory_avg_score": criterion, "response_match_score": 0.5}}, "file"
    )
    chosen = configs.choose_metrics(config, ["tool_trajectory_avg_score"])
    assert chosen.criteria == {"tool_trajectory_avg_score": criterion}
    stricter = configs.choose_metrics(config, settings={"tool_trajectory_avg_score": 0.5, "safety_v1": 1.0})
    assert stricter.criteria == {
        "tool_trajectory_avg_score": {**criterion, "threshold": 0.5},
        "response_match_score": 0.5,
        "safety_v1": 1.0,
    }


def test_config_changed_by_an_order_is_marked():
    config = configs.default_config()
    assert configs.choose_metrics(config, ["response_match_score"]).source == "ADK's defaults, changed"
    assert (
        configs.choose_metrics(config, settings={"response_match_score": 0.1}).source
        == "ADK's defaults, changed"
    )
    assert (
        configs.choose_metrics(config, list(config.criteria), {"response_match_score": 0.8}).source
        == config.source
    )


def test_a_metric_without_a_default_needs_a_threshold():
    assert configs.choose_metrics(configs.default_config(), ["response_match_score"]).criteria == {
        "response_match_score": 0.8
    }
    with pytest.raises(BadInput, match="no default threshold") as refused:
        configs.choose_metrics(configs.default_config(), ["hallucinations_v1"])
    assert "--criteria hallucinations_v1=0.5" in refused.value.hint


def test_always_reported_metric_can_be_requested():
    assert configs.choose_metrics(configs.default_config(), ["token_usage_v1"]).criteria == {}


def test_a_threshold_of_a_metric_that_is_not_chosen_is_refused():
    with pytest.raises(BadInput, match="not among the metrics"):
        configs.choose_metrics(configs.default_config(), ["response_match_score"], {"safety_v1": 1.0})


def test_the_configuration_beside_a_file_is_used_else_adks_default(tmp_path):
    file = write(tmp_path, "a.evalset.json", {})
    assert configs.config_beside(file).source == "ADK's defaults"
    write(tmp_path, "test_config.json", {"criteria": {"response_match_score": 0.3}, "criterai": {}})
    config = configs.config_beside(file, "weather/a.evalset.json")
    assert config.criteria == {"response_match_score": 0.3}
    assert config.warnings == ["weather/test_config.json: ADK does not use the field 'criterai'."]


def test_a_link_to_no_configuration_is_refused_not_replaced_by_the_default(tmp_path):
    file = write(tmp_path, "a.evalset.json", {})
    (tmp_path / "test_config.json").symlink_to("missing.json")
    with pytest.raises(BadFile, match=r"is a link to 'missing\.json', where there is no file"):
        configs.config_beside(file)


def test_rubrics_of_one_id_are_refused():
    rubric = {"rubricId": "a", "rubricContent": {"textProperty": "It greets."}}
    criteria = {"rubric_based_tool_use_quality_v1": {"threshold": 0.5, "rubrics": [rubric, rubric]}}
    with pytest.raises(BadInput, match="rubrics of rubric_based_tool_use_quality_v1: two have the id 'a'"):
        configs.check_config(RunConfig({"criteria": criteria}, "c.json"))


def test_a_broken_configuration_names_file_line_and_field(tmp_path):
    file = write(tmp_path, "a.evalset.json", {})
    write(tmp_path, "test_config.json", '{\n  "criteria": {\n    "response_match_score": "high"\n  }\n}')
    with pytest.raises(BadFile) as refused:
        configs.config_beside(file, "weather/a.evalset.json")
    problem = refused.value.problems[0]
    assert (problem.file, problem.line, problem.field) == (
        "weather/test_config.json",
        3,
        "criteria.response_match_score",
    )


def test_broken_yaml_config_names_its_line(tmp_path):
    path = tmp_path / "judged.yaml"
    path.write_text("criteria:\n  response_match_score: much\n")
    with pytest.raises(BadFile) as refused:
        configs.read_config_file(path)
    assert {(problem.line, problem.file) for problem in refused.value.problems} == {(2, str(path))}


def test_metric_descriptions_name_reason_if_unavailable():
    described = {metric["name"]: metric for metric in describe_metrics()}
    assert described["response_match_score"]["reason"] == ""
    assert "vertex extra" in described["safety_v1"]["reason"]
