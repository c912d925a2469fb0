"""Opens a store of an earlier DevUI, and prints its rows and the API's responses.

python -m tests.sessions.recorded_store DATABASE_URL PATH...
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import devui
from tests.sessions.old_store import lost_rows, rows_of
from tests.web import over


def main(url: str, *paths: str) -> dict[str, Any]:
    """Return which values were lost when the store was migrated, and what today's API answers at some paths."""
    devui.setup(url, migrate=False)
    from django.db import connection

    tables = connection.introspection.table_names()
    before = rows_of(tables)
    devui.setup()
    return {
        "rows": {table: len(rows) for table, rows in before.items()},
        "lost": lost_rows(before, rows_of(tables)),
        "told": asyncio.run(fetch_paths(paths)),
    }


async def fetch_paths(paths: Sequence[str]) -> dict[str, Any]:
    """Return what the API answers at each path."""
    from devui.asgi import application

    async with over(application) as client:
        return {path: (await client.get(path)).json() for path in paths}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
