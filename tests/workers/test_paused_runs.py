"""Paused runs at a worker with one slot, decided at another web process."""

from __future__ import annotations

import re

import pytest

from tests.workers.team import Team, Web, wait_for

pytestmark = pytest.mark.soak


def post_form(web: Web, path: str, **fields: str) -> int:
    """Send a form as a page does; return the status."""
    return web.client.post(web.url + path, data=fields, headers={"Origin": web.url}).status_code


def newest_run(web: Web) -> str:
    return str(web.get("/api/v1/runs")["runs"][0]["id"])


def pause_addresses(web: Web, session: int) -> list[str]:
    page = web.client.get(f"{web.url}/sessions/id/{session}/", follow_redirects=True)
    return re.findall(r'hx-post="(/runs/\w+/pauses/\d+/)"', page.text)


def test_paused_run_takes_no_slot_and_goes_on_after_a_decision_elsewhere(team: Team):
    one, other = team.start_web(), team.start_web()
    team.start_worker("--concurrency", "1")
    team.await_workers(1)
    session = one.session()
    assert post_form(one, f"/runs/start/{session}/", message="say hello", pause_model="1") == 303
    paused_run = newest_run(one)
    [address] = wait_for(lambda: pause_addresses(other, session), bool)
    assert one.end_of(one.run(one.session(), "say something else"))["status"] == "done"
    assert other.status(paused_run) == "running"
    assert 'data-status="paused"' in other.client.get(f"{other.url}/runs/").text
    assert post_form(other, address, action="answer", response="Good evening") == 303
    assert post_form(one, address, action="continue") == 409
    assert one.end_of(paused_run)["status"] == "done"
    events = one.get(f"/api/v1/sessions/{session}/events")
    assert "Good evening" in str(events)


def test_paused_run_is_cancelled_at_another_web_process(team: Team):
    one, other = team.start_web(), team.start_web()
    team.start_worker("--concurrency", "1")
    team.await_workers(1)
    session = one.session()
    post_form(one, f"/runs/start/{session}/", message="say hello", pause_model="1")
    wait_for(lambda: pause_addresses(one, session), bool)
    run_id = newest_run(one)
    assert other.post(f"/api/v1/runs/{run_id}/cancel")["status"] == "cancelled"
    assert pause_addresses(one, session) == []
