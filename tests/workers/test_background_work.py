"""Indexing, checks, roll-ups and purges: a worker does them, web processes do not."""

from __future__ import annotations

import signal
import time

import pytest

from tests.workers.team import wait_for

pytestmark = pytest.mark.soak

CURSORS = "SELECT indexed_seq, problems_seq, last_seq FROM sessions_app_agentsession WHERE id = {}"
FORGET = "UPDATE sessions_app_agentsession SET indexed_seq = -1, problems_seq = -1 WHERE id = {} RETURNING id"
BUCKETS = "SELECT count(*) FROM sessions_app_trendbucket"
NOTICED_S = 3.0
"""Seconds in which an indexer would have noticed the changes of a test."""


def talk(web):
    """Run the agent once; return the key of its session."""
    session = web.session()
    assert web.end_of(web.run(session, "say hello"))["status"] == "done"
    return session


def statuses_of_workers(web):
    return sorted(worker["status"] for worker in web.get("/api/v1/workers")["workers"])


def await_cursors(team, session):
    wait_for(lambda: team.rows(CURSORS.format(session))[0], lambda row: row[0] == row[1] == row[2])


def test_without_workers_the_background_work_waits(team):
    web = team.start_web()
    worker = team.start_worker()
    team.await_workers(1)
    session, deleted = talk(web), talk(web)
    await_cursors(team, session)
    wait_for(lambda: team.rows(BUCKETS)[0][0], lambda buckets: buckets > 0)
    worker.end()

    team.rows(FORGET.format(session))
    web.post("/api/v1/sessions/delete", {"sessions": [deleted]})
    team.rows("UPDATE sessions_app_deletedsession SET deleted_at = 0 RETURNING id")
    web.session()
    time.sleep(NOTICED_S)
    assert team.rows(CURSORS.format(session))[0][:2] == (-1, -1)
    assert len(team.rows("SELECT 1 FROM sessions_app_deletedsession")) == 1

    team.start_worker()
    await_cursors(team, session)
    wait_for(lambda: team.rows("SELECT 1 FROM sessions_app_deletedsession"), lambda rows: rows == [])


def start_two_workers(team):
    """Start a web process and two workers, and run the agent once; return web process, older worker and session."""
    web = team.start_web()
    oldest = team.start_worker()
    team.await_workers(1)
    team.start_worker()
    team.await_workers(2)
    session = talk(web)
    await_cursors(team, session)
    return web, oldest, session


def test_another_worker_continues_the_background_work_of_a_killed_one(team):
    _, oldest, session = start_two_workers(team)
    oldest.end(signal.SIGKILL)
    team.rows(FORGET.format(session))
    await_cursors(team, session)


def test_another_worker_continues_the_background_work_of_a_paused_one(team):
    web, oldest, session = start_two_workers(team)
    oldest.process.send_signal(signal.SIGSTOP)
    team.rows(FORGET.format(session))
    await_cursors(team, session)
    wait_for(lambda: statuses_of_workers(web), lambda current: current == ["alive", "gone"])
    oldest.process.send_signal(signal.SIGCONT)
    wait_for(lambda: statuses_of_workers(web), lambda current: current == ["alive", "alive"])
