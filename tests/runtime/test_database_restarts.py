"""PostgreSQL restarts during streaming runs, an eval run and a page: all continue, and nothing happens twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection  # noqa: F401 - read by skipif
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.patience import PATIENCE_S
from tests.postgres import Cluster
from tests.runtime.conftest import until
from tests.runtime.stage_server import WORDS, serve_stage

ACTIVE = {"queued", "running"}
SESSIONS = 4
RESTARTS = 6
"""Twice each way in which a database goes away."""
MAX_TRIES = 4
"""Tries of an eval attempt after which the database stays until it has ended: the fifth is its last."""


pytestmark = pytest.mark.skipif(
    "connection.vendor != 'sqlite'", reason="the server is its own: once is enough"
)


class Load:
    """Clients of a server: they send messages without end, and know what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.web = httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False)
        self.sessions: list[int] = []
        self.runs: dict[str, str] = {}
        self.refused: list[str] = []
        self.ordered: list[str] = []
        self.orders_refused = 0
        self.stopped = False

    async def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return await self.web.post(path, json=body)

    async def get(self, path: str) -> Any:
        """Return what the API answers, as soon as the store is there."""
        answer = await until(lambda: self.web.get(path), lambda answer: answer.status_code != 503)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def begin(self) -> None:
        for number in range(SESSIONS):
            answer = await self.post("/apps/talker/users/ann/sessions", {"sessionId": f"s{number}"})
            assert answer.status_code == 200, answer.text
        listed = await self.get("/api/v1/sessions?app=talker")
        self.sessions = [session["key"] for session in listed["sessions"]]

    async def talk(self, session: int) -> None:
        """Send message after message to a session, without waiting for the end of the one before."""
        number = 0
        while not self.stopped:
            number += 1
            text = f"say m{session}x{number} {WORDS}"
            body = {"session": session, "message": text, "streaming": True}
            answer = await self.post("/api/v1/runs", body)
            if answer.status_code == 202:
                self.runs[answer.json()["id"]] = text
            else:
                assert answer.status_code == 503, answer.text
                self.refused.append(text)
            await asyncio.sleep(0.7)

    async def order(self) -> None:
        """Order an eval run of one case again and again."""
        order = {
            "app": "talker",
            "evalset": "talk",
            "cases": ["c0"],
            "criteria": {"response_match_score": 0.9},
        }
        while not self.stopped:
            answer = await self.post("/api/v1/evals/runs", order)
            if answer.status_code == 202:
                self.ordered.append(answer.json()["id"])
            else:
                assert answer.status_code == 503, answer.text
                self.orders_refused += 1
            await asyncio.sleep(0.5)

    async def ended(self, run_id: str) -> dict[str, Any]:
        path = f"/api/v1/runs/{run_id}"
        return dict(await until(lambda: self.get(path), lambda run: run["status"] not in ACTIVE))

    async def accepted(self, number: int) -> None:
        """Wait until so many messages have been acknowledged."""

        async def so_far() -> int:
            return len(self.runs)

        await until(so_far, lambda now: now >= number)

    async def texts(self, session: int) -> Counter[tuple[str, str]]:
        """Return how often each author said each text in a session."""
        page = await self.get(f"/api/v1/sessions/{session}/events?limit=1000")
        assert not page["more"]
        counts: Counter[tuple[str, str]] = Counter()
        for event in page["events"]:
            parts = (event["event"].get("content") or {}).get("parts") or []
            counts[event["event"]["author"], "".join(part.get("text") or "" for part in parts)] += 1
        return counts


class Page:
    """A session's page: it connects again whenever its line is closed, from where it stands."""

    def __init__(self, url: str, session: int) -> None:
        self.cursor = self.count = 0
        self._address = f"{url.replace('http', 'ws')}/ws/sessions/{session}/?rows=0&after="
        self._origin = url

    async def position(self) -> int:
        return self.cursor

    async def watch(self) -> None:
        while True:
            with suppress(WebSocketException, OSError):
                async with connect(f"{self._address}{self.cursor}", origin=self._origin, proxy=None) as line:
                    async for text in line:
                        message = json.loads(text)
                        if message["type"] == "events":
                            self.count += message["count"]
                            self.cursor = message["cursor"]
            await asyncio.sleep(0.2)


@asynccontextmanager
async def beside(*works: Any) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Do work beside the block; what fails there fails the block."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
            raise error


def ways(cluster: Cluster) -> list[Callable[[], None]]:
    """Return how a database goes away and comes back."""

    def stay_away() -> None:
        cluster.stop("fast")
        time.sleep(1.5)
        cluster.start()

    return [lambda: cluster.restart("fast"), lambda: cluster.restart("immediate"), stay_away]


