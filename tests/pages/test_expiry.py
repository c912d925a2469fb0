"""Idle and expired sessions: badges, filter, time to live of an app."""

from __future__ import annotations

import time

import pytest
from django.db import connection
from django.test import Client

from sessions_app.sessions import app_settings, listing
from sessions_app.store import expiry
from sessions_app.store.models import AgentSession, AppSettings
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.pages.client import Get

pytestmark = [pytest.mark.usefixtures("store", "agents_dir")]

HOUR = 3_600.0


def create_session(session_id: str, hours: float, *, app: str = "weather", realm: str = "") -> AgentSession:
    """Create a session whose last event is so many hours old."""
    return writes.create_session(SessionKey(realm, app, "ann", session_id), now=time.time() - hours * HOUR)


def marks(get: Get, query: str = "") -> dict[str, str]:
    """Return the mark of each session of the list."""
    rows = get(f"/sessions/{query}").one("tbody").all("tr")
    badges = {row.one("td", css="id-cell").text: row.all("span", css="badge") for row in rows}
    return {name: badge[0].text if badge else "" for name, badge in badges.items()}


def test_sessions_are_marked_by_their_own_apps_time_to_live(get: Get):
    app_settings.set_session_ttl("weather", 10 * HOUR)
    for hours in (1, 6, 11):
        create_session(f"weather-{hours}", hours)
    create_session("writer-11", 11, app="writer")
    assert marks(get) == {"weather-1": "", "weather-6": "idle", "weather-11": "expired", "writer-11": ""}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?age=expired", {"weather-11", "writer-3"}),
        ("?age=idle", {"weather-6", "writer-1"}),
        ("?age=expired&app=writer", {"writer-3"}),
        ("?age=expired&q=weather", {"weather-11"}),
    ],
)
def test_idle_and_expired_sessions_can_be_filtered(get: Get, query: str, expected: set[str]):
    app_settings.set_session_ttl("weather", 10 * HOUR)
    app_settings.set_session_ttl("writer", 1.5 * HOUR)
    for hours in (1, 6, 11):
        create_session(f"weather-{hours}", hours)
    for hours in (0, 1, 3):
        create_session(f"writer-{hours}", hours, app="writer")
    create_session("of another app", 10_000, app="team")
    assert set(marks(get, query)) == expected


def test_without_a_time_to_live_nothing_is_expired(get: Get):
    create_session("old", 100_000)
    assert marks(get) == {"old": ""}
    assert get("/sessions/?age=expired").one("div", css="empty").one("h2").text == "No session matches"


def test_attempts_of_evals_never_expire(get: Get):
    app_settings.set_session_ttl("weather", 1)
    create_session("attempt", 5, realm="eval/1")
    assert marks(get, "?realm=eval/") == {"attempt": ""}


def test_an_age_that_is_none_is_refused(get: Get):
    assert "age" in get("/sessions/?age=young", status=400).one("h1").text


def test_row_is_replaced_in_place_when_its_session_expires(get: Get):
    create_session("s1", 5)
    page = get("/sessions/")
    app_settings.set_session_ttl("weather", HOUR)
    row = get(page.one("div", id="watch").attrs["hx-get"]).one("tr")
    assert "expired" in row.one("td", css="session-cell").text


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="reads SQLite's own words")
def test_expired_sessions_are_a_range_of_the_index(store):
    app_settings.set_session_ttl("weather", HOUR)
    app_settings.set_session_ttl("writer", 2 * HOUR)
    rows = expiry.filter_by_age(AgentSession.objects.all(), expiry.Age.EXPIRED).order_by("-updated_at", "-pk")
    sql, parameters = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
        plan = " ".join(str(step) for *_, step in cursor.fetchall())
    assert "session_newest (realm=? AND updated_at<?)" in plan


def test_the_list_needs_no_further_query(store, django_assert_num_queries):
    app_settings.set_session_ttl("weather", HOUR)
    create_session("s1", 5)
    with django_assert_num_queries(1):
        assert [expiry.find_age(row) for row in listing.list_sessions(listing.SessionFilter())] == ["expired"]


def test_session_shows_expiry_and_its_setting(get: Get):
    app_settings.set_session_ttl("weather", 2 * HOUR)
    session = create_session("s1", 5)
    facts = get("/sessions/weather/ann/s1/").one("dl", css="event-facts")
    names = [name.text for name in facts.all("dt")]
    fact_by_name = dict(zip(names, facts.all("dd"), strict=True))
    assert fact_by_name["expired"].one("time").attrs["data-epoch"] == repr(session.updated_at + 2 * HOUR)
    assert "survives a restart" in fact_by_name["stored in"].text
    assert str(connection.settings_dict["NAME"]) in fact_by_name["stored in"].text


def test_agent_page_sets_session_expiry(get: Get, client: Client):
    form = get("/agents/weather/").one("form", id="session-ttl")
    assert form.one("input").attrs["value"] == ""
    answer = client.post(form.attrs["action"], {"ttl": "30d"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/agents/weather/")
    assert AppSettings.objects.get().session_ttl_s == 30 * 24 * HOUR
    assert get("/agents/weather/").one("form", id="session-ttl").one("input").attrs["value"] == "30d"
    client.post(form.attrs["action"], {"ttl": ""})
    assert AppSettings.objects.get().session_ttl_s is None


def test_invalid_time_span_is_refused_at_its_field(client: Client):
    headers = {"HX-Request": "true", "HX-Target": "session-ttl"}
    answer = client.post("/agents/weather/settings/", {"ttl": "a week"}, headers=headers)
    assert answer.status_code == 422
    assert "30d for thirty days" in answer.content.decode()
    assert client.post("/agents/weather/settings/", {"ttl": "a week"}).status_code == 400
    assert not AppSettings.objects.exists()


def test_unknown_app_has_no_settings(client: Client):
    assert client.post("/agents/nobody/settings/", {"ttl": "1d"}).status_code == 404
    assert client.get("/agents/weather/settings/").status_code == 405
    assert not AppSettings.objects.exists()
