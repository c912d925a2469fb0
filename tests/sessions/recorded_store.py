"""Opens a store of an earlier DevUI, and prints the API's responses about it.

python -m tests.sessions.recorded_store DATABASE_URL PATH...
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import devui
from tests.web import over


async def fetch_paths(paths: Sequence[str]) -> dict[str, Any]:
    """Return what the API answers at each path."""
    from devui.asgi import application

    async with over(application) as client:
        return {path: (await client.get(path)).json() for path in paths}


if __name__ == "__main__":
    devui.setup(sys.argv[1])
    print(json.dumps(asyncio.run(fetch_paths(sys.argv[2:]))))
