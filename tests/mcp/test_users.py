"""Roles at /mcp: a tool may do what its token may do."""

from __future__ import annotations

import httpx
import pytest
from asgiref.sync import sync_to_async

from devui.accounts import personal_tokens, users
from devui.accounts.models import AuditEntry
from sessions_app.roles import Role
from tests.accounts.conftest import people, runtime
from tests.api.builders import create
from tests.mcp.conftest import call, refusal

__all__ = ["people", "runtime"]

pytestmark = pytest.mark.usefixtures("people")


@pytest.fixture
def store(people):
    """A store with users."""
    return people


async def make_token(name: str, role: Role = Role.RUNNER) -> str:
    """Return the secret of a new token of a user."""
    user = await sync_to_async(users.find_user)(name)
    secret, _ = await sync_to_async(personal_tokens.create_token)(user, "agent", role, None)
    return secret


async def test_without_a_token_nothing_is_answered(address):
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.post(f"http://{address}/mcp", json={})
    assert (response.status_code, response.json()["code"]) == (401, "login_required")


async def test_reader_reads_and_cannot_run(connect, settings):
    settings.DEVUI_MCP_WRITE = True
    session = await create("s1")
    async with connect(await make_token("reader", Role.READER)) as client:
        assert (await call(client, "search_sessions"))["untrusted_data"][0]["key"] == session.pk
        assert "This needs the role runner" in await refusal(
            client, "send_message", session=session.pk, text="Hello"
        )
        assert "This needs the role runner" in await refusal(
            client, "make_case", app="weather", evalset="lookups", case={}
        )
        assert "This needs the role runner" in await refusal(
            client, "run_evalset", app="weather", evalset="lookups"
        )


async def test_runner_runs_and_the_audit_log_names_the_token(connect, settings, runtime):
    settings.DEVUI_MCP_WRITE = True
    session = await create("s1")
    async with connect(await make_token("runner")) as client:
        answer = await call(client, "send_message", session=session.pk, text="Hello", wait_seconds=0)
    assert answer["untrusted_data"]["run"]["status"] in ("queued", "running", "done")
    entry = await AuditEntry.objects.filter(action="run").alatest("pk")
    assert (entry.person, entry.token, entry.app) == ("runner", "agent", "weather")
