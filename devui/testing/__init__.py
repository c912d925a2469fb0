"""Evalsets in a test suite of one's own: a test for every case, or their results to look at.

    from devui.testing import devui_evalset

    test_weather = devui_evalset("weather/lookups.evalset.json", agent="agents/weather")

The agent runs in a process of its own, on DevUI's store: neither the suite's Django nor its database is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devui.testing.results import AttemptResult, CaseResult, EvalsFailed, Results, Score
    from devui.testing.suite import devui_evalset, evaluate

__all__ = ["AttemptResult", "CaseResult", "EvalsFailed", "Results", "Score", "devui_evalset", "evaluate"]


def __getattr__(name: str) -> Any:
    """Import what is used when it is used: pytest loads this package for every suite, also for those without evals."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from devui.testing import results, suite

    return getattr(suite, name, None) or getattr(results, name)
