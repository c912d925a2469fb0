"""Ids with any characters have their own pages, and are shown as text."""

from __future__ import annotations

import re
from html import unescape

import pytest

from sessions_app.paths import session_url
from sessions_app.store.database import units_of_work
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.hostile_ids import HOSTILE_IDS

DOTS = [".", ".."]


def page_text(html: str) -> str:
    """Return the text of a page."""
    return unescape(re.sub(r"<[^>]*>", " ", html))


async def test_any_id_has_a_page_of_its_own(web, session):
    for hostile in (*HOSTILE_IDS, *DOTS):
        key = SessionKey("", "weather", hostile, hostile)
        row = await units_of_work.write(writes.create_session, key, {f"of {hostile}": "x"})
        page = await web.get(session_url(row), headers={"Accept": "text/html"})
        assert page.status_code == 200, hostile
        if hostile.isprintable():
            assert hostile in page_text(page.text)
        assert "<script>alert" not in page.text


async def test_any_id_can_be_filtered_by(web, session):
    for hostile in (*HOSTILE_IDS, *DOTS):
        key = SessionKey("", hostile, hostile, hostile)
        await units_of_work.write(writes.create_session, key, {})
        parameters = {"app": hostile, "user": hostile}
        for path in ("/sessions/", "/state/"):
            answer = await web.get(path, params=parameters, headers={"Accept": "text/html"})
            assert answer.status_code == 200, (path, hostile)
            assert "<script>alert" not in answer.text
        listed = (await web.get("/api/v1/sessions", params=parameters)).json()
        assert [result["id"] for result in listed["sessions"]] == [hostile]


@pytest.mark.parametrize(
    "path",
    [
        "/sessions/weather/ann/{}/",
        "/apps/weather/users/ann/sessions/{}",
        "/sessions/?user={}",
        "/api/v1/sessions?user={}",
        "/runs/?app={}",
    ],
)
@pytest.mark.parametrize("hostile", ["a%00b", "%ff%fe", "%ed%a0%80"])
async def test_bytes_that_are_no_text_break_nothing(web, path, hostile):
    answer = await web.get(path.format(hostile), headers={"Accept": "application/json, text/html"})
    assert answer.status_code == 400 if "%00" in hostile else answer.status_code in {200, 400, 404}
