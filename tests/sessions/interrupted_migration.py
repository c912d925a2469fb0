"""A program that begins to create a store and waits in the middle until it is killed.

python -m tests.sessions.interrupted_migration DATABASE_URL
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import devui


def main(url: str) -> None:
    """Create the tables of one app, say so, and wait for the end."""
    devui.setup(url, migrate=False)
    from sessions_app.store.database import new_store

    create_tables, apps = new_store.create_tables, []

    def create_once(*arguments: Any) -> None:
        if apps:
            print("half made", flush=True)
            signal.pause()
        apps.append(arguments)
        create_tables(*arguments)

    new_store.create_tables = create_once
    devui.setup()


if __name__ == "__main__":
    main(sys.argv[1])
