"""Every entry point that creates sessions refuses ids that the store cannot hold or index, and stores nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command

from sessions_app.adk.service import DjangoSessionService
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, NestedRun
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import nested_runs
from sessions_app.transfer.readers.documents import SessionDocument
from sessions_app.transfer.session_restore import restore_session
from sessions_app.transfer.writers import import_sessions

BAD_IDS = {"long": "é" * 300, "NUL": "a\x00b", "surrogate": "a\ud800b"}
"""The first has fewer characters than an id may have bytes, so that the limits of form fields do not refuse it."""

IDS = {"app_name": "weather", "user_id": "ann", "session_id": "new"}
EVENT = {"id": "e1", "invocationId": "i1", "author": "user", "timestamp": 1.0}

pytestmark = pytest.mark.usefixtures("store")

bad_ids = pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS)
each_field = pytest.mark.parametrize("field", IDS)


def count_sessions() -> int:
    return AgentSession.objects.count()


async def post_json(web: httpx.AsyncClient, path: str, body: dict[str, Any]) -> int:
    """Post a body as a program may that escapes what JSON's text cannot hold; return the status."""
    response = await web.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    return response.status_code


@bad_ids
@each_field
async def test_adk_service_refuses_bad_id(field: str, bad: str):
    with pytest.raises(ValueError, match=r"longer than 512 bytes|NUL or a lone surrogate"):
        await DjangoSessionService().create_session(**{**IDS, field: bad})
    assert await units_of_work.read(count_sessions) == 0


@bad_ids
@pytest.mark.parametrize("field", ["app_name", "user_id"])
async def test_adk_service_continues_no_session_of_bad_owner(field: str, bad: str):
    owner = {"app_name": "weather", "user_id": "ann", field: bad}
    with pytest.raises(ValueError, match=r"longer than 512 bytes|NUL or a lone surrogate"):
        await DjangoSessionService().get_or_create_session(**owner)
    assert await units_of_work.read(count_sessions) == 0


@bad_ids
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apps/weather/users/ann/sessions", {"sessionId": ...}),
        ("/api/v1/sessions/active", {"app": ..., "user": "ann"}),
        ("/api/v1/sessions/active", {"app": "weather", "user": ...}),
        ("/api/v1/sessions/{key}/fork", {"app": ...}),
        ("/api/v1/sessions/{key}/fork", {"user": ...}),
        ("/api/v1/sessions/{key}/fork", {"id": ...}),
    ],
)
async def test_api_refuses_bad_id(web, session, path: str, body: dict[str, Any], bad: str):
    named = {name: bad if value is ... else value for name, value in body.items()}
    assert await post_json(web, path.format(key=session.pk), named) in {400, 422}
    assert await units_of_work.read(count_sessions) == 1


@pytest.mark.parametrize(
    "path", ["{0}/users/u/sessions/s", "weather/users/{0}/sessions/s", "weather/users/u/sessions/{0}"]
)
async def test_api_refuses_long_id_in_address(web, path: str):
    assert await post_json(web, f"/apps/{path.format(BAD_IDS['long'])}", {}) == 400
    assert await units_of_work.read(count_sessions) == 0


@bad_ids
@each_field
async def test_restored_session_with_bad_id_is_refused(field: str, bad: str):
    key = SessionKey("", **{**IDS, field: bad})
    with pytest.raises(BadInput):
        await units_of_work.read(restore_session, key, [EVENT], {})
    assert await units_of_work.read(count_sessions) == 0


@pytest.mark.parametrize("name", ["app", "user", "session_id"])
@pytest.mark.parametrize("bad", [BAD_IDS["long"], BAD_IDS["NUL"]], ids=["long", "NUL"])
async def test_form_of_new_session_refuses_bad_id(web, name: str, bad: str):
    form = {"app": "weather", "user": "ann", "session_id": "new", "state": "", name: bad}
    assert (await web.post("/sessions/new/", data=form)).status_code in {400, 422}
    assert await units_of_work.read(count_sessions) == 0


@pytest.mark.parametrize("name", ["app", "user", "session_id"])
@pytest.mark.parametrize("bad", [BAD_IDS["long"], BAD_IDS["NUL"]], ids=["long", "NUL"])
async def test_form_of_fork_refuses_bad_id(web, session, name: str, bad: str):
    await DjangoSessionService().append_event(
        await DjangoSessionService().get_session(app_name="weather", user_id="ann", session_id="s1"),
        _message(),
    )
    form = {"seq": "1", "app": "weather", "user": "ann", "session_id": "new", "shared": "live", name: bad}
    response = await web.post(f"/sessions/id/{session.pk}/fork/", data=form)
    assert response.status_code in {400, 422}
    assert await units_of_work.read(count_sessions) == 1


def _message() -> Any:
    from google.adk.events import Event

    return Event(author="user", invocation_id="i1")


def document(field: str, bad: str) -> dict[str, Any]:
    """Return a session as ADK's REST API returns it, with a bad id."""
    names = {"app_name": "appName", "user_id": "userId", "session_id": "id"}
    return {**{names[name]: value for name, value in IDS.items()}, "events": [EVENT], names[field]: bad}


@bad_ids
@each_field
async def test_importer_reports_session_with_bad_id(field: str, bad: str):
    sessions = [document(field, bad), document("session_id", "good")]
    report = await units_of_work.read(import_sessions, SessionDocument(sessions, "sent"))
    problems = " ".join(report.unread)
    assert "longer than 512 bytes" in problems or "cannot hold" in problems
    assert await units_of_work.read(count_sessions) == 1


@bad_ids
@each_field
async def test_import_command_stores_no_session_with_bad_id(tmp_path: Path, field: str, bad: str):
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps([document(field, bad)]))
    with pytest.raises((CommandError, SystemExit)):
        await units_of_work.read(call_command, "import_sessions", str(path))
    assert await units_of_work.read(count_sessions) == 0


@bad_ids
async def test_nested_run_with_bad_id_is_refused(session, bad: str):
    origin = nested_runs.NestedRunOrigin(ref=bad, call_id="c1")
    with pytest.raises(BadInput):
        await units_of_work.write(nested_runs.save_nested, session.key, origin, NestedRun(started_at=1.0), {})
    assert await units_of_work.read(count_sessions) == 1
