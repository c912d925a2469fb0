"""A program that begins to create a store and waits in the middle until it is killed.

python -m tests.sessions.interrupted_migration DATABASE_URL
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import devui


def main(url: str) -> None:
    """Apply one migration, say so, and wait for the end."""
    devui.setup(url, migrate=False)
    from django.db.migrations.executor import MigrationExecutor

    apply, applied = MigrationExecutor.apply_migration, []

    def apply_one(*arguments: Any, **how: Any) -> Any:
        if applied:
            print("half made", flush=True)
            signal.pause()
        applied.append(arguments)
        return apply(*arguments, **how)

    MigrationExecutor.apply_migration = apply_one
    devui.setup()


if __name__ == "__main__":
    main(sys.argv[1])
