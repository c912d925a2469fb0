"""The message boxes of the first page and of the agent's page: the first message creates the session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import AsyncClient, Client
from django.urls import reverse

from sessions_app.paths import session_url
from sessions_app.quotas.quota_limits import QuotaUsedUp
from sessions_app.runs import runtime_client
from sessions_app.sessions import deletion
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Run
from sessions_app.views import first_message
from tests.console.fake_runtimes import RuntimeWithConfigCheck
from tests.pages.html import parse

SEND_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def runtime(transactional_db: None) -> Iterator[None]:
    runtime_client.register(RuntimeWithConfigCheck())
    yield
    runtime_client.register(None)
    units_of_work.close_pools()


async def send(message: str, app: str = "weather", **headers: str) -> Any:
    address = reverse("first-message", kwargs={"app_name": app})
    return await AsyncClient().post(address, {"message": message, "send_id": SEND_ID}, headers=headers)


async def read_runs() -> list[Run]:
    return await units_of_work.read(lambda: list(Run.objects.select_related("session")))


async def test_first_message_creates_a_session_and_a_run():
    response = await send("Weather in Oslo?\r\nAnd in Rome?")
    [run] = await read_runs()
    assert (response.status_code, response["Location"]) == (302, session_url(run.session))
    assert (run.session.app_name, run.session.user_id) == ("weather", "user")
    message = json.loads(run.request)["new_message"]
    assert message["parts"] == [{"text": "Weather in Oslo?\nAnd in Rome?"}]


async def test_message_that_is_sent_twice_creates_one_session():
    first = await send("Hi")
    second = await send("Hi")
    assert first["Location"] == second["Location"]
    assert len(await read_runs()) == 1


async def test_session_without_its_run_is_used_when_the_form_is_sent_again():
    await send("Hi")
    await units_of_work.write(Run.objects.all().delete)
    await send("Hi")
    [run] = await read_runs()
    assert await units_of_work.read(AgentSession.objects.count) == 1
    assert run.session.user_id == "user"


async def test_htmx_follows_the_address_of_the_session():
    response = await send("Hi", **{"HX-Request": "true"})
    [run] = await read_runs()
    assert (response.status_code, response["HX-Redirect"]) == (204, session_url(run.session))


@pytest.mark.parametrize(("message", "app", "status"), [(" \n", "weather", 400), ("Hi", "nobody", 404)])
async def test_refused_message_creates_nothing(message: str, app: str, status: int):
    response = await send(message, app)
    assert response.status_code == status
    assert not await units_of_work.read(AgentSession.objects.exists)


def test_pages_offer_the_message_box_of_agents_that_can_run(settings: Any, tmp_path: Any):
    (tmp_path / "kitchen").mkdir()
    (tmp_path / "kitchen" / "agent.py").write_text("root_agent = None\n")
    settings.DEVUI_AGENTS_DIR = str(tmp_path)
    AgentSession.objects.create(
        app_name="removed", user_id="ann", session_id="s1", created_at=0, updated_at=0
    )
    page = parse(Client().get("/").content.decode())
    boxes = page.all("form", "first-message")
    assert [box.attrs["action"] for box in boxes] == ["/agents/kitchen/message/"]
    assert boxes[0].one("textarea").attrs["placeholder"] == "Message kitchen…"


async def test_other_message_with_the_same_id_creates_another_session():
    first = await send("one")
    second = await send("two")
    assert first["Location"] != second["Location"]
    texts = [json.loads(run.request)["new_message"]["parts"][0]["text"] for run in await read_runs()]
    assert sorted(texts) == ["one", "two"]


async def test_message_of_a_deleted_session_creates_a_new_one():
    first = await send("Hi")
    [run] = await read_runs()
    await units_of_work.write(lambda: Run.objects.update(status=Run.Status.DONE))
    await units_of_work.write(deletion.delete, [run.session_id])
    second = await send("Hi")
    assert second.status_code == 302
    assert first["Location"] == second["Location"]
    assert await units_of_work.read(AgentSession.objects.filter(realm="").count) == 1


@pytest.mark.parametrize("send_id", ["", "\0", "x" * 32, "0" * 31])
async def test_id_that_no_form_sends_is_replaced(send_id: str):
    address = reverse("first-message", kwargs={"app_name": "weather"})
    response = await AsyncClient().post(address, {"message": "Hi", "send_id": send_id})
    assert response.status_code == 302


async def test_used_up_quota_leaves_no_session(monkeypatch: pytest.MonkeyPatch):
    def refuse(person: str, limits: object) -> None:
        raise QuotaUsedUp("No runs are left today.")

    monkeypatch.setattr(first_message, "check_quotas", refuse)
    assert (await send("Hi")).status_code == 429
    assert not await units_of_work.read(AgentSession.objects.exists)
