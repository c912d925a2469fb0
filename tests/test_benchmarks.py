"""The table of benchmark figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.__main__ import ALL
from benchmarks.figures import Figure, table
from benchmarks.serving import NeverServed, server
from sessions_app.search.execution import session_queries
from sessions_app.search.query.parsing import parse
from sessions_app.store.index import index_backlog
from sessions_app.store.models import AgentSession
from tests.patience import PATIENCE_S


def test_a_time_is_met_from_the_budget_down_and_compared_with_the_peer():
    figure = Figure("append", "ms", 0.5, budget=1.0, peer=5.0)
    assert (figure.met, figure.ratio) == ("met", 10.0)
    assert Figure("append", "ms", 1.5, budget=1.0).met == "MISSED"
    assert Figure("append", "ms", 1.0, budget=1.0).met == "met"


def test_a_rate_is_met_from_the_budget_up():
    figure = Figure("appends", "/s", 2000, budget=1000, peer=500, more_is_better=True)
    assert (figure.met, figure.ratio) == ("met", 4.0)
    assert Figure("appends", "/s", 900, budget=1000, more_is_better=True).met == "MISSED"


def test_without_a_peer_or_a_budget_nothing_is_claimed():
    figure = Figure("start", "s", 1.0)
    assert (figure.met, figure.ratio) == ("", None)


def test_the_table_has_a_row_for_each_figure():
    lines = table([Figure("append", "ms", 0.5, 1.0, 5.0, "ADK"), Figure("get", "ms", 1234.0)]).splitlines()
    assert len(lines) == 4
    assert lines[2].split() == ["append", "0.50", "ms", "1.00", "ms", "met", "5.00", "ms", "10.0", "ADK"]
    assert lines[3].split() == ["get", "1,234", "ms"]


def test_unknown_benchmark_is_refused_listing_known_ones():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "apend"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert "no benchmark is called apend: choose from append, " in done.stderr


def test_figures_and_benchmarks_match():
    helpers = {
        "__init__",
        "__main__",
        "chromium",
        "figures",
        "large_store",
        "recorded_run",
        "serving",
        "stores",
    }
    files = {file.stem for file in Path(figures.__file__).parent.glob("*.py")}
    assert files - helpers == set(ALL)


def test_a_server_that_ends_at_once_is_named():
    with pytest.raises(NeverServed, match="has not served /"), server([sys.executable, "-c", "pass"]):
        pass


def test_generated_store_is_indexed_and_searchable(db: None):
    from benchmarks import large_store  # it looks at the store's schema

    large_store.fill(4)
    assert not index_backlog.sessions().exists()
    matching_sessions = session_queries.Search(parse("antique")).filter_rows(
        AgentSession.objects.order_by("pk")
    )
    assert list(matching_sessions.values_list("session_id", flat=True)) == ["s1", "s2"]
