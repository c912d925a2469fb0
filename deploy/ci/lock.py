"""Run a command while no other process does so with the same lock: lock.py FILE COMMAND…

Ends with status 2 and one line if another process holds the lock. The system frees the lock when the command and all
its processes have ended. The command finds the file's name in DEVUI_LOCK.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path


def main(file: str, *command: str) -> int:
    """Replace this process by the command; return the exit status if it cannot run."""
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write(
            f"Another job uses {file}: set DEVUI_FOLDER to another folder, or wait until it has ended.\n"
        )
        return 2
    except OSError as error:
        sys.stderr.write(f"{file} cannot be locked: {error.strerror}. Set DEVUI_FOLDER to another folder.\n")
        return 2
    os.set_inheritable(descriptor, True)
    os.execvpe(command[0], command, {**os.environ, "DEVUI_LOCK": file})  # noqa: S606 - our own scripts


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
