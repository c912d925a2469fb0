"""DevUI's own API: paginated lists, events, state at an event, key history, runs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from sessions_app.api import v1
from sessions_app.runs import lifecycle
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run
from tests.api.builders import append, create
from tests.sessions.faults.lost_store import fail_with_lost_store


async def test_list_cursor_works_while_sessions_are_added(web):
    for number in range(5):
        await create(f"s{number}")
    first = (await web.get("/api/v1/sessions", params={"limit": 2})).json()
    assert [session["id"] for session in first["sessions"]] == ["s4", "s3"]
    await create("newer")
    second = (await web.get("/api/v1/sessions", params={"limit": 2, "before": first["next"]})).json()
    assert [session["id"] for session in second["sessions"]] == ["s2", "s1"]
    last = (await web.get("/api/v1/sessions", params={"limit": 2, "before": second["next"]})).json()
    assert [session["id"] for session in last["sessions"]] == ["s0"]
    assert last["next"] is None


async def test_the_list_is_filtered_by_app_user_id_and_realm(web):
    await create("s1")
    await create("s2", user_id="b/ob")
    await create("s1", app_name="writer")
    await create("s1", realm="eval/1")

    async def find_sessions(**params: str) -> list[str]:
        sessions = (await web.get("/api/v1/sessions", params=params)).json()["sessions"]
        return sorted(f"{session['app']} {session['user']} {session['id']}" for session in sessions)

    assert await find_sessions() == ["weather ann s1", "weather b/ob s2", "writer ann s1"]
    assert await find_sessions(app="writer") == ["writer ann s1"]
    assert await find_sessions(user="b/ob") == ["weather b/ob s2"]
    assert await find_sessions(session="s2") == ["weather b/ob s2"]
    assert await find_sessions(realm="eval/1") == ["weather ann s1"]


async def test_session_has_the_fields_of_lists(web):
    session = await create("s/1", {"n": 1})
    await append(session, "hello")
    body = (await web.get(f"/api/v1/sessions/{session.pk}")).json()
    assert body["id"] == "s/1"
    assert (body["events"], body["errors"], body["last_text"]) == (1, 0, "hello")
    assert body["url"] == "/sessions/weather/ann/s%2F1/"


async def test_events_go_on_from_their_cursor(web):
    session = await create()
    path = f"/api/v1/sessions/{session.pk}/events"
    assert (await web.get(path)).json() == {"events": [], "cursor": 0, "more": False}
    for number in range(1, 6):
        await append(session, f"e{number}")
    first = (await web.get(path, params={"limit": 2})).json()
    assert [(event["seq"], event["event"]["id"]) for event in first["events"]] == [(1, "e1"), (2, "e2")]
    assert (first["cursor"], first["more"]) == (2, True)
    rest = (await web.get(path, params={"after": 2})).json()
    assert [event["event"]["id"] for event in rest["events"]] == ["e3", "e4", "e5"]
    assert (rest["cursor"], rest["more"]) == (5, False)
    assert (await web.get(path, params={"after": 5})).json() == {"events": [], "cursor": 5, "more": False}


async def test_state_is_returned_now_and_then_by_scope(web):
    session = await create(initial={"n": 0, "user:tier": "silver"})
    await append(session, "e1", {"n": 1, "user:tier": "gold"})
    other = await create("s2")
    await append(other, "x1", {"user:tier": "platinum", "app:v": 1})
    await append(session, "e2", {"n": 2})
    path = f"/api/v1/sessions/{session.pk}/state"
    now = (await web.get(path)).json()
    assert now["merged"] == {"n": 2, "user:tier": "platinum", "app:v": 1}
    assert now["scopes"] == {"session": {"n": 2}, "user": {"tier": "platinum"}, "app": {"v": 1}}
    assert (now["seq"], now["event_id"]) == (2, None)
    then = (await web.get(path, params={"at": "e1"})).json()
    assert then["merged"] == {"n": 1, "user:tier": "gold"}
    assert (then["seq"], then["event_id"]) == (1, "e1")
    user = (await web.get(path, params={"at": "e1", "scope": "user"})).json()
    assert user["scopes"] == {"user": {"tier": "gold"}}
    assert user["merged"] == {"user:tier": "gold"}


async def test_state_leaves_credentials_out(web):
    session = await create(initial={"held": {"authType": "apiKey", "apiKey": "hush"}})
    for path in ("state", "state/history?key=held"):
        assert "hush" not in (await web.get(f"/api/v1/sessions/{session.pk}/{path}")).text


async def test_history_of_shared_key_covers_all_sessions(web):
    session = await create(initial={"user:tier": "silver"})
    other = await create("s2")
    await append(other, "x1", {"user:tier": "gold"})
    await append(session, "e1", {"user:tier": None, "tier": "of the session"})
    path = f"/api/v1/sessions/{session.pk}/state/history"
    body = (await web.get(path, params={"key": "user:tier"})).json()
    assert [(change["value"], change["session"], change["cause"]) for change in body["changes"]] == [
        (None, "s1", "append"),
        ("gold", "s2", "append"),
        ("silver", "s1", "seed"),
    ]
    assert body["changes"][1]["event_id"] == "x1"
    first = (await web.get(path, params={"key": "user:tier", "limit": 1})).json()
    second = (await web.get(path, params={"key": "user:tier", "limit": 2, "before": first["next"]})).json()
    assert [change["value"] for change in second["changes"]] == ["gold", "silver"]
    assert second["next"] is None
    assert (await web.get(path, params={"key": "app:nothing"})).json()["changes"] == []


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/api/v1/sessions/999", 404, "999"),
        ("/api/v1/sessions/999/events", 404, "999"),
        ("/api/v1/sessions/999/state", 404, "999"),
        ("/api/v1/sessions/{key}/state?at=nope", 404, "nope"),
        ("/api/v1/sessions/{key}/state?scope=temp", 422, "scope"),
        ("/api/v1/sessions/{key}/state/history", 422, "key"),
        ("/api/v1/sessions/{key}/state/history?key=temp:x", 400, "temp:x"),
        ("/api/v1/sessions/{key}/events?after=-1", 422, "after"),
        ("/api/v1/sessions?before=nope", 400, "nope"),
        ("/api/v1/sessions?limit=0", 422, "limit"),
        ("/api/v1/runs?before=nope", 400, "nope"),
        ("/api/v1/runs?status=nope", 422, "status"),
        ("/api/v1/runs/nope", 404, "nope"),
        ("/api/v1/nothing", 404, "Not Found"),
        ("/api/v1/", 404, "Not Found"),
    ],
)
async def test_all_refusals_have_the_same_shape(web, path, status, word):
    session = await create()
    answer = await web.get(path.format(key=session.pk))
    assert answer.status_code == status
    assert answer.json().keys() == {"detail", "code", "hint"}
    assert word in json.dumps(answer.json()["detail"])
    assert answer.json()["hint"]


class Runtime:
    """Stands in for an app's runtime process: it takes runs and does what the test says."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.started: list[str] = []

    def apps(self) -> list[str]:
        return ["weather"]

    async def client(self, app_name: str) -> Runtime:
        return self

    async def start_run(self, run_id: str) -> None:
        if self.failure:
            raise self.failure
        self.started.append(run_id)

    async def cancel_run(self, run_id: str) -> None:
        await units_of_work.write(lifecycle.finish, run_id, Run.Status.CANCELLED)


