"""DevUI behind a real server, and clients of MCP's SDK."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.patience import PATIENCE_S
from tests.web import serve

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ROOT / "examples/agents"

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest_asyncio.fixture
async def address(settings: Any, store: None) -> AsyncIterator[str]:
    """The address of a served DevUI, host and port."""
    from devui.asgi import application

    settings.DEVUI_AGENTS_DIR = str(AGENTS)
    async with serve(application) as served:
        yield served


@pytest.fixture
def connect(address: str) -> Connect:
    """Connect the SDK's client to /mcp, with a token if one is given."""

    @asynccontextmanager
    async def open_client(token: str = "", **options: Any) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE_S) as http:
            transport = streamable_http_client(f"http://{address}/mcp", http_client=http)
            async with Client(transport, **options) as client:
                yield client

    return open_client


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store with the eval runs of the demo: five attempts of the shop agent's gold customer failed."""
    file = tmp_path_factory.mktemp("demo") / "demo.sqlite3"
    with gzip.open(ROOT / "examples/demo.sqlite3.gz") as source, file.open("wb") as target:
        shutil.copyfileobj(source, target)
    return file


@pytest.fixture
def demo_environment(demo_store: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a process with that store."""
    own = {
        "DATABASE_URL": f"sqlite:///{demo_store}",
        "DEVUI_DATA_DIR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    return {**os.environ, **own}


@pytest.fixture
def stdio_server(demo_environment: dict[str, str], tmp_path: Path) -> Callable[..., StdioServerParameters]:
    """How to start `devui mcp` on that store."""

    def parameters(*flags: str) -> StdioServerParameters:
        arguments = ["-m", "devui", "mcp", "--agents", str(AGENTS), *flags]
        return StdioServerParameters(
            command=sys.executable, args=arguments, env=demo_environment, cwd=tmp_path
        )

    return parameters


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that succeeds and return its answer."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    answer: dict[str, Any] = json.loads(result.content[0].text)
    return answer


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that is refused and return the reason."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return str(result.content[0].text)
