"""Run benchmarks, each in a process of its own, and print their figures.

    python -m benchmarks                    all of them, on SQLite
    python -m benchmarks append get_session
    python -m benchmarks state_at --full    a ledger of 1,000,000 rows instead of 100,000
    python -m benchmarks evals --adk-eval ~/with-eval/bin/python
    python -m benchmarks --postgres postgresql://postgres@127.0.0.1:5432/bench

The database that `--postgres` names must be empty, because its content would affect the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, table

ALL = (
    "append",
    "concurrent_appends",
    "get_session",
    "list_sessions",
    "rest_get",
    "state_at",
    "session_list_page",
    "open_session",
    "time_travel",
    "answer_sources",
    "trends",
    "live_page",
    "many_sockets",
    "runs",
    "evals",
    "start",
    "idle",
    "otlp",
    "team_tokens",
)
BUSY = "Above one per processor all times are longer; ratios are measured under the same load."
ON_POSTGRES = (
    "append",
    "concurrent_appends",
    "get_session",
    "list_sessions",
    "rest_get",
    "state_at",
    "idle",
    "team_tokens",
)
RENDERING_PAGES = ("answer_sources", "time_travel", "trends")
"""Benchmarks that render pages in their own process, which needs the settings of the server."""

ONLY_ON_POSTGRES = "team_tokens"
"""Benchmark of a team, which needs PostgreSQL."""

ALONE_ON_POSTGRES = "session_list_page"
"""Benchmark that fills a whole database: on PostgreSQL it runs only on request, and alone."""


def main() -> int:
    """Run the selected benchmarks. Return 1 if one failed; a missed budget is shown but is no failure."""
    options = arguments()
    failed = False
    measured: list[Figure] = []
    for name in options.names or ALL:
        if options.postgres and name not in ON_POSTGRES and options.names != [ALONE_ON_POSTGRES]:
            continue
        if name == ONLY_ON_POSTGRES and not options.postgres:
            continue
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        figures = run_benchmark(name, options)
        failed = failed or figures is None
        measured += figures or []
    print(table(measured))
    print(f"\nLoad average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.", BUSY)
    return int(failed)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)}; default: all")
    parser.add_argument(
        "--full", action="store_true", help="the sizes of the budgets, where that takes minutes"
    )
    parser.add_argument("--postgres", metavar="URL", help="measure on this empty PostgreSQL database")
    parser.add_argument(
        "--adk-eval",
        metavar="PYTHON",
        default="",
        help="an interpreter with google-adk[eval], to measure `adk eval` too",
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}: choose from {', '.join(ALL)}")
    if ONLY_ON_POSTGRES in options.names and not options.postgres:
        parser.error(f"{ONLY_ON_POSTGRES} needs PostgreSQL: name an empty database with --postgres URL")
    return options


def run_benchmark(name: str, options: argparse.Namespace) -> list[Figure] | None:
    """Run a benchmark in its own process and return its figures, or None if it failed."""
    with tempfile.TemporaryDirectory(prefix="devui-bench-", ignore_cleanup_errors=True) as folder:
        store = options.postgres or f"sqlite:///{Path(folder) / 'devui.sqlite3'}"
        process = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}"],
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
                "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"),
                "DATABASE_URL": store,
                "BENCH_FOLDER": folder,
                "BENCH_FULL": "1" if options.full else "",
                "BENCH_ADK_EVAL": options.adk_eval,
                "DEVUI_LOG_LEVEL": "ERROR",
                **({"DJANGO_SETTINGS_MODULE": "devui.settings"} if name in RENDERING_PAGES else {}),
            },
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if process.returncode:
        print(f"{name} failed, see above.", file=sys.stderr)
        return None
    return [Figure(**json.loads(line)) for line in process.stdout.splitlines() if line.startswith("{")]


if __name__ == "__main__":
    sys.exit(main())