@pytest.fixture
def runtime() -> Any:
    registered = Runtime()
    runs.register(registered)
    yield registered
    runs.register(None)


async def test_message_starts_a_background_run(web, runtime):
    session = await create()
    request_body = {"session": session.pk, "message": "hello", "streaming": True, "state_delta": {"n": 1}}
    answer = await web.post("/api/v1/runs", json=request_body)
    assert answer.status_code == 202
    run = answer.json()
    assert (run["status"], run["source"], run["session"]) == ("queued", "api", session.pk)
    assert runtime.started == [run["id"]]
    assert (await web.get(f"/api/v1/runs/{run['id']}")).json() == run
    stored = await units_of_work.read(lambda: json.loads(Run.objects.get().request))
    assert stored["new_message"] == {"role": "user", "parts": [{"text": "hello"}]}
    assert (stored["streaming"], stored["state_delta"], stored["invocation_id"]) == (True, {"n": 1}, None)


async def test_run_that_began_is_acknowledged_when_the_store_answers_again(web, runtime, monkeypatch):
    session = await create()
    monkeypatch.setattr(v1, "_read_run", fail_with_lost_store(2, v1._read_run, before=True))
    answer = await web.post("/api/v1/runs", json={"session": session.pk, "message": "hello"})
    assert answer.status_code == 202
    assert runtime.started == [answer.json()["id"]]


async def test_a_run_is_cancelled_once(web, runtime):
    session = await create()
    run = (await web.post("/api/v1/runs", json={"session": session.pk, "message": "hello"})).json()
    cancelled = await web.post(f"/api/v1/runs/{run['id']}/cancel")
    assert cancelled.json()["status"] == "cancelled"
    again = await web.post(f"/api/v1/runs/{run['id']}/cancel")
    assert again.json() == cancelled.json()


