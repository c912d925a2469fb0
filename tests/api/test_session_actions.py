"""API for titles, tags, pins, deletion with undo, exports and saved views."""

from __future__ import annotations

import json

import pytest

from sessions_app.runs import lifecycle
from sessions_app.sessions import deletion
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.transfer.writers import import_location
from tests.api.builders import append, create

API = "/api/v1"


async def test_rename_tag_and_pin_keep_the_revision(web):
    session = await create("s1")
    change = {"title": " A  rainy day", "pinned": True, "add_tags": ["Bug", "slow"], "remove_tags": ["slow"]}
    body = (await web.patch(f"{API}/sessions/{session.pk}", json=change)).json()
    assert (body["title"], body["pinned"], body["tags"]) == ("A rainy day", True, ["bug"])
    row = await units_of_work.read(AgentSession.objects.get)
    assert row.revision == session.revision
    again = (await web.patch(f"{API}/sessions/{session.pk}", json={"pinned": False})).json()
    assert (again["title"], again["pinned"], again["tags"]) == ("A rainy day", False, ["bug"])


@pytest.mark.parametrize(
    ("change", "status"),
    [({"title": "x" * 201}, 400), ({"add_tags": [""]}, 400), ({"colour": "red"}, 422), ({"pinned": 7}, 422)],
)
async def test_invalid_change_changes_nothing(web, change, status):
    session = await create("s1")
    answer = await web.patch(f"{API}/sessions/{session.pk}", json={"add_tags": ["first"], **change})
    assert answer.status_code == status
    row = await units_of_work.read(lambda: AgentSession.objects.prefetch_related("tags").get())
    assert (row.title, list(row.tags.all())) == ("", [])


async def test_a_session_that_is_not_there_cannot_be_changed(web):
    answer = await web.patch(f"{API}/sessions/999", json={"title": "x"})
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


async def test_sessions_are_deleted_and_come_back(web):
    first, second = await create("s1"), await create("s2")
    keys = {"sessions": [first.pk, second.pk]}
    done = (await web.post(f"{API}/sessions/delete", json=keys)).json()
    assert (done["skipped"], done["deletion"]["sessions"]) == ([], keys["sessions"])
    assert done["deletion"]["until"] == done["deletion"]["deleted_at"] + deletion.UNDO_S
    assert (await web.get(f"{API}/sessions")).json()["sessions"] == []
    assert (await web.get(f"{API}/sessions/{first.pk}")).status_code == 404
    assert (await web.get("/apps/weather/users/ann/sessions/s1")).status_code == 404
    assert (await web.get(f"{API}/deletions")).json()["deletions"] == [done["deletion"]]
    undo = f"{API}/deletions/{done['deletion']['id']}/undo"
    assert (await web.post(undo)).json() == keys
    assert len((await web.get(f"{API}/sessions")).json()["sessions"]) == 2
    assert (await web.post(undo)).status_code == 404


async def test_undo_is_refused_if_id_was_reused(web):
    session = await create("s1")
    done = (await web.post(f"{API}/sessions/delete", json={"sessions": [session.pk]})).json()
    await create("s1")
    answer = await web.post(f"{API}/deletions/{done['deletion']['id']}/undo")
    assert (answer.status_code, answer.json()["code"]) == (409, "already_exists")


async def test_session_with_run_cannot_be_deleted(web):
    session = await create("s1")
    run = await units_of_work.write(lifecycle.create_run, session.pk, {})
    answer = await web.post(f"{API}/sessions/delete", json={"sessions": [session.pk]})
    assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
    assert run.id in answer.json()["detail"]


async def test_adks_delete_stays_immediate(web):
    await create("s1")
    await web.delete("/apps/weather/users/ann/sessions/s1")
    assert (await web.get(f"{API}/deletions")).json()["deletions"] == []
    assert not await units_of_work.read(AgentSession.objects.exists)


async def test_export_is_json_lines(web):
    session = await create("s/1", {"n": 1})
    await append(session, "e1")
    answer = await web.get(f"{API}/sessions/export", params={"session": [session.pk]})
    assert answer.headers["content-type"] == "application/jsonl"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["kind"] for line in lines][-2:] == ["session", "event"]
    assert (await web.get(f"{API}/sessions/export", params={"session": [999]})).status_code == 404
    assert (await web.get(f"{API}/sessions/export")).status_code == 422


async def test_the_list_is_searched_by_the_query_language(web):
    first = await create("s1", {"user:tier": "gold"})
    await create("s2", user_id="ben")
    await append(first, "hello")

    async def find_ids(query: str) -> list[str]:
        answer = await web.get(f"{API}/sessions", params={"q": query})
        return [session["id"] for session in answer.json()["sessions"]]

    assert await find_ids("user:tier = gold") == ["s1"]
    assert await find_ids("events=0") == ["s2"]
    wrong = await web.get(f"{API}/sessions", params={"q": "is:runing"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_query")


async def test_session_is_exported_as_an_html_file(web):
    session = await create("s/1", {"n": 1})
    response = await web.get(f"{API}/sessions/{session.pk}/html")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-disposition"] == f'attachment; filename="session-{session.pk}.html"'
    assert "State now" in response.text
    assert (await web.get(f"{API}/sessions/999/html")).status_code == 404


@pytest.mark.parametrize("key", [2**63, 10**30, 0, -1])
async def test_impossible_primary_key_is_refused_without_query(web, key):
    assert (await web.get(f"{API}/sessions/export", params={"session": key})).status_code == 422
    assert (await web.post(f"{API}/sessions/delete", json={"sessions": [key]})).status_code == 422


async def test_session_is_exported_as_adk_json_and_imported_again(web, tmp_path):
    session = await create("s1", {"user:tier": "gold"})
    await append(session, "e1", {"city": "Rome"})
    response = await web.get(f"{API}/sessions/{session.pk}/adk")
    assert response.headers["Content-Disposition"] == f'attachment; filename="session-{session.pk}.json"'
    exported = response.json()
    assert exported == (await web.get("/apps/weather/users/ann/sessions/s1")).json()
    assert exported["state"]["user:tier"] == "gold"
    file = tmp_path / "session.json"
    file.write_text(json.dumps({**exported, "id": "s2"}))
    await units_of_work.read(import_location, str(file))
    copy = (await web.get("/apps/weather/users/ann/sessions/s2")).json()
    [event], [original] = copy["events"], exported["events"]
    assert (event["id"], event["content"], event["actions"]["stateDelta"]) == (
        "e1",
        original["content"],
        {"city": "Rome"},
    )
    assert (await web.get(f"{API}/sessions/404/adk")).status_code == 404


async def test_session_of_a_fork_is_exported_by_its_key(web):
    await create("s1")
    fork = await create("s1", realm="fork/1")
    await append(fork, "e1")
    assert [event["id"] for event in (await web.get(f"{API}/sessions/{fork.pk}/adk")).json()["events"]] == [
        "e1"
    ]
