"""Socket of a run's page: sends the rows that have changed since the page was rendered."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.urls import path

from evals_app import live
from evals_app.files import library
from evals_app.metrics import config
from evals_app.models import EvalAttempt, EvalRun, EvalSet
from evals_app.runs import run_orders
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.writes import runs
from evals_app.runs.writes.attempts import finish_attempt, start_attempt
from evals_app.runs.writes.outcomes import Outcome
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn, write
from tests.patience import PATIENCE_S


@pytest.fixture
def run(store, folder):
    path = write(
        folder.path, "s.evalset.json", evalset(*[case(f"<{name}>", turn("x", "y")) for name in "abc"])
    )
    new_run = run_orders.order_run(
        library.register_file(folder, "counter", path), RunOrder(config.default_config())
    )
    runs.claim_run(new_run.id, None)
    return EvalRun.objects.get(pk=new_run.id)


def watching(run_id, after=0, routes=live.websocket_urlpatterns):
    return listening(f"/ws/evals/runs/{run_id}/", f"after={after}", routes)


@asynccontextmanager
async def listening(address, query, routes=live.websocket_urlpatterns):
    scope = {
        "type": "websocket",
        "path": address,
        "query_string": query.encode(),
        "headers": [],
        "subprotocols": [],
    }
    socket = ApplicationCommunicator(URLRouter(routes), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=PATIENCE_S))["type"] == "websocket.accept"
    try:
        yield socket
    finally:
        await socket.send_input({"type": "websocket.disconnect", "code": 1001})
        await socket.wait(timeout=PATIENCE_S)


async def message(socket):
    frame = await socket.receive_output(timeout=PATIENCE_S)
    assert frame["type"] == "websocket.send", frame
    return json.loads(frame["text"])


def attempts(run):
    return list(run.attempts.order_by("case_index"))


async def test_run_change_is_rendered_once_for_all_sockets(run, monkeypatch):
    rendered: list[int] = []
    loop, has_looked = asyncio.get_running_loop(), asyncio.Event()

    def counting(run_id, cursor):
        rows = changes(run_id, cursor)
        rendered.append(cursor)
        loop.call_soon_threadsafe(has_looked.set)
        return rows

    changes = live.changes
    monkeypatch.setattr(live, "changes", counting)
    first, *_ = await units_of_work.read(attempts, run)
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(watching(run.id, after=run.revision)) for _ in range(20)]
        await asyncio.wait_for(has_looked.wait(), PATIENCE_S)
        await units_of_work.write(start_attempt, first.pk)
        updates = [await message(socket) for socket in sockets]
        assert all(update == updates[0] for update in updates)
        assert updates[0]["attempts"] == [first.pk]
    assert rendered == [run.revision] * 2, "when the first came, and after the change"


async def test_page_receives_only_changed_rows(run):
    first, second, _ = await units_of_work.read(attempts, run)
    async with watching(run.id, after=run.revision) as socket:
        await units_of_work.write(start_attempt, second.pk)
        update = await message(socket)
        assert update["type"] == "run"
        assert [row["id"] for row in update["rows"]] == ["case-1"]
        assert "&lt;b&gt;" in update["rows"][0]["html"]
        assert "running" in update["rows"][0]["html"]
        assert update["attempts"] == [second.pk]

        await units_of_work.write(finish_attempt, second.pk, Outcome(EvalAttempt.Status.FAILED))
        await units_of_work.write(start_attempt, first.pk)
        html_by_id = {}
        while html_by_id.get("case-0") is None or "failed" not in html_by_id.get("case-1", ""):
            update = await message(socket)
            html_by_id |= {row["id"]: row["html"] for row in update["rows"]}
        assert "1 failed" in update["summary"]


async def test_reconnected_page_receives_missed_changes(run):
    first, *_ = await units_of_work.read(attempts, run)
    await units_of_work.write(start_attempt, first.pk)
    await units_of_work.write(finish_attempt, first.pk, Outcome(EvalAttempt.Status.PASSED))
    async with watching(run.id, after=run.revision) as socket:
        update = await message(socket)
        assert [row["id"] for row in update["rows"]] == ["case-0"]
        assert update["cursor"] == run.revision + 2


async def test_end_of_run_is_sent_and_socket_closed(run):
    async with watching(run.id, after=run.revision) as socket:
        await units_of_work.write(runs.finish_run, run.id, EvalRun.Status.DONE)
        update = await message(socket)
        assert update["type"] == "end"
        assert "3 cancelled" in update["summary"]
        assert (await socket.receive_output(timeout=PATIENCE_S))["type"] == "websocket.close"


async def test_a_run_that_does_not_exist_ends_at_once(store):
    async with watching("nothing") as socket:
        assert (await message(socket))["type"] == "end"


class RestlessSocket(live.RunSocket):
    beat_s = 0.0


async def test_a_quiet_line_beats(run):
    routes = [path("ws/evals/runs/<str:run_id>/", RestlessSocket.as_asgi())]
    async with watching(run.id, after=run.revision, routes=routes) as socket:
        assert await message(socket) == {"type": "beat"}


async def test_a_page_that_leaves_is_followed_no_longer(run):
    async with watching(run.id) as socket:
        await message(socket)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "devui-change-notifier"]


async def test_page_receives_changes_of_its_evalset_file_from_any_writer(web, folder):
    path = write(folder.path, "s.evalset.json", evalset(case("a", turn("x"))))
    evalset_row = await units_of_work.write(library.register_file, folder, "counter", path)
    async with listening(f"/ws/evals/evalsets/{evalset_row.pk}/", f"digest={evalset_row.digest}") as socket:
        write(folder.path, "s.evalset.json", evalset(case("b", turn("x"))))
        update = await message(socket)
        assert (update["type"], update["gone"]) == ("file", False)
        assert (
            update["digest"] == (await units_of_work.read(EvalSet.objects.get)).digest != evalset_row.digest
        )
        path.unlink()
        assert (await message(socket))["gone"]
        write(folder.path, "s.evalset.json", evalset(case("b", turn("x"))))
        assert not (await message(socket))["gone"]


async def test_page_with_outdated_file_is_notified_at_once(web, folder):
    path = write(folder.path, "s.evalset.json", evalset(case("a", turn("x"))))
    evalset_row = await units_of_work.write(library.register_file, folder, "counter", path)
    async with listening(f"/ws/evals/evalsets/{evalset_row.pk}/", "digest=old") as socket:
        assert (await message(socket))["digest"] == evalset_row.digest


async def test_an_evalset_that_does_not_exist_is_followed_no_further(web):
    async with listening("/ws/evals/evalsets/12345/", "digest=") as socket:
        assert (await socket.receive_output(timeout=PATIENCE_S))["type"] == "websocket.close"


async def test_a_page_asks_for_its_own_cases_when_more_changed_than_it_shows(run):
    await units_of_work.write(runs.begin_cancel, run.id)
    await units_of_work.write(runs.finish_run, run.id, EvalRun.Status.CANCELLED)
    changes = await units_of_work.read(live.changes, run.id, run.revision, page_size=2)
    assert (changes["type"], changes["many"], changes["rows"]) == ("end", True, [])
    assert len(changes["attempts"]) == 3
    assert "3 cancelled" in changes["summary"]