async def check(cluster: Cluster, folder: Path, times: int) -> None:
    """Restart the database so often under load; then look at every run, event and attempt."""
    with serve_stage(cluster.url, folder) as (_, url):
        load = Load(url)
        await load.begin()
        order = {"app": "talker", "evalset": "talk", "criteria": {"response_match_score": 0.9}}
        evals = await load.post("/api/v1/evals/runs", {**order, "num_runs": max(1, times // 5)})
        assert evals.status_code == 202, evals.text
        page = Page(url, load.sessions[0])
        async with beside(page.watch()):
            talks = [load.talk(session) for session in load.sessions]
            async with beside(load.order(), *talks) as working:
                await load.accepted(1)
                for number in range(times):
                    before = len(load.runs)
                    await asyncio.to_thread(ways(cluster)[number % 3])
                    await load.accepted(before + SESSIONS // 2)
                    await until(
                        lambda: still_tried(load, evals.json()["id"]), lambda tries: tries < MAX_TRIES
                    )
                load.stopped = True
                await asyncio.gather(*working)
            await check_runs(load)
            await check_evals(load, evals.json()["id"])
            await check_orders(load, evals.json()["id"])
            last = (await load.get(f"/api/v1/sessions/{load.sessions[0]}/events?limit=1000"))["cursor"]
            await until(page.position, lambda cursor: cursor >= last)
            assert (page.count, page.cursor) == (last, last)
        await load.web.aclose()


async def still_tried(load: Load, run_id: str) -> int:
    """Return the most tries of an attempt that has not ended: one that lost the store five times is given up."""
    attempts = (await load.get(f"/api/v1/evals/runs/{run_id}/results"))["attempts"]
    return max(
        (attempt["tries"] for attempt in attempts if attempt["status"] in {"running", "pending"}), default=0
    )


async def check_runs(load: Load) -> None:
    """All that was acknowledged is done and was said once; the queues go on."""
    last = [
        await load.post("/api/v1/runs", {"session": each, "message": "say bye"}) for each in load.sessions
    ]
    assert [answer.status_code for answer in last] == [202] * SESSIONS
    assert {(await load.ended(answer.json()["id"]))["status"] for answer in last} == {"done"}
    ended = {run_id: await load.ended(run_id) for run_id in load.runs}
    listed = await load.get("/api/v1/runs?limit=200")
    assert not [run for run in listed["runs"] if run["status"] in ACTIVE]
    texts_by_session = {session: await load.texts(session) for session in load.sessions}
    for run_id, text in load.runs.items():
        run, texts = ended[run_id], texts_by_session[ended[run_id]["session"]]
        assert run["status"] == "done", run
        assert (texts["user", text], texts["talker", text.removeprefix("say ")]) == (1, 1), run
    for text in load.refused:
        assert all(texts["user", text] <= 1 for texts in texts_by_session.values())
    outcomes = Counter(run["status"] for run in ended.values())
    print(dict(outcomes), f"{len(load.refused)} refused")
    assert outcomes["done"] > 0


async def check_evals(load: Load, run_id: str) -> None:
    """The eval run is done, and each of its attempts has come to its end once."""
    path, active = f"/api/v1/evals/runs/{run_id}", {"pending", "running"}
    run = await until(lambda: load.get(path), lambda run: run["status"] not in active)
    assert run["status"] == "done", run["error"]
    attempts = (await load.get(f"{path}/results"))["attempts"]
    counts, tried = run["counts"], Counter(attempt["tries"] for attempt in attempts)
    print(counts, dict(tried))
    assert counts["passed"] == counts["total"] == len(attempts), counts
    assert {item["error_type"] for attempt in attempts for item in attempt["earlier"]} <= {"StoreLost"}


async def check_orders(load: Load, first: str) -> None:
    """Every eval run whose order was acknowledged is done; every other one that was stored has been cancelled."""
    path, active = "/api/v1/evals/runs?limit=200", {"pending", "running"}

    async def statuses() -> dict[str, str]:
        return {run["id"]: run["status"] for run in (await load.get(path))["runs"]}

    statuses_by_run = await until(
        statuses, lambda statuses_by_run: not active & set(statuses_by_run.values())
    )
    print(dict(Counter(statuses_by_run.values())), f"{load.orders_refused} orders refused")
    acknowledged = {first, *load.ordered}
    assert {run_id: statuses_by_run.pop(run_id) for run_id in acknowledged} == dict.fromkeys(
        acknowledged, "done"
    )
    assert set(statuses_by_run.values()) <= {"cancelled"}
    assert len(statuses_by_run) <= load.orders_refused


@pytest.mark.soak
async def test_runs_evals_and_pages_go_on_after_the_database_restarts(cluster: Cluster, tmp_path: Path):
    await check(cluster, tmp_path, RESTARTS)
