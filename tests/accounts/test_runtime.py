"""Runtimes store the person of ADK's paths, and count the runs for the quotas."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async

from devui.supervisor import Supervisor
from sessions_app.quotas import quota_enforcement
from sessions_app.quotas.quota_limits import QuotaLimits
from sessions_app.runs.runtime_client import Sender
from sessions_app.store.database import units_of_work
from tests import forked_processes
from tests.api.builders import create
from tests.api.live_sockets import LIVE_AGENTS, ended_run, text_message
from tests.store import store_url

pytestmark = pytest.mark.usefixtures("people")

ZOE = Sender("Zoë", [QuotaLimits("parrot", runs_a_day=2)])


@pytest_asyncio.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    """Supervisor of the agent's process."""
    with forked_processes.starts():
        async with Supervisor(LIVE_AGENTS, environment={"DATABASE_URL": store_url()}) as running:
            yield running


async def test_runtime_stores_and_counts_the_person_that_the_web_process_names(supervisor):
    client = await supervisor.client("parrot")
    for number, path in enumerate(("/run", "/run_live"), 1):
        await create(f"s{number}", app_name="parrot")
        if path == "/run":
            await send(supervisor, f"s{number}")
        else:
            query = f"app_name=parrot&user_id=ann&session_id=s{number}&modalities=TEXT"
            async with client.open_socket(f"{path}?{query}", ZOE.headers()) as socket:
                await socket.send(text_message("hello"))
                await anext(aiter(socket.messages()))
        run = await ended_run()
        assert run.person == "Zoë", path
        await units_of_work.write(run.delete)
        assert (await sync_to_async(quota_enforcement.usage_today)("Zoë"))["parrot"].runs == number
    for path in ("/run", "/run_sse"):
        status, headers, body = await send(supervisor, "s1", path)
        assert (status, json.loads(body)["code"]) == (429, "quota_used_up"), path
        assert int(headers["retry-after"]) > 0
    query = "app_name=parrot&user_id=ann&session_id=s2&modalities=TEXT"
    async with client.open_socket(f"/run_live?{query}", ZOE.headers()) as socket:
        assert [message async for message in socket.messages()] == []
    assert socket.closed is not None
    assert (socket.closed[0], "Zoë" in socket.closed[1]) == (1013, True)
    assert (await sync_to_async(quota_enforcement.usage_today)("Zoë"))["parrot"].runs == 2


async def test_admitted_run_is_streamed(supervisor):
    await create("s1", app_name="parrot")
    status, headers, body = await send(supervisor, "s1", "/run_sse")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    assert body.startswith("data: {")


async def send(
    supervisor: Supervisor, session_id: str, path: str = "/run"
) -> tuple[int, dict[str, str], str]:
    """Send a message on ADK's path to the runtime; return status, headers and body."""
    ids = {"appName": "parrot", "userId": "ann", "sessionId": session_id}
    body = json.dumps({**ids, "newMessage": {"role": "user", "parts": [{"text": "hello"}]}}).encode()
    headers = {**ZOE.headers(), "Content-Type": "application/json"}
    client = await supervisor.client("parrot")
    async with client.open("POST", path, headers=headers, content=body) as response:
        content = await response.aread()
        return response.status_code, dict(response.headers), content.decode()
