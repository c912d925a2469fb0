"""How long it takes to the first page, and what of that is imports. Bytecode is compiled by first, untimed runs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.figures import Figure
from benchmarks.serving import ADK_WEB, OURS, server

TURNS = 5


def first_page_time(command: Sequence[str], page: str) -> float:
    """Return the time from the start of a server to its first page, in seconds."""
    with server(command, page) as (_, seconds):
        return seconds


def import_time(statement: str) -> float:
    """Return the wall time of a fresh interpreter that runs `statement`, in seconds."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True)
    return time.perf_counter() - start


def medians(ours: Callable[[], float], peer: Callable[[], float]) -> tuple[float, float]:
    """Return the median of each, measured in turns, so that both meet the same load."""
    ours(), peer()  # compile
    pairs = [(ours(), peer()) for _ in range(TURNS)]
    own, theirs = zip(*pairs, strict=True)
    return statistics.median(own), statistics.median(theirs)


def main() -> None:
    """Measure and print."""
    own, peer = medians(partial(first_page_time, OURS, "/"), partial(first_page_time, ADK_WEB, "/dev-ui/"))
    print(Figure("first page after the server's start", "s", own, 1.0, peer, "adk web").as_line())
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
