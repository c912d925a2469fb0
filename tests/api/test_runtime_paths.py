"""ADK's paths that are forwarded to the runtime: artifacts, memory, graphs, traces, tests."""

from __future__ import annotations

import base64

import httpx
import pytest

SESSIONS = "/apps/slow/users/ann/sessions"
DEV = "/dev/apps/slow"


@pytest.fixture
async def session(web: httpx.AsyncClient, peer: object) -> str:
    """The path of a session of an app that runs."""
    return f"{SESSIONS}/{(await web.post(SESSIONS, json={})).json()['id']}"


async def save(web: httpx.AsyncClient, session: str, name: str, text: str) -> httpx.Response:
    data = base64.b64encode(text.encode()).decode()
    part = {"inlineData": {"mimeType": "text/plain", "data": data}}
    return await web.post(f"{session}/artifacts", json={"filename": name, "artifact": part})


@pytest.mark.parametrize("name", ["notes.txt", "user:notes.txt", "a folder/notes #1?.txt"])
async def test_an_artifact_is_saved_listed_read_and_deleted(web, session, name):
    at = f"{session}/artifacts/{name.replace('#', '%23').replace('?', '%3F')}"
    assert (await save(web, session, name, "first")).json()["version"] == 0
    assert (await save(web, session, name, "second")).json()["version"] == 1
    assert (await web.get(f"{session}/artifacts")).json() == [name]
    assert (await web.get(f"{at}/versions")).json() == [0, 1]
    data = [
        (await web.get(path)).json()["inlineData"]["data"]
        for path in (at, f"{at}/versions/latest", f"{at}/versions/0", f"{at}?version=0")
    ]
    assert [base64.b64decode(item).decode() for item in data] == ["second", "second", "first", "first"]
    assert (await web.get(f"{at}/versions/1/metadata")).json()["mimeType"] == "text/plain"
    assert len((await web.get(f"{at}/versions/metadata")).json()) == 2
    assert (await web.delete(at)).json() is None
    assert (await web.get(f"{session}/artifacts")).json() == []


async def test_name_that_leads_out_of_its_folder_is_refused(web, session):
    for name in ("../../up.txt", "/etc/passwd", "C:\\up.txt", "user:../up.txt", "a/../../up.txt"):
        refused = await save(web, session, name, "here")
        assert refused.status_code == 400, name
        assert "path out of its folder" in refused.json()["detail"]
    for at in ("..%2F..%2Fup.txt", "%2Fetc%2Fpasswd", "..%2F.."):
        assert (await web.get(f"{session}/artifacts/{at}")).status_code == 404, at
        assert (await web.delete(f"{session}/artifacts/{at}")).json() is None
    assert (await web.get(session)).status_code == 200
    assert (await web.get(f"{session}/artifacts")).json() == []


async def test_unknown_artifact_has_adks_error(web, session):
    missing = await web.get(f"{session}/artifacts/nothing.txt")
    assert (missing.status_code, missing.json()["detail"]) == (404, "Artifact not found")
    assert "parent path" in missing.json()["hint"]
    bad = await web.get(f"{session}/artifacts/nothing.txt/versions/newest")
    assert (bad.status_code, bad.json()["detail"]) == (422, "Invalid version ID")
    body = await web.post(f"{session}/artifacts", json={"filename": "x"})
    assert body.status_code == 422


@pytest.mark.parametrize("part", ["a%2Fb", "%2E%2E", ""])
async def test_an_id_that_adks_paths_cannot_hold_is_refused(web, peer, part):
    answer = await web.get(f"/apps/slow/users/{part or 'ann'}/sessions/{part}/artifacts")
    assert answer.status_code == 400
    assert "ADK's own server" in answer.json()["detail"]


async def test_a_session_is_added_to_memory(web, session):
    added = await web.patch("/apps/slow/users/ann/memory", json={"sessionId": session.rpartition("/")[2]})
    assert (added.status_code, added.json()) == (200, None)
    missing = await web.patch("/apps/slow/users/ann/memory", json={"sessionId": "nobody"})
    assert (missing.status_code, missing.json()["code"]) == (404, "session_not_found")


async def test_graph_is_drawn_in_requested_theme(web, peer):
    light, dark = [
        (await web.get(f"{DEV}/build_graph_image?dark_mode={dark}")).json()[""]["dotSrc"]
        for dark in ("false", "true")
    ]
    assert light.startswith("// Workflow") or "digraph" in light
    assert light != dark
    assert "digraph" in (await web.get(f"{DEV}/graph")).json()["dotSrc"]
    assert (await web.get(f"{DEV}/users/ann/sessions/s/events/e/graph")).json() == {}


async def test_a_session_without_runs_has_no_trace(web, session):
    answer = await web.get(f"{DEV}/debug/trace/session/{session.rpartition('/')[2]}")
    assert answer.json() == []
    assert (await web.get(f"{DEV}/debug/trace/no-event")).status_code == 404


async def test_recorded_tests_are_listed_from_their_folder_only(web, peer):
    assert (await web.get(f"{DEV}/tests")).json() == []
    assert (await web.get(f"{DEV}/tests/one.json")).status_code == 404
    for name in ("..%2Fagent.json", "%2e%2e", "..%5Cagent"):
        for method in ("GET", "PUT", "DELETE"):
            body = {"session_data": {}} if method == "PUT" else None
            answer = await web.request(method, f"{DEV}/tests/{name}", json=body)
            assert answer.status_code in {400, 403}, (method, name)


@pytest.mark.soak
async def test_the_output_of_tests_is_passed_on_as_text(web, peer):
    answer = await web.post(f"{DEV}/tests/run")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert "test session starts" in answer.text


@pytest.mark.parametrize(
    "app", ["nobody", "..", "%2e%2e%2fslow", "slow%2f..", "__adk_agent_builder_assistant"]
)
async def test_unknown_app_is_404(web, peer, app):
    for path in (f"/dev/apps/{app}/graph", f"/apps/{app}/app-info"):
        assert (await web.get(path)).status_code in {400, 404}, path
