"""A request with a body passes the guard once, before its body is read; a body that takes long is checked again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator

from devui.accounts import persons, users
from devui.accounts.models import AuditEntry
from devui.asgi import application
from devui.web import body_admission
from sessions_app import routes
from sessions_app.roles import Role
from sessions_app.store.models import AgentSession
from tests.accounts.conftest import BROWSER, cookie_of
from tests.api.builders import create

pytestmark = pytest.mark.usefixtures("people", "agents_dir")

FORM = BROWSER | {"Content-Type": "application/x-www-form-urlencoded"}


@sync_to_async
def read_title(pk: int) -> str:
    return AgentSession.objects.get(pk=pk).title


@sync_to_async
def audited_statuses() -> list[int]:
    return list(AuditEntry.objects.values_list("status", flat=True))


async def test_sender_and_address_of_a_post_are_looked_up_once(runner, monkeypatch):
    pk = (await create()).pk
    monkeypatch.setattr(body_admission, "PROMPT_S", 60)
    calls = []
    for module, name in ((persons, "find_person"), (routes, "resolve")):
        function = getattr(module, name)

        def count(*arguments: Any, _name: str = name, _function: Any = function) -> Any:
            calls.append(_name)
            return _function(*arguments)

        monkeypatch.setattr(module, name, count)
    await runner.post(f"/sessions/id/{pk}/rename/", data={"title": "new"})
    assert await read_title(pk) == "new"
    assert sorted(calls) == ["find_person", "resolve"]


@pytest.mark.parametrize("change", ["disabled", "demoted"])
async def test_right_that_ends_during_a_body_is_refused(runner, change):
    pk = (await create()).pk

    async def body() -> AsyncIterator[bytes]:
        yield b"title="
        user = await sync_to_async(users.find_user)("runner")
        if change == "disabled":
            await sync_to_async(users.set_active)(user, is_active=False)
        else:
            await sync_to_async(users.set_role)(user, Role.READER)
        yield b"new"

    answer = await runner.post(f"/sessions/id/{pk}/rename/", content=body(), headers=FORM)
    assert answer.status_code == (401 if change == "disabled" else 403)
    assert await read_title(pk) == ""


async def test_client_that_leaves_during_a_body_has_done_nothing():
    pk = (await create()).pk
    cookies = await sync_to_async(cookie_of)("runner")
    headers = {"host": "127.0.0.1", "cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": f"/sessions/id/{pk}/rename/",
        "raw_path": f"/sessions/id/{pk}/rename/".encode(),
        "query_string": b"",
        "headers": [
            (name.lower().encode(), value.encode())
            for name, value in (FORM | headers | {"content-length": "9"}).items()
        ],
    }
    request = ApplicationCommunicator(application, scope)
    await request.send_input({"type": "http.request", "body": b"title=", "more_body": True})
    await request.send_input({"type": "http.disconnect"})
    await request.wait()
    assert request.output_queue.empty()
    assert (await read_title(pk), await audited_statuses()) == ("", [])
