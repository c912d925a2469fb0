"""Text and numbers that no store can hold are refused, without a server error."""

from __future__ import annotations

import json
from typing import Any

import pytest

HUGE = 10**30
UNSTORABLE = ["\ud800", "a\x00b"]


async def send(web, method: str, path: str, body: Any) -> Any:
    """Send a body as a program may that escapes what JSON's text cannot hold."""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return await web.request(method, path, content=json.dumps(body), headers=headers)


@pytest.mark.parametrize("text", UNSTORABLE, ids=["half a character", "NUL"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/sessions/{key}/rewind", {"event_id": ...}),
        ("/api/v1/sessions/{key}/rewind", {"before_invocation": ...}),
        ("/api/v1/sessions/{key}/fork", {"event_id": ...}),
        ("/api/v1/sessions/{key}/fork", {"app": ...}),
        ("/api/v1/sessions/{key}/fork", {"user": ...}),
        ("/api/v1/sessions/{key}/fork", {"id": ...}),
        ("/api/v1/sessions/active", {"app": ..., "user": "ann"}),
        ("/api/v1/sessions/active", {"app": "weather", "user": ...}),
        ("/api/v1/evals/runs", {"app": ..., "evalset": "lookups"}),
        ("/api/v1/evals/runs", {"app": "weather", "evalset": ...}),
        ("/apps/weather/users/ann/sessions", {"sessionId": ...}),
    ],
)
async def test_impossible_id_in_body_is_refused(web, session, path, body, text):
    request_body = {key: text if value is ... else value for key, value in body.items()}
    answer = await send(web, "POST", path.format(key=session.pk), request_body)
    assert answer.status_code in {400, 404, 422}, answer.text
    assert answer.json().keys() == {"detail", "code", "hint"}


@pytest.mark.parametrize(
    "path",
    [
        f"/api/v1/runs?session={HUGE}",
        f"/sessions/id/{HUGE}/",
        f"/sessions/id/{HUGE}/events/1/",
        f"/sessions/id/{HUGE}/rewind/?event=e1",
        f"/sessions/id/{HUGE}/fork/?seq={HUGE}",
        f"/sessions/id/{HUGE}/state/edit/",
        f"/sessions/compare/?left={HUGE}&right={HUGE}",
        f"/state/history/{HUGE}/",
        f"/state/history/{{change}}/?here={HUGE}&before={HUGE}",
        f"/state/values/{HUGE}/",
        f"/api/v1/sessions/{HUGE}/state/history?key=n&before={HUGE}",
    ],
)
async def test_a_number_beyond_every_key_names_nothing(web, session, path):
    from sessions_app.store.database import units_of_work
    from sessions_app.store.models import StateChange

    change = await units_of_work.read(StateChange.objects.filter(key="n").get)
    answer = await web.get(path.format(change=change.pk), headers={"Accept": "application/json"})
    assert answer.status_code in {200, 404}, answer.text
