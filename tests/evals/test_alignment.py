"""Alignment of expected and actual tool calls by the rules of the metric."""

from __future__ import annotations

import random

import pytest
from google.adk.evaluation.eval_case import IntermediateData, Invocation
from google.adk.evaluation.eval_metrics import EvalMetric, ToolTrajectoryCriterion
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator
from google.genai import types

from evals_app.metrics import alignment
from evals_app.metrics.alignment import Fit, MatchRules, align
from sessions_app.presentation.text_diff import compare_texts


def call(name, **args):
    return {"name": name, "args": args}


def fits(pairs):
    return [(pair.name, pair.fit) for pair in pairs]


def test_equal_lists_line_up_without_a_divergence():
    pairs = align([call("a", x=1), call("b")], [call("a", x=1), call("b")])
    assert fits(pairs) == [("a", Fit.SAME), ("b", Fit.SAME)]
    assert not any(pair.first for pair in pairs)


def test_a_missing_call_does_not_shift_those_after_it():
    pairs = align([call("a"), call("b"), call("c")], [call("a"), call("c")])
    assert fits(pairs) == [("a", Fit.SAME), ("b", Fit.MISSING), ("c", Fit.SAME)]
    assert [pair.first for pair in pairs] == [False, True, False]


def test_different_arguments_are_listed_one_by_one():
    (pair,) = align([call("a", same=1, other="x", gone=None)], [call("a", same=1, other="y", new=2)])
    assert pair.fit is Fit.ARGS
    assert {
        argument.name: (argument.same, argument.has_expected, argument.has_actual)
        for argument in pair.arguments
    } == {
        "same": (True, True, True),
        "other": (False, True, True),
        "gone": (False, True, False),
        "new": (False, False, True),
    }


def matching(**matchers):
    return {"devui_match": matchers}


def test_argument_that_fits_its_matchers_is_the_same():
    expected = [call("pay", to=matching(regex="^a"), amount=3)]
    (pair,) = align(expected, [call("pay", to="ann", amount=3)])
    assert pair.fit is Fit.SAME
    assert all(argument.same for argument in pair.arguments)


@pytest.mark.parametrize(
    "actual",
    [
        {"to": "bob", "amount": 3},
        {"to": "ann", "amount": 4},
        {"to": "ann"},
        {"to": "ann", "amount": 3, "x": 1},
    ],
)
def test_argument_that_fits_no_matcher_or_is_not_expected_differs(actual):
    (pair,) = align([call("pay", to=matching(regex="^a"), amount=3)], [call("pay", **actual)])
    assert pair.fit is Fit.ARGS


def test_exact_expectations_are_paired_before_matchers_in_any_order():
    expected = [call("pay", to=matching(any=True)), call("pay", to="ann")]
    pairs = align(expected, [call("pay", to="ann"), call("pay", to="bob")], MatchRules("ANY_ORDER"))
    assert [pair.fit for pair in pairs] == [Fit.SAME, Fit.SAME]


def test_expression_that_takes_too_long_does_not_fit(monkeypatch):
    def time_out(*_, **__):
        raise TimeoutError

    monkeypatch.setattr("evals_app.files.argument_matchers.regex.search", time_out)
    (pair,) = align([call("pay", to=matching(regex="^slow"))], [call("pay", to="slow")])
    assert pair.fit is Fit.ARGS


def test_calls_of_different_tools_are_never_paired():
    assert fits(align([call("a")], [call("b")])) == [("a", Fit.MISSING), ("b", Fit.EXTRA)]


def test_extra_calls_are_allowed_if_the_metric_allows_them():
    extra = align([call("a")], [call("z"), call("a")], MatchRules("IN_ORDER"))
    assert [(pair.fit, pair.wrong) for pair in extra] == [(Fit.EXTRA, False), (Fit.SAME, False)]


def test_any_order_pairs_calls_at_any_position():
    pairs = align(
        [call("a"), call("b", x=1)], [call("b", x=1), call("b", x=2), call("a")], MatchRules("ANY_ORDER")
    )
    assert [(pair.name, pair.fit, pair.wrong) for pair in pairs] == [
        ("a", Fit.SAME, False),
        ("b", Fit.SAME, False),
        ("b", Fit.EXTRA, False),
    ]


def test_ignored_arguments_are_no_divergence():
    (pair,) = align([call("a", x=1)], [call("a", x=2)], MatchRules("EXACT", ignore_args=True))
    assert (pair.fit, pair.wrong, pair.says) == (Fit.ARGS, False, "arguments ignored")


def test_long_lists_are_lined_up_by_place():
    many = [call("a", n=number) for number in range(alignment.MAX_ALIGNED_CALLS + 1)]
    assert {pair.fit for pair in align(many, many)} == {Fit.SAME}


@pytest.mark.parametrize("criterion", [1.0, {"match_type": "in order"}, {"matchType": 2, "ignoreArgs": True}])
def test_match_rules_are_parsed_like_adk(criterion):
    rules = MatchRules.of(criterion)
    settings = criterion if isinstance(criterion, dict) else {}
    adk = ToolTrajectoryCriterion.model_validate({"threshold": 1.0, **settings})
    assert (rules.match_type, rules.ignore_args) == (adk.match_type.name, adk.ignore_args)


@pytest.mark.parametrize("match_type", ["EXACT", "IN_ORDER"])
@pytest.mark.parametrize("ignore_args", [False, True])
def test_a_divergence_is_marked_exactly_where_the_metric_fails(match_type, ignore_args):
    chance = random.Random(5)
    criterion = ToolTrajectoryCriterion(threshold=1.0, match_type=match_type, ignore_args=ignore_args)
    metric = EvalMetric(metric_name="tool_trajectory_avg_score", criterion=criterion)
    evaluator = TrajectoryEvaluator(eval_metric=metric)

    def calls():
        return [call(chance.choice("abc"), x=chance.randrange(2)) for _ in range(chance.randrange(4))]

    def invocation(tool_calls):
        uses = [types.FunctionCall(name=item["name"], args=item["args"]) for item in tool_calls]
        return Invocation(user_content=types.Content(), intermediate_data=IntermediateData(tool_uses=uses))

    for _ in range(400):
        expected, actual = calls(), calls()
        passed = (
            evaluator.evaluate_invocations([invocation(actual)], [invocation(expected)]).overall_score == 1.0
        )
        marked = any(pair.wrong for pair in align(expected, actual, MatchRules(match_type, ignore_args)))
        assert marked == (not passed), (expected, actual)


def test_texts_differ_word_by_word_and_sign_by_sign_without_spaces():
    expected, actual = compare_texts("It is clear in Rome.", "It is sunny in Rome.")
    assert [piece.text for piece in expected if piece.differs] == ["clear"]
    assert [piece.text for piece in actual if piece.differs] == ["sunny"]
    expected, actual = compare_texts("東京は晴れ", "東京は雨")
    assert "".join(piece.text for piece in actual if piece.differs) == "雨"
    assert "".join(piece.text for piece in expected) == "東京は晴れ"


def test_long_arguments_are_diffed_by_word_short_ones_as_a_whole():
    def pieces(left, right):
        return align([call("f", text=left)], [call("f", text=right)])[0].arguments[0].pieces

    assert pieces("Paris", "Rome") is None
    differences = pieces(
        "Please find a quiet hotel close to the river", "Please find a cheap hotel close to the river"
    )
    assert differences is not None
    assert [[piece.text for piece in side if piece.differs] for side in differences] == [["quiet"], ["cheap"]]
    assert align([call("f", text="x" * 50)], [call("f")])[0].arguments[0].pieces is None
