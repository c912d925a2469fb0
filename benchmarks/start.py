"""Time to the first page and its share of imports; cost of a new store over an existing one.

Bytecode is compiled in untimed first runs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.serving import ADK_WEB, OURS, server

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
TURNS = 5
OF_ADK_WEB = 0.5
"""Longest time to the first page, as a share of `adk web`'s in the same run."""

NEW_STORE_S = 0.3
"""Most additional seconds for a new store."""

PREPARE = """
import sys, time, devui
devui.setup(sys.argv[1], migrate=False)
from sessions_app.store.database.schema import ensure_schema
start = time.perf_counter()
ensure_schema()
print(time.perf_counter() - start)
"""


def first_page_time(command: Sequence[str], page: str) -> float:
    """Return the seconds from the start of a server to its first page."""
    with server(command, page) as (_, seconds):
        return seconds


def new_store() -> str:
    """Return the URL of a store that does not exist yet."""
    return f"sqlite:///{FOLDER / uuid.uuid4().hex}.sqlite3"


def store_time(url: Callable[[], str]) -> float:
    """Return the seconds that a new interpreter needs to prepare a store, without imports."""
    process = subprocess.run(
        [sys.executable, "-c", PREPARE, url()], check=True, stdout=subprocess.PIPE, text=True
    )
    return float(process.stdout)


def import_time(statement: str) -> float:
    """Return the wall time of a new interpreter that runs `statement`, in seconds."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True)
    return time.perf_counter() - start


def medians(ours: Callable[[], float], peer: Callable[[], float]) -> tuple[float, float]:
    """Return the median of each, measured alternately, so that both have the same load."""
    ours(), peer()  # compile
    pairs = [(ours(), peer()) for _ in range(TURNS)]
    own, theirs = zip(*pairs, strict=True)
    return statistics.median(own), statistics.median(theirs)


def main() -> None:
    """Measure and print."""
    own, peer = medians(partial(first_page_time, OURS, "/"), partial(first_page_time, ADK_WEB, "/dev-ui/"))
    print(
        Figure("first page after the server's start", "s", own, OF_ADK_WEB * peer, peer, "adk web").as_line()
    )
    existing = new_store()
    fresh, opened = medians(partial(store_time, new_store), partial(store_time, lambda: existing))
    what = f"new store made ready, beyond opening one that exists ({opened:.3f} s)"
    print(Figure(what, "s", fresh - opened, NEW_STORE_S).as_line())
    own, peer = medians(
        partial(import_time, "import devui.asgi"), partial(import_time, "import google.adk.cli.fast_api")
    )
    what = "start: a fresh interpreter imports the web application"
    print(Figure(what, "s", own, None, peer, "adk web").as_line())
    own, peer = medians(
        partial(
            import_time, "import devui; devui.setup(); from sessions_app.adk import DjangoSessionService"
        ),
        partial(import_time, "from google.adk.sessions.sqlite_session_service import SqliteSessionService"),
    )
    what = "start: devui.setup() and the session service"
    print(Figure(what, "s", own, None, peer, "SqliteSessionService").as_line())


if __name__ == "__main__":
    main()
