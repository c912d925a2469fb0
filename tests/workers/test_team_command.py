"""`manage.py team`, as `make team` starts it: people work on two web processes while processes are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from sessions_app.agent_processes import processes
from tests.patience import PATIENCE_S
from tests.workers.conftest import CASES, WORDS
from tests.workers.team import wait_for
from tests.workers.team_command import OwnTeam, browser

pytestmark = pytest.mark.soak

REPETITIONS = 2
OUTCOMES = "SELECT case_id, repetition, status FROM evals_app_evalattempt WHERE run_id = '{}'"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[OwnTeam]:
    team = OwnTeam(tmp_path)
    try:
        yield team
    finally:
        team.drop()


async def watch(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """Return the messages of a page's socket, until it is closed."""
    url = str(client.base_url).rstrip("/")
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    async with connect(
        f"ws{url.removeprefix('http')}{path}",
        origin=url,
        additional_headers={"Cookie": cookie},
        proxy=None,
        max_size=None,
    ) as opened:
        return [json.loads(message) async for message in opened]


def stream_conversation(client: httpx.Client) -> str:
    """Talk with an agent as a person's program does; return the last text."""
    response = client.post("/apps/talker/users/ben/sessions").json()
    body = {
        "appName": "talker",
        "userId": "ben",
        "sessionId": response["id"],
        "streaming": True,
        "newMessage": {"role": "user", "parts": [{"text": f"say {WORDS}"}]},
    }
    with client.stream("POST", "/run_sse", json=body) as answer:
        frames = [line for line in answer.iter_lines() if line.startswith("data:")]
    assert sum('"partial":true' in frame for frame in frames) == 20
    return frames[-1]


async def test_team_works_on_while_a_worker_and_a_web_process_are_killed(team):
    first, second = team.urls
    for name in ("ann", "ben"):
        await asyncio.to_thread(team.create_user, name, "runner")
    ann, ben = browser(first, "ann"), browser(second, "ben")
    order = {"app": "talker", "evalset": "talk", "criteria": {"response_match_score": 0.9}}
    answer = ann.post("/api/v1/evals/runs", json={**order, "num_runs": REPETITIONS, "parallelism": 8})
    run_id = answer.json()["id"]
    watching = asyncio.create_task(watch(ben, f"/ws/evals/runs/{run_id}/?after=0"))

    ended = (
        f"SELECT count(*) FROM evals_app_evalattempt WHERE run_id = '{run_id}' AND finished_at IS NOT NULL"
    )
    await asyncio.to_thread(wait_for, lambda: team.rows(ended)[0][0], lambda count: count >= 6)
    workers = ben.get("/api/v1/workers").json()["workers"]
    busy = next(worker for worker in workers if worker["work"])
    os.kill(busy["pid"], signal.SIGKILL)
    os.kill(team.pid_of(f"--port {team.port} "), signal.SIGKILL)

    assert WORDS in await asyncio.to_thread(stream_conversation, ben)
    (session,) = ben.get("/api/v1/sessions?app=talker&user=ben").json()["sessions"]
    refused = ben.post("/api/v1/sessions/delete", json={"sessions": [session["key"]]})
    assert (refused.status_code, refused.json()["code"]) == (403, "role_required")

    messages = await asyncio.wait_for(watching, 240)
    kinds = Counter(message["type"] for message in messages)
    assert kinds["end"] == 1
    assert sum(kinds.values()) > 5, "ben saw the run while it went on"
    assert ben.get(f"/api/v1/evals/runs/{run_id}").json()["status"] == "done"
    outcomes = team.rows(OUTCOMES.format(run_id))
    assert Counter(status for _, _, status in outcomes) == {"passed": CASES * REPETITIONS}
    assert len({(case, repetition) for case, repetition, _ in outcomes}) == CASES * REPETITIONS
    states = {w["pid"]: w["status"] for w in ben.get("/api/v1/workers").json()["workers"]}
    assert Counter(states.values()) == {"alive": 2, "gone": 1}
    assert states[busy["pid"]] == "gone"

    admin = browser(second, "admin", team.admin_password)
    exported = admin.get("/audit/export/?format=jsonl").text.splitlines()
    entries = [json.loads(line) for line in exported]
    audit_rows = {
        (entry["person"].split(" (")[0], entry["action"], entry["kind"], entry["outcome"])
        for entry in entries
    }
    assert {
        ("ann", "sign-in", "user", "done"),
        ("ben", "sign-in", "user", "done"),
        ("ann", "run", "evals", "done"),
        ("ben", "create", "session", "done"),
        ("ben", "run", "session", "done"),
        ("ben", "delete", "session", "refused"),
    } <= audit_rows
    created = [
        entry["object_id"] for entry in entries if (entry["action"], entry["kind"]) == ("create", "user")
    ]
    assert {"ann: role runner", "ben: role runner"} <= set(created)

    pids = [worker["pid"] for worker in ben.get("/api/v1/workers").json()["workers"]]
    assert team.member.end(signal.SIGINT) == 0
    assert not [pid for pid in pids if processes.identity(pid)]


def test_killed_command_leaves_no_process_behind(tmp_path):
    team = OwnTeam(tmp_path, "--webs", "1", "--workers", "1")
    try:
        (url,) = team.urls
        admin = browser(url, "admin", team.admin_password)
        assert WORDS in stream_conversation(admin)
        pids = [team.pid_of("team_member web"), team.pid_of("team_member worker")]
        agents = "SELECT pid FROM sessions_app_runtimeprocess WHERE pid > 0 AND stopped_at IS NULL"
        pids += [pid for (pid,) in team.rows(agents)]
        assert len(pids) >= 4
        team.member.end(signal.SIGKILL)
        wait_for(lambda: [pid for pid in pids if processes.identity(pid)], lambda living: not living)
    finally:
        team.drop()


def test_second_start_on_the_same_ports_is_refused_before_anything_starts(team, tmp_path):
    assert len(team.urls) == 2
    (tmp_path / "again").mkdir()
    again = OwnTeam(tmp_path / "again", name=team.name, port=team.port)
    assert again.member.process.wait(PATIENCE_S) == 2
    assert again.member.log.read_text() == (
        f"CommandError: Port {team.port} of 127.0.0.1 is in use. Stop the process that uses it, or select another"
        " --port.\n"
    )