async def test_a_run_that_no_process_takes_has_failed(web, runtime):
    from sessions_app.store.errors import RuntimeUnavailable

    runtime.failure = RuntimeUnavailable("It cannot start.", hint="See its log.")
    session = await create()
    answer = await web.post("/api/v1/runs", json={"session": session.pk, "message": "hello"})
    assert answer.status_code == 503
    assert answer.json() == {
        "detail": "It cannot start.",
        "code": "runtime_unavailable",
        "hint": "See its log.",
    }
    listed = (await web.get("/api/v1/runs")).json()["runs"]
    assert [(run["status"], run["error"]) for run in listed] == [("failed", "It cannot start. See its log.")]


@pytest.mark.parametrize(
    ("request_body", "status"),
    [
        ({"session": 999, "message": "x"}, 404),
        ({"message": "x"}, 422),
        ({"session": "x"}, 422),
        ([], 422),
        (None, 422),
    ],
    ids=str,
)
async def test_invalid_message_is_refused(web, runtime, request_body, status):
    answer = await web.post("/api/v1/runs", json=request_body)
    assert answer.status_code == status
    assert answer.json().keys() == {"detail", "code", "hint"}
    assert runtime.started == []


async def test_an_attempts_session_takes_no_message(web, runtime):
    session = await create(realm="eval/1")
    answer = await web.post("/api/v1/runs", json={"session": session.pk, "message": "x"})
    assert answer.status_code == 400
    assert "eval attempt" in answer.json()["detail"]


async def test_runs_are_listed_newest_first_and_filtered(web, runtime):
    first, two = await create("s1"), await create("s2", app_name="writer")
    run_ids = [
        (await web.post("/api/v1/runs", json={"session": key, "message": "x"})).json()["id"]
        for key in (first.pk, two.pk, first.pk)
    ]
    await units_of_work.write(lifecycle.finish, run_ids[0], Run.Status.DONE)

    async def listed(**params: Any) -> list[str]:
        return [run["id"] for run in (await web.get("/api/v1/runs", params=params)).json()["runs"]]

    assert await listed() == run_ids[::-1]
    assert await listed(session=first.pk) == [run_ids[2], run_ids[0]]
    assert await listed(app="writer") == [run_ids[1]]
    assert await listed(status="done") == [run_ids[0]]
    page = (await web.get("/api/v1/runs", params={"limit": 2})).json()
    assert await listed(before=page["next"]) == [run_ids[0]]


async def test_openapi_describes_every_operation_and_the_shape_of_errors(web):
    schema = (await web.get("/api/v1/openapi.json")).json()
    operations = [
        (path, method, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(operations) >= 9
    for path, method, operation in operations:
        assert operation["description"], (path, method)
        if "{" in path or "requestBody" in operation:
            assert operation["responses"].keys() & {"400", "404", "422"}, (path, method)
    assert schema["components"]["schemas"]["ErrorBody"]["required"] == ["detail", "code", "hint"]
    assert "/api/v1/sessions/{session}/state" in schema["paths"]


async def test_two_rooms_never_share_the_name_of_a_schema():
    """OpenAPI knows schemas by name: of two with one name only the last would be described."""
    from devui.apis.build import v1

    schemas: dict[str, set[Any]] = {}
    for _, router in v1._routers:
        for view in router.path_operations.values():
            for operation in view.operations:
                for model in _models_of(operation):
                    schemas.setdefault(model.__name__, set()).add(tuple(model.model_fields))
    assert {name for name, shapes in schemas.items() if len(shapes) > 1} == set()


def _models_of(operation: Any) -> list[Any]:
    """Return the schemas of an operation's bodies and answers."""
    holders = [model for model in operation.models if model.__ninja_param_source__ == "body"]
    holders += [model for model in operation.response_models.values() if hasattr(model, "model_fields")]
    fields = [field.annotation for holder in holders for field in holder.model_fields.values()]
    return [annotation for annotation in fields if hasattr(annotation, "model_json_schema")]


async def test_the_answers_are_those_that_openapi_promises(web):
    schema = (await web.get("/api/v1/openapi.json")).json()
    session = await create()
    await append(session, "e1", {"n": 1})
    for name, path in (
        ("SessionPage", "/api/v1/sessions"),
        ("SessionOut", f"/api/v1/sessions/{session.pk}"),
        ("EventPage", f"/api/v1/sessions/{session.pk}/events"),
        ("StateOut", f"/api/v1/sessions/{session.pk}/state"),
        ("HistoryPage", f"/api/v1/sessions/{session.pk}/state/history?key=n"),
        ("Runs", "/api/v1/runs"),
    ):
        promised = schema["components"]["schemas"][name]["properties"].keys()
        assert (await web.get(path)).json().keys() == promised, name


async def test_many_clients_at_once_are_answered(web):
    session = await create()
    path = f"/api/v1/sessions/{session.pk}"
    answers: list[httpx.Response] = await asyncio.gather(*(web.get(path) for _ in range(40)))
    assert {answer.status_code for answer in answers} == {200}
