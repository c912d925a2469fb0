"""Users with roles on a team: logins and tokens hold at every web process, and workers execute what they start."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import uuid

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.api.live_sockets import LIVE_AGENTS, next_agent_text, text_message
from tests.patience import PATIENCE_S
from tests.runtime.web_command import ROOT
from tests.workers.conftest import WORDS, agents_of_team
from tests.workers.team import ACTIVE, Team, own_database, wait_for

pytestmark = pytest.mark.soak

PASSWORD = "correct horse battery"


def manage(team, *command, typed=""):
    subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *command],
        env=team.environment,
        cwd=ROOT,
        input=typed,
        text=True,
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def team_with_users(tmp_path_factory):
    """Two web processes and a worker, with a user for each role, named after it."""
    folder = tmp_path_factory.mktemp("users")
    agents = agents_of_team(folder)
    shutil.copytree(LIVE_AGENTS, agents, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    with own_database() as database:
        team = Team(folder, database, agents, {"DEVUI_USERS": "1"})
        try:
            for role in ("reader", "runner", "admin"):
                manage(team, "createuser", role, "--role", role, typed=f"{PASSWORD}\n")
            webs = team.start_web(), team.start_web()
            team.start_worker()
            team.await_workers(1)
            yield team, *webs
        finally:
            team.end()


def client_of(web, **how):
    return httpx.Client(base_url=web.url, trust_env=False, timeout=PATIENCE_S, **how)


def signed_in(web, name):
    """Return the cookies of a user who signs in at a web process."""
    with client_of(web, headers={"Origin": web.url, "Sec-Fetch-Site": "same-origin"}) as browser:
        answer = browser.post("/login/", data={"name": name, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        return dict(browser.cookies)


def client_with_token(issuer, web, name):
    """Return a client of one web process with a token that another has issued."""
    headers = {"Origin": issuer.url, "Sec-Fetch-Site": "same-origin"}
    with client_of(issuer, headers=headers, cookies=signed_in(issuer, name)) as browser:
        response = browser.post("/api/v1/tokens", json={"name": uuid.uuid4().hex, "role": name})
        assert response.status_code == 201, response.text
    return client_of(web, headers={"Authorization": f"Bearer {response.json()['token']}"})


def revoke_tokens(web, name):
    """Let a user revoke all tokens at a web process."""
    headers = {"Origin": web.url, "Sec-Fetch-Site": "same-origin"}
    with client_of(web, headers=headers, cookies=signed_in(web, name)) as browser:
        for token in browser.get("/api/v1/tokens").json()["tokens"]:
            assert browser.delete(f"/api/v1/tokens/{token['id']}").status_code == 204


def new_session(client, app="talker"):
    """Create a session; return its id and key."""
    session_id = client.post(f"/apps/{app}/users/ann/sessions", json={}).json()["id"]
    listed = client.get(f"/api/v1/sessions?app={app}").json()["sessions"]
    return session_id, next(row["key"] for row in listed if row["id"] == session_id)


def test_sign_in_at_one_web_process_holds_at_the_other(team_with_users):
    _team, one, other = team_with_users
    with client_of(other, cookies=signed_in(one, "reader")) as browser:
        assert browser.get("/sessions/").status_code == 200
    with client_of(other) as stranger:
        assert stranger.get("/api/v1/sessions").status_code == 401


def test_worker_executes_the_run_of_a_runner_and_names_the_person(team_with_users):
    _team, one, other = team_with_users
    with client_with_token(one, other, "runner") as runner:
        _, session = new_session(runner)
        run = runner.post("/api/v1/runs", json={"session": session, "message": "say hello"}).json()
        ended = wait_for(
            lambda: runner.get(f"/api/v1/runs/{run['id']}").json(), lambda run: run["status"] not in ACTIVE
        )
    assert (ended["status"], ended["person"]) == ("done", "runner")


def test_reader_starts_nothing_on_a_worker(team_with_users):
    team, one, other = team_with_users
    with client_with_token(one, one, "runner") as runner:
        _, session = new_session(runner)
    with client_with_token(one, other, "reader") as reader:
        refused = reader.post("/api/v1/runs", json={"session": session, "message": "say hello"})
        assert (refused.status_code, refused.json()["code"]) == (403, "role_required")
    assert team.rows(f"SELECT count(*) FROM sessions_app_run WHERE session_id = {session}") == [(0,)]


async def test_runner_talks_live_to_a_worker_and_reader_may_not(team_with_users):
    _team, one, other = team_with_users
    runner = await asyncio.to_thread(client_with_token, one, other, "runner")
    reader = await asyncio.to_thread(client_with_token, one, other, "reader")
    session_id, _ = await asyncio.to_thread(new_session, runner, "parrot")

    def live_socket(client):
        query = f"app_name=parrot&user_id=ann&session_id={session_id}&modalities=TEXT"
        address = other.url.removeprefix("http://")
        headers = {"Authorization": client.headers["Authorization"]}
        return connect(
            f"ws://{address}/run_live?{query}",
            proxy=None,
            open_timeout=PATIENCE_S,
            additional_headers=headers,
        )

    async with live_socket(runner) as line:
        await line.send(text_message("hello"))
        assert await next_agent_text(line) == "heard hello"
    with pytest.raises(InvalidStatus) as refused:
        await live_socket(reader)
    assert refused.value.response.status_code == 403


def test_stream_ends_with_its_token_that_another_web_process_revokes(team_with_users):
    team, one, other = team_with_users
    with client_with_token(one, other, "runner") as runner:
        session_id, session = new_session(runner)
        message = {"role": "user", "parts": [{"text": f"say {WORDS * 30}"}]}
        ids = {"appName": "talker", "userId": "ann", "sessionId": session_id}
        with runner.stream(
            "POST", "/run_sse", json={**ids, "streaming": True, "newMessage": message}
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            revoke_tokens(one, "runner")
            *_, last = filter(None, lines)
    assert json.loads(last.removeprefix("data: "))["code"] == "forbidden"
    run = f"SELECT status FROM sessions_app_run WHERE session_id = {session}"
    assert wait_for(lambda: team.rows(run)[0][0], lambda status: status not in ACTIVE) == "cancelled"


def test_disabled_user_is_refused_by_every_web_process(team_with_users):
    team, one, other = team_with_users
    manage(team, "createuser", "leaver", "--role", "reader", typed=f"{PASSWORD}\n")
    cookies = signed_in(one, "leaver")
    manage(team, "changeuser", "leaver", "--disable")
    for web in (one, other):
        with client_of(web, cookies=cookies) as browser:
            assert browser.get("/api/v1/sessions").status_code == 401
