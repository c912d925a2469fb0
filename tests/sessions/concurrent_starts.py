"""Programs that start concurrently with a store that does not exist yet, and report each result.

python -m tests.sessions.concurrent_starts DATABASE_URL PROGRAMS
"""

from __future__ import annotations

import os
import sys
import traceback

import devui


def main(url: str, programs: int) -> int:
    """Fork the programs before anything connects, and let them go together; return how many failed."""
    devui.setup(url, migrate=False)
    ready, go = os.pipe()
    pids = []
    for number in range(programs):
        if (pid := os.fork()) == 0:
            os.close(go)
            os.read(ready, 1)
            try:
                begin(number)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    os.close(go)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


def begin(number: int) -> None:
    """Do what every program does first, and write."""
    devui.setup()
    from sessions_app.store.session_key import SessionKey
    from sessions_app.store.sessions import writes

    writes.create_session(SessionKey("", "weather", "ann", f"s{number}"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
