"""Evalsets in a test suite: a test for every case, or their results as values.

    from devui.testing import devui_evalset

    test_weather = devui_evalset("weather/lookups.evalset.json", agent="agents/weather")

The agent runs in its own process, on DevUI's store: the suite's Django settings and database are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devui.testing.agent_argument import Refused
    from devui.testing.results import AttemptResult, CaseResult, Latency, Results, Score
    from devui.testing.suite import devui_evalset, evaluate

__all__ = [
    "AttemptResult",
    "CaseResult",
    "Latency",
    "Refused",
    "Results",
    "Score",
    "devui_evalset",
    "evaluate",
]


def __getattr__(name: str) -> Any:
    """Import members on first use: pytest loads this package for every suite, also without evals."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from devui.testing import results, suite

    return getattr(suite, name, None) or getattr(results, name)
