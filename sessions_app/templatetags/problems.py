"""Template filters of problems: `{% load problems %}`."""

from __future__ import annotations

from collections.abc import Iterable

from django import template

from sessions_app.problems.problem_queries import ShownProblem

register = template.Library()


@register.filter
def repeating_errors(problems: Iterable[ShownProblem]) -> list[ShownProblem]:
    """`{{ problems|repeating_errors }}`: the problems whose text the timeline shows as an error already."""
    return [problem for problem in problems if problem.repeats_error]
