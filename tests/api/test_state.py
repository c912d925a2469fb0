"""State API: whole or by key, by scope, now or at an event; conditional changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions_app.runs import lifecycle
from sessions_app.store import scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event, Run, StateChange
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.api.builders import append, create


def of(session, part: str = "key") -> str:
    return f"/api/v1/sessions/{session.pk}/state/{part}"


async def seqs(session) -> list[int]:
    events = Event.objects.filter(session=session).order_by("seq")
    return await units_of_work.read(lambda: list(events.values_list("seq", flat=True)))


async def test_key_is_matched_whole_and_pointer_selects_inside_value(web):
    session = await create(
        initial={
            "user:preferences.theme": "dark",
            "user:preferences": {"theme": "light", "a/b": ["x", {"~": 1}]},
        }
    )

    async def value(key: str, **more: str) -> Any:
        answer = await web.get(of(session), params={"key": key, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    assert await value("user:preferences.theme") == "dark"
    assert await value("user:preferences", pointer="/theme") == "light"
    assert await value("user:preferences", pointer="/a~1b/1/~0") == 1
    missing = await web.get(of(session), params={"key": "user:preferences", "pointer": "/nothing"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    bent = await web.get(of(session), params={"key": "user:preferences", "pointer": "theme"})
    assert (bent.status_code, bent.json()["code"]) == (400, "bad_input")


@pytest.mark.parametrize(
    "key", ["", "a/b?c#d&e=f", "日本語", "user:..", "app:app:x", "user:", "k" * 4000, "%2F"]
)
async def test_any_key_can_be_put_read_and_removed(web, key):
    session = await create()
    response = await web.put(of(session), params={"key": key}, json={"value": {"n": [1, None]}})
    assert (response.status_code, response.json()["value"], response.json()["seq"]) == (
        201,
        {"n": [1, None]},
        1,
    )
    read = await web.get(of(session), params={"key": key})
    assert (read.json()["value"], read.json()["last_write"]["seq"]) == ({"n": [1, None]}, 1)
    changed = await web.put(of(session), params={"key": key}, json={"value": None})
    assert (changed.status_code, changed.json()["revision"]) == (200, 2)
    removal = await web.delete(of(session), params={"key": key})
    assert (removal.status_code, removal.json()["removed"], removal.json()["seq"]) == (200, True, 3)
    assert (await web.get(of(session), params={"key": key})).status_code == 404
    assert await seqs(session) == [1, 2, 3]


async def test_a_key_is_read_as_it_was_at_an_event(web):
    session = await create(initial={"app:n": 0})
    await append(session, "e1", {"app:n": 1})
    other = await create("s2")
    await append(other, "x1", {"app:n": 2})
    then = await web.get(of(session), params={"key": "app:n", "at": "e1"})
    assert then.json()["value"] == 1
    now = (await web.get(of(session), params={"key": "app:n"})).json()
    assert (now["value"], now["last_write"]["session"], now["last_write"]["event_id"]) == (2, "s2", "x1")
    early = await web.get(of(session), params={"key": "later", "at": "e1"})
    assert early.status_code == 404
    assert "at event 'e1'" in early.json()["detail"]


async def test_every_key_has_its_last_writer(web):
    session = await create(initial={"n": 0, "user:tier": "silver"})
    await append(session, "e1", {"n": 1})
    await web.put(of(session), params={"key": "app:v"}, json={"value": 2})
    keys = (await web.get(of(session, "keys"))).json()["keys"]
    assert [(key["key"], key["scope"], key["value"], key["last_write"]["cause"]) for key in keys] == [
        ("n", "session", 1, "append"),
        ("user:tier", "user", "silver", "seed"),
        ("app:v", "app", 2, "edit"),
    ]
    assert keys[2]["last_write"]["writer"] == {
        "kind": "user",
        "name": "",
        "call_id": "",
        "inferred": False,
    }
    then = (await web.get(of(session, "keys"), params={"at": "e1", "scope": "session"})).json()
    assert [(key["key"], key["value"]) for key in then["keys"]] == [("n", 1)]


async def test_a_put_is_an_appended_event_and_replaces_the_whole_value(web):
    session = await create(initial={"cart": {"a": 1}})
    answer = (await web.put(of(session), params={"key": "cart"}, json={"value": {"b": 2}})).json()
    event = await units_of_work.read(Event.objects.get, session=session, seq=answer["seq"])
    assert event.event_id == answer["event_id"]
    body = json.loads(event.data)
    assert (body["author"], body["actions"]["stateDelta"]) == ("user", {"cart": {"b": 2}})
    assert (await web.get(of(session), params={"key": "cart"})).json()["value"] == {"b": 2}


async def test_removal_is_null_in_event_and_leaves_no_value(web):
    session = await create(initial={"user:name": "Ann", "n": 1})
    answer = (await web.delete(of(session), params={"key": "user:name"})).json()
    event = await units_of_work.read(Event.objects.get, session=session, seq=answer["seq"])
    assert json.loads(event.data)["actions"]["stateDelta"] == {"user:name": None}
    merged = (await web.get(f"/api/v1/sessions/{session.pk}/state")).json()["merged"]
    assert merged == {"n": 1}
    again = await web.delete(of(session), params={"key": "user:name"})
    assert (again.status_code, again.json()["code"]) == (404, "not_found")
    history = (await web.get(of(session, "history"), params={"key": "user:name"})).json()["changes"]
    assert [(change["value"], change["removed"], change["cause"]) for change in history] == [
        (None, True, "edit"),
        ("Ann", False, "seed"),
    ]


@pytest.mark.parametrize("method", ["put", "delete"])
async def test_a_change_is_refused_while_a_run_is_active_and_names_it(web, method):
    session = await create(initial={"n": 0})
    run = await units_of_work.write(lifecycle.create_run, session.pk, {})
    body = {"json": {"value": 1}} if method == "put" else {}
    answer = await web.request(method.upper(), of(session), params={"key": "n"}, **body)
    assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
    assert run.id in answer.json()["detail"]
    assert f"/runs/{run.id}/cancel" in answer.json()["hint"]
    assert await seqs(session) == []
    await units_of_work.write(lifecycle.finish, run.id, Run.Status.DONE)
    answer = await web.request(method.upper(), of(session), params={"key": "n"}, **body)
    assert answer.status_code == 200


async def test_a_change_can_be_bound_to_the_sessions_revision(web):
    session = await create(initial={"n": 0})
    revision = (await web.get(f"/api/v1/sessions/{session.pk}/state")).json()["revision"]
    await append(session, "e1", {"m": 1})
    stale = await web.put(of(session), params={"key": "n", "revision": revision}, json={"value": 1})
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_session")
    fresh = await web.put(of(session), params={"key": "n", "revision": revision + 1}, json={"value": 1})
    assert fresh.status_code == 200
    assert (await web.delete(of(session), params={"key": "n", "revision": revision + 1})).status_code == 409


@pytest.mark.parametrize("key", ["n", "user:n", "app:n"])
async def test_position_refuses_key_written_by_any_session_since(web, key):
    session, other = await create(initial={key: 0}), await create("s2")
    last_write = (await web.get(of(session), params={"key": key})).json()["last_write"]
    await append(session, "e1", {"unrelated": 1})
    second_write = await web.put(
        of(session), params={"key": key, "position": last_write["position"]}, json={"value": 1}
    )
    assert second_write.status_code == 200
    await append(session if key == "n" else other, "e9", {key: 5})
    params = {"key": key, "position": second_write.json()["position"]}
    for method, body in (("PUT", {"json": {"value": 2}}), ("DELETE", {})):
        stale = await web.request(method, of(session), params=params, **body)
        assert (stale.status_code, stale.json()["code"]) == (409, "stale_key")
    assert (await web.get(of(session), params={"key": key})).json()["value"] == 5


async def test_position_zero_creates_only_a_missing_key(web):
    session = await create(initial={"user:n": 0})
    for key, status in (("user:n", 409), ("n", 201)):
        answer = await web.put(of(session), params={"key": key, "position": 0}, json={"value": 1})
        assert answer.status_code == status


@pytest.mark.parametrize("method", ["get", "put", "delete"])
async def test_temp_key_is_refused_with_reason(web, method):
    session = await create()
    body = {"json": {"value": 1}} if method == "put" else {}
    answer = await web.request(method.upper(), of(session), params={"key": "temp:draft"}, **body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert "exist during one invocation" in answer.json()["detail"]
    assert await seqs(session) == []


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"value": NaN}', 400),
        (b'{"value": [1e999]}', 400),
        (b'{"value": "\\ud800"}', 400),
        (b'{"value": ' + b"9" * 4250 + b"}", 400),
        (b'{"value": ' + b"[" * 120 + b"]" * 120 + b"}", 400),
        (b'{"value": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", 400),
        (b'{"value": ', 400),
        (b"{}", 422),
        (b"[1]", 422),
        (b"", 422),
    ],
)
async def test_missing_or_invalid_json_is_refused_without_write(web, content, status):
    session = await create()
    answer = await web.put(
        of(session), params={"key": "n"}, content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"detail", "code", "hint"}
    assert await seqs(session) == []


async def test_unstorable_key_is_refused(web):
    session = await create()
    answer = await web.put(of(session), params={"key": "a\x00b"}, json={"value": 1})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")


async def test_eval_attempt_is_read_only_but_other_realms_are_writable(web):
    attempt = await create("a1", {"n": 0}, realm="eval/r1/x/0")
    refused = await web.put(of(attempt), params={"key": "n"}, json={"value": 1})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_input")
    forked = await create("f1", {"n": 0}, realm="fork/1")
    assert (await web.put(of(forked), params={"key": "n"}, json={"value": 1})).status_code == 200


async def test_deleted_session_is_404(web):
    for method in ("GET", "PUT", "DELETE"):
        body = {"json": {"value": 1}} if method == "PUT" else {}
        answer = await web.request(method, "/api/v1/sessions/999/state/key", params={"key": "n"}, **body)
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


async def test_state_at_missing_event_is_404(web):
    session = await create()
    answer = await web.get(f"/api/v1/sessions/{session.pk}/state", params={"at": "nobody"})
    assert (answer.status_code, answer.json()["code"]) == (404, "event_not_found")
    assert "'nobody'" in answer.json()["detail"]


async def test_the_state_of_an_app_and_of_a_user_is_had_without_a_session(web):
    session = await create(
        app_name="we/ather", user_id="an%n", initial={"app:motd": "hi", "user:tier": "gold"}
    )
    await append(session, "e1", {"app:n": 1, "own": 1})
    app = (await web.get("/api/v1/apps/we%2Father/state")).json()
    assert (app["app"], app["user"], app["state"], app["version"]) == (
        "we/ather",
        None,
        {"motd": "hi", "n": 1},
        2,
    )
    assert [(key["key"], key["last_write"]["event_id"]) for key in app["keys"]] == [
        ("app:motd", ""),
        ("app:n", "e1"),
    ]
    user = (await web.get("/api/v1/apps/we%2Father/users/an%25n/state")).json()
    assert (user["user"], user["state"]) == ("an%n", {"tier": "gold"})
    await units_of_work.write(writes.delete_session, SessionKey("", "we/ather", "an%n", "s1"))
    assert (await web.get("/api/v1/apps/we%2Father/state")).json()["state"] == {"motd": "hi", "n": 1}


@pytest.mark.parametrize("path", ["apps/nobody/state", "apps/weather/users/nobody/state"])
async def test_app_or_user_without_state_is_404(web, path):
    await create(initial={"app:n": 1})
    answer = await web.get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_diff_of_two_events_names_values_and_writers(web):
    session = await create(initial={"n": 0, "gone": 1, "same": 1, "app:v": 1})
    await append(session, "e1", {"n": 1, "same": 2})
    other = await create("s2")
    await append(other, "x1", {"app:v": 2})
    await append(session, "e2", {"n": 2, "new": True, "same": 1})
    await web.delete(of(session), params={"key": "gone"})

    async def changes(**params: str) -> dict[str, Any]:
        answer = await web.get(of(session, "diff"), params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    body = await changes(**{"from": "e1", "to": "e2"})
    assert (body["from_seq"], body["to_seq"], body["to_event_id"]) == (1, 2, "e2")
    assert [(c["key"], c["change"], c["old"], c["new"]) for c in body["changes"]] == [
        ("n", "changed", 1, 2),
        ("new", "added", None, True),
        ("same", "changed", 2, 1),
        ("app:v", "changed", 1, 2),
    ]
    assert body["changes"][3]["new_write"]["session"] == "s2"
    whole = await changes()
    assert (whole["from_seq"], whole["from_event_id"], whole["to_event_id"]) == (0, None, None)
    assert [(c["key"], c["change"]) for c in whole["changes"]] == [
        ("gone", "removed"),
        ("n", "changed"),
        ("new", "added"),
        ("app:v", "changed"),
    ]
    assert (await changes(**{"from": "e2", "to": "e2"}))["changes"] == []
    backwards = await web.get(of(session, "diff"), params={"from": "e2", "to": "e1"})
    assert (backwards.status_code, backwards.json()["code"]) == (400, "bad_input")
    unknown = await web.get(of(session, "diff"), params={"from": "nobody"})
    assert unknown.status_code == 404


async def test_history_can_be_limited_to_one_session(web):
    session, other = await create(initial={"user:n": 0}), await create("s2")
    await append(other, "x1", {"user:n": 1})
    await append(session, "e1", {"user:n": 2})
    body = (await web.get(of(session, "history"), params={"key": "user:n", "here": "true"})).json()
    assert [change["value"] for change in body["changes"]] == [2, 0]


async def test_credentials_leave_in_no_answer(web):
    credential = {"authType": "apiKey", "apiKey": "hush"}
    session = await create(initial={"held": credential, "app:held": credential})
    await web.put(of(session), params={"key": "held"}, json={"value": {**credential, "apiKey": "hush2"}})
    for path in ("key?key=held", "keys", "diff", "history?key=held"):
        assert "hush" not in (await web.get(of(session, path))).text
    assert "hush" not in (await web.get("/api/v1/apps/weather/state")).text
    [change] = (await web.get(of(session, "diff"))).json()["changes"]
    assert change["hidden"]
    assert await units_of_work.read(StateChange.objects.filter(private__contains="hush2").count) == 1


async def test_drift_lists_keys_with_cause_and_untracked_changes(web):
    session = await create(initial={"seeded": None})
    await append(session, "e1", {"user:n": 1, "gone": 1})
    other = await create("s2")
    await append(other, "x1", {"user:n": 2})
    await web.delete(of(session), params={"key": "gone"})
    key = SessionKey("", "weather", "ann", "s1")
    await units_of_work.write(
        writes.note_untracked, key, "i1", [writes.UntrackedWrite("lost", scopes.canonicalize([1]), None)]
    )
    for fold in ("ledger", "events"):
        report = (await web.get(of(session, "drift"), params={"fold": fold})).json()
        explained = [
            (k["key"], k["has_stored"], k["stored"], k["has_folded"], k["folded"], k["cause"])
            for k in report["explained"]
        ]
        assert report["keys"] == []
        assert explained == [
            ("gone", False, None, True, None, "removed"),
            ("seeded", True, None, False, None, "seed"),
            ("user:n", True, 2, True, 1, "other_session"),
        ]
        [untracked_key] = report["untracked"]
        assert (
            untracked_key["key"],
            untracked_key["value"],
            untracked_key["has_stored"],
            untracked_key["invocation_id"],
        ) == (
            "lost",
            [1],
            False,
            "i1",
        )
    assert (await web.get(of(session, "drift"), params={"fold": "x"})).status_code == 422
    assert (await web.get("/api/v1/sessions/999/state/drift")).status_code == 404


async def test_an_event_is_named_by_number_or_id(web):
    session = await create()
    for number in range(1, 5):
        await append(session, f"e{number}", {"n": number})
    for at in ("2", "e2"):
        body = (await web.get(of(session).removesuffix("/key"), params={"at": at})).json()
        assert (body["merged"], body["seq"], body["event_id"]) == ({"n": 2}, 2, "e2")
        listed = (await web.get(of(session, "keys"), params={"at": at})).json()
        assert (listed["keys"][0]["value"], listed["event_id"]) == (2, "e2")
        assert (await web.get(of(session), params={"key": "n", "at": at})).json()["value"] == 2
    between = (await web.get(of(session, "diff"), params={"from": "1", "to": "e3"})).json()
    assert [(key["old"], key["new"]) for key in between["changes"]] == [(1, 3)]
    back = await web.get(of(session, "diff"), params={"from": "3", "to": "1"})
    assert (back.status_code, back.json()["detail"]) == (400, "Event '3' comes after event '1'.")
    beyond = (await web.get(of(session).removesuffix("/key"), params={"at": "9"})).json()
    assert beyond["detail"] == "Session 's1' has no event 9."
    assert "the nearest of them is event 4" in beyond["hint"]
    base = f"/api/v1/sessions/{session.pk}"
    fork = await web.post(f"{base}/fork", json={"event_id": "2"})
    assert fork.json()["events"] == 2
    plan = await web.post(f"{base}/rewind", json={"event_id": "3", "dry_run": True})
    assert plan.json()["first_seq"] == 1


async def test_numeric_event_id_wins_over_seq(web):
    session = await create()
    for event_id in ("3", "x", "y"):
        await append(session, event_id, {"n": event_id})
    body = (await web.get(of(session).removesuffix("/key"), params={"at": "3"})).json()
    assert (body["seq"], body["event_id"]) == (1, "3")
    body = (await web.get(of(session).removesuffix("/key"), params={"at": "y"})).json()
    assert (body["seq"], body["event_id"]) == (3, "y")


@pytest.mark.parametrize("at", ["0", "-1", "+2", "²", "2.0", "9" * 19, "9" * 5000, " 2"])
async def test_invalid_event_reference_is_refused(web, at):
    session = await create()
    for event_id in ("a", "b", "c"):
        await append(session, event_id)
    answer = await web.get(of(session).removesuffix("/key"), params={"at": at})
    assert (answer.status_code, answer.json()["code"]) == (404, "event_not_found")
