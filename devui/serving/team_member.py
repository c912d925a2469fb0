"""Run a process of a team, and end it when the command `team` is gone, even if that was killed.

python -m devui.serving.team_member web|worker AGENTS_DIR …

Standard input is a pipe that the command holds open and never writes to: its end is that of the command.
"""

from __future__ import annotations

import os
import runpy
import threading
import time

from devui.serving.team_processes import END_SEQUENCE

STDIN = 0


def _end_with_command() -> None:
    """Wait until the command is gone, then end this process as the command would."""
    while os.read(STDIN, 1):
        pass
    for number, patience_s in END_SEQUENCE:
        os.kill(os.getpid(), number)
        time.sleep(patience_s)


if __name__ == "__main__":
    threading.Thread(target=_end_with_command, name="devui-team", daemon=True).start()
    runpy.run_module("devui", run_name="__main__", alter_sys=True)  # as `python -m devui` does
