"""A metric: the share of answers that are short enough."""

from __future__ import annotations

from evals_app.metrics.invocations import answer_text
from evals_app.metrics.own import MetricInput, MetricOutcome, Option, OwnMetric, Widget


def score_brevity(data: MetricInput) -> MetricOutcome:
    """Return the share of answers with at most `max_words` words; for a turn 1 or 0."""
    lengths = [len(answer_text(turn).split()) for turn in data.actual]
    scores = [float(words <= data.options["max_words"]) for words in lengths]
    return MetricOutcome(
        sum(scores) / len(scores),
        reason=f"The longest answer has {max(lengths)} words.",
        details={"longest": max(lengths)},
        turns={turn: MetricOutcome(score) for turn, score in enumerate(scores)},
    )


BREVITY = OwnMetric(
    name="example_brevity",
    description="Share of answers that are short enough.",
    options=(Option("max_words", "Words at most", Widget.NUMBER, 60, most=1000),),
    score=score_brevity,
    cause=lambda details: "an answer is too long",
)
