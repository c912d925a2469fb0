"""Model calls and spans of a real runtime's run remain after its process has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from devui.asgi import application
from devui.supervisor import Supervisor
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, ModelCall, Span, Trace
from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.store import store_url

AGENTS = Path(__file__).resolve().parents[2] / "examples/agents"
ORIGIN = "http://testserver"


@pytest_asyncio.fixture
async def web(store: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI."""
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, timeout=PATIENCE_S) as client:
        yield client


def supervisor() -> Supervisor:
    return Supervisor(AGENTS, environment={"DATABASE_URL": store_url()})


@pytest.mark.soak
async def test_traces_outlive_their_runtime(web):
    owner = {"appName": "weather", "userId": "ann", "sessionId": "s1"}
    message = {"role": "user", "parts": [{"text": "What is the weather in Paris?"}]}
    with forked_processes.starts():
        async with supervisor() as running:
            runs.register(running)
            await web.post("/apps/weather/users/ann/sessions/s1", json={})
            answer = await web.post("/run", json={**owner, "newMessage": message})
            assert answer.status_code == 200, answer.text
            pk = await units_of_work.read(lambda: AgentSession.objects.get().pk)
            response = await web.get(f"/sessions/id/{pk}/events/2/seen/")
            assert "You are a weather desk." in response.text
        runs.register(None)
    assert await units_of_work.read(ModelCall.objects.count) == 2
    kinds = await units_of_work.read(
        lambda: list(Span.objects.order_by("started_ns").values_list("kind", flat=True))
    )
    assert kinds[-4:] == ["agent", "model", "tool", "model"]
    assert set(kinds[:-4]) == {"invocation"}
    assert (await units_of_work.read(Trace.objects.get)).decoded_stages[-1][0] == "end"
    spans = (await web.get("/dev/apps/weather/debug/trace/session/s1")).json()
    assert [span["name"] for span in spans if "execute_tool" in span["name"]] == ["execute_tool get_weather"]
    assert "What is the weather in Paris?" in str(spans)
