"""Error of a run or attempt whose agent calls `sys.exit`, which ends the run or attempt but not the process."""

from __future__ import annotations

from typing import Self


class AgentExited(RuntimeError):
    """The agent's code called `sys.exit`."""

    @classmethod
    def of(cls, error: SystemExit, caller: str = "agent") -> Self:
        """Return the error for a `SystemExit`, with its traceback."""
        exited = cls(f"The {caller} called sys.exit({error.code!r}).")
        return exited.with_traceback(error.__traceback__)
