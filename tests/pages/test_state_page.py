"""Shared state: keys, writers, histories."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from sessions_app.sessions import state_edits
from sessions_app.state import shared_state
from sessions_app.store.events.attribution import Writer
from sessions_app.store.models import AgentSession, AppState, StateChange
from sessions_app.store.sessions import writes
from sessions_app.store.state.points import FEW_KEYS
from tests.pages.client import Get
from tests.pages.html import Element, table
from tests.timeline.story import Story, many_keys

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]


def boards(page: Element) -> dict[str, list[str]]:
    """Return the keys of each board by its heading."""
    return {
        section.all("h2")[0].text: [cell.text for cell in section.all("th", css="key-cell")]
        for section in page.all("section")
        if section.attrs["aria-labelledby"].startswith("board-")
    }


def newest(key: str) -> StateChange:
    return StateChange.objects.filter(key=key).latest("position")


def test_state_page_finds_sessions_by_key_and_value(get: Get):
    Story(initial={"user:units": "metric"})
    page = get("/state/?app=weather&user=ann")
    assert page.one("h2", id="find-title").text == "Find state of ann in weather by key and value"
    assert page.one("label", for_="state-query").text == "Key and value"
    form = page.one("form", aria_labelledby="find-title")
    fields = {field.attrs["name"]: field.attrs.get("value") for field in form.all("input")}
    assert fields == {"app": "weather", "user": "ann", "q": ""}
    sessions_button = form.all("button")[1]
    assert sessions_button.text == "Find sessions"
    address = f"{sessions_button.attrs['formaction']}?app=weather&user=ann&q="
    assert len(get(f"{address}user:units+=+metric").one("tbody").all("tr")) == 1
    assert "No session matches" in get(f"{address}user:units+=+imperial").text


def test_each_scope_has_its_own_board_with_prefixed_keys(get: Get):
    Story(initial={"mine": 0, "user:name": "Ada", "app:motd": "hi"})
    page = get("/state/?app=weather&user=ann")
    assert boards(page) == {"Everyone in weather": ["app:motd"], "User ann": ["user:name"]}
    assert len(page.all("abbr", css="scope-user")) == 2  # in the lead and on the board


def test_key_shows_its_last_writer_and_session(get: Get):
    story = Story(initial={"user:n": 0})
    story.asks("Weather?")
    seq = story.add(
        delta={"user:n": 1}, writers={"user:n": Writer("tool", "get_weather", "c1", inferred=False)}
    )
    row = get("/state/?app=weather&user=ann").all("tbody")[0].one("tr")
    writer = row.one("span", css="writer")
    assert writer.text == f"tool get_weather event {seq} of Weather?"
    assert writer.one("a").attrs["href"] == f"/sessions/weather/ann/s1/?seq={seq}"


def test_a_writer_that_no_recorder_saw_is_marked_as_inferred(get: Get):
    story = Story()
    story.add(delta={"app:n": 1})
    assert "inferred" in get("/state/?app=weather").one("span", css="writer").text


def test_a_key_outlives_the_session_that_wrote_it(get: Get):
    story = Story("s1")
    story.add(delta={"app:n": 1})
    writes.delete_session(story.key)
    writer = get("/state/?app=weather").one("span", css="writer")
    assert "session s1, deleted" in writer.text
    assert not writer.all("a")


def test_removed_key_is_not_on_the_board(get: Get):
    Story(initial={"app:a": 1, "app:b": 2})
    change = newest("a")
    AppState.objects.filter(key="a").delete()
    assert boards(get("/state/?app=weather"))["Everyone in weather"] == ["app:b"]
    assert change.pk


def test_the_history_of_a_removed_key_is_still_at_hand(get: Get):
    story = Story("s1", {"app:limit": 3, "app:kept": 1, "user:tier": "gold"}, user="ann")
    for name in ("app:limit", "user:tier"):
        state_edits.remove_key(story.pk, name)
    page = get("/state/?app=weather&user=ann")
    links = [link for key_list in page.all("ul", "gone-keys") for link in key_list.all("a")]
    assert [link.text for link in links] == ["user:tier", "app:limit"]
    history = get(links[1].attrs["href"])
    assert "3" in history.one("main").text
    assert not get("/state/?app=weather&user=ann&after_app=kept&after_user=a").all("ul", "gone-keys")


def test_removed_keys_are_not_searched_among_very_many(get: Get):
    story = Story("s1", {"app:limit": 3, **many_keys("app:", FEW_KEYS + 1)})
    state_edits.remove_key(story.pk, "app:limit")
    assert not get("/state/?app=weather").all("ul", "gone-keys")


def test_unknown_app_is_reported(get: Get):
    Story("s1")
    page = get("/state/?app=wether")
    assert page.one("div", "empty").one("h2").text == "No app has this name"
    assert "wether" in page.one("div", "empty").text
    assert "No app has this name" not in get("/state/?app=weather").text


def test_page_of_very_many_users_says_that_there_are_more(get: Get):
    for user in (f"u{number:03}" for number in range(shared_state.MAX_USERS)):
        Story(f"s-{user}", {"user:tier": "gold"}, user=user)
    assert "These are the first" not in get("/state/?app=weather").text
    Story("s-zoe", {"user:tier": "gold"}, user="zoe")
    page = get("/state/?app=weather")
    assert f"These are the first {shared_state.MAX_USERS}." in page.text
    assert "zoe" not in page.one("section", aria_labelledby="users-title").text


def test_apps_with_shared_state_are_listed(get: Get):
    Story("s1", {"app:a": 1, "user:b": 2})
    Story("s2", {"user:c": 1}, user="ben")
    Story("s3", {"own": 1}, app="writer")
    assert table(get("/state/")) == [{"App": "weather", "App keys": "1", "Users with keys": "2"}]


def test_without_a_user_those_with_state_are_offered(get: Get):
    Story("s1", {"user:b": 2}, user="a/b&c")
    chip = get("/state/?app=weather").one("a", css="chip")
    assert chip.attrs["href"] == "?app=weather&user=a%2Fb%26c"


def test_a_store_without_shared_state_teaches_how_to_share(get: Get):
    empty = get("/state/").one("div", css="empty")
    assert 'state["user:name"]' in empty.one("code").text


def test_values_of_state_stay_text(get: Get):
    hostile = '"><script>alert(1)</script>'
    Story(initial={"app:" + hostile: {hostile: [hostile]}})
    page = get("/state/?app=weather")
    assert all("src" in script.attrs for script in page.all("script"))
    assert page.one("th", css="key-cell").text == "app:" + hostile


def test_credentials_in_state_are_not_shown(client: Client):
    secret = {"authType": "oauth2", "oauth2": {"clientSecret": "hush"}}
    Story(initial={"app:auth": secret})
    address = f"/state/values/{newest('auth').pk}/"
    for page in ("/state/?app=weather", address, f"/state/history/{newest('auth').pk}/"):
        assert b"hush" not in client.get(page).content


def test_many_keys_come_in_pages(get: Get):
    Story(initial={f"app:k{n:03}": n for n in range(150)})
    first = get("/state/?app=weather")
    more = first.one("nav", css="pager").one("a").attrs["href"]
    second = get(f"/state/{more}")
    keys = [key for page in (first, second) for key in boards(page)["Everyone in weather"]]
    assert keys == [f"app:k{n:03}" for n in range(150)]


def test_the_number_of_queries_does_not_depend_on_the_number_of_keys(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    for n in range(3):
        Story(f"s{n}", {f"app:{n}-{m}": m for m in range(20)} | {f"user:{n}": n})
        # apps, users, newest sessions; for each board owner, keys and changes
        with django_assert_num_queries(13):
            client.get("/state/?app=weather&user=ann")


def test_a_history_shows_every_write_across_sessions_newest_first(get: Get):
    Story("s1", {"user:n": 0})
    Story("s2").add(delta={"user:n": 1})
    third = Story("s3")
    third.add(delta={"user:n": 2})
    page = get(f"/state/history/{newest('n').pk}/")
    items = page.one("ol", css="history").all("li")
    assert [item.one("p", css="value-change").text for item in items[:2]] == ["1 → 2", "0 → 1"]
    assert items[2].one("span", css="json-number").text == "0"
    assert len(page.one("svg", css="history-plot").one("polyline").attrs["points"].split()) == 3
    assert ["the key was new" in item.text for item in items] == [False, False, True]
    assert page.one("h1").text == "user:n"


def test_long_history_has_pages_and_only_its_end_is_new(get: Get):
    story = Story()
    for n in range(25):
        story.add(delta={"app:n": n})
    first = get(f"/state/history/{newest('n').pk}/")
    older = first.one("p", css="dialog-foot").one("a").attrs["href"]
    second = get(f"/state/history/{newest('n').pk}/{older}")
    values = [
        item.all("code", "added") or item.all("span", "json-number")
        for page in (first, second)
        for item in page.one("ol", css="history").all("li")
    ]
    numbers = [int(value.text) for [value] in values]
    assert numbers == list(range(24, -1, -1))
    assert "the key was new" not in first.one("main").text
    assert "the key was new" in second.one("main").text


def test_history_of_texts_shows_old_and_new_without_a_plot(get: Get):
    story = Story(initial={"city": "Rome"})
    for city in ("Paris", "Oslo"):
        story.add(delta={"city": city})
    page = get(f"/state/history/{newest('city').pk}/")
    assert page.all("p", "value-change")[0].text == '"Paris" → "Oslo"'
    assert not page.all("svg", "history-plot")


def test_a_dialog_gets_only_the_history(get: Get):
    Story(initial={"app:n": 1})
    part = get(f"/state/history/{newest('n').pk}/", target="dialog-content")
    assert part.one("h1").attrs["id"] == "dialog-title"
    assert not part.all("main")


def test_a_long_value_is_fetched_piece_by_piece(get: Get):
    Story(initial={"app:list": list(range(250))})
    address = f"/state/values/{newest('list').pk}/"
    closed = get("/state/?app=weather").one("div", css="json").one("details")
    assert closed.attrs["hx-get"] == f"{address}?pointer=&offset=0"
    assert not closed.one("ul").children
    numbers, more = [], closed.attrs["hx-get"]
    while more:
        piece = get(more)
        numbers += [int(value.text) for value in piece.all("span", css="json-number")]
        buttons = piece.all("button")
        more = buttons[0].attrs["hx-get"] if buttons else ""
    assert numbers == list(range(250))


@pytest.mark.parametrize("query", ["?pointer=/nowhere", "?pointer=/n/0/x", "?pointer=/l/9"])
def test_missing_piece_is_404(get: Get, query: str):
    Story(initial={"app:v": {"n": 1, "l": [1]}})
    get(f"/state/values/{newest('v').pk}/{query}", status=404)


@pytest.mark.parametrize(
    "address",
    ["/state/values/999/", "/state/history/999/"],
)
def test_missing_row_is_404(get: Get, address: str):
    assert "no row 999" in get(address, status=404).one("h1").text


@pytest.mark.parametrize("query", ["?before=x", "?before=-1"])
def test_a_history_cursor_that_is_none_is_refused(get: Get, query: str):
    Story(initial={"app:n": 1})
    get(f"/state/history/{newest('n').pk}/{query}", status=400)


def test_key_shows_number_of_writes_in_all_sessions(get: Get):
    first, second = Story("s1", {"user:n": 0}), Story("s2")
    for number in range(3):
        first.add(delta={"user:n": number})
        second.add(delta={"user:n": -number})
    row = table(get("/state/?app=weather&user=ann").one("section", aria_labelledby="board-user"))[0]
    assert row["Writes"] == "7"


def test_the_page_of_a_user_lists_the_sessions(get: Get):
    Story("s1").asks("Weather?")
    Story("s2", user="ben").asks("Chess?")
    page = get("/state/?app=weather&user=ann")
    assert page.one("h1").text == "User ann in weather"
    links = page.one("ul", css="session-links")
    assert [link.text for link in links.all("a")] == ["Weather?"]
    assert "ann" not in links.text, "the page says already whose sessions they are"
    everything = page.all("section")[-1].one("a", css="small")
    assert everything.attrs["href"] == "/sessions/?app=weather&user=ann"
    of_the_app = get("/state/?app=weather").one("ul", css="session-links")
    assert [row.one("bdi", css="faint").text for row in of_the_app.all("li")] == ["ben", "ann"]


def test_similar_sessions_are_distinguished_by_id(get: Get):
    for session_id in ("first-visit", "second-visit"):
        Story(session_id, user="ann").asks("Hello")
    items = get("/state/?app=weather&user=ann").one("ul", "session-links").all("li")
    assert sorted(item.one("bdi", "faint").text for item in items) == ["first-visit", "second-visit"]


def test_a_user_without_an_app_is_shown_the_apps_that_know_it(get: Get):
    Story("s1", app="weather")
    Story("s2", {"user:tier": "gold"}, app="writer")
    Story("s3", app="team", user="ben")
    chips = get("/state/?user=ann").all("a", css="chip")
    assert [(chip.text[1:].strip(), chip.attrs["href"]) for chip in chips] == [
        ("weather", "?user=ann&app=weather"),
        ("writer", "?user=ann&app=writer"),
    ]
    assert "Unknown user" in get("/state/?user=zoe").one("div", css="empty").text


def test_rows_and_sessions_lead_to_the_pages_of_their_user_and_app(get: Get):
    story = Story("s1", app="a/b", user="x&y")
    row = get("/sessions/").one("tbody").one("tr")
    assert [cell.one("a").attrs["href"] for cell in row.all("td", css="name-cell")] == [
        "/state/?app=a%2Fb",
        "/state/?app=a%2Fb&user=x%26y",
    ]
    page = get(f"/sessions/id/{story.pk}/")
    assert page.all("a", href="/state/?app=a%2Fb&user=x%26y")


FOUND = {
    "app:limit = 3": {"Everyone in weather": ["app:limit"]},
    "app:limit > 3": {"Everyone in writer": ["app:limit"]},
    "user:home->city ~ os": {"User ann in weather": ["user:home"]},
    "key:user:home": {"User ann in weather": ["user:home"], "User ben in weather": ["user:home"]},
    "user:home != nowhere": {"User ann in weather": ["user:home"], "User ben in weather": ["user:home"]},
    "app:home = 3": {},
}


@pytest.mark.parametrize("query", FOUND)
def test_shared_values_are_found_though_no_session_reads_them(get: Get, query: str):
    Story("s1", {"app:limit": 3, "user:home": {"city": "Oslo"}, "user:other": 1})
    Story("s2", {"user:home": "Rome"}, user="ben")
    Story("s3", {"app:limit": 4}, app="writer")
    Story("s4", {"app:limit": 3, "user:home": {"city": "Oslo"}}, realm="eval/1")
    AgentSession.objects.all().delete()
    page = get(f"/state/?{urlencode({'q': query})}")
    assert boards(page) == FOUND[query]
    assert page.one("input", id="state-query").attrs["value"] == query
    assert FOUND[query] or "No shared key has this value now." in page.text


def test_found_key_leads_to_its_owner_and_history(get: Get):
    Story("s1", {"user:home": "Oslo"})
    page = get("/state/?q=user:home+%3D+Oslo")
    link = next(link for link in page.all("a") if "ann" in link.text)
    assert boards(get(link.attrs["href"]))["User ann"] == ["user:home"]
    assert "Oslo" in get(page.one("a", css="row-link", title="History").attrs["href"]).text


def test_search_for_shared_values_keeps_to_the_chosen_app_and_user(get: Get):
    for app in ("weather", "writer"):
        for user in ("ann", "ben"):
            Story("s1", {"user:home": "Oslo", "app:limit": 3}, app=app, user=user)
    found = get("/state/?app=writer&user=ben&q=user:home+%3D+Oslo").one("div", role="status")
    assert list(boards(found)) == ["User ben in writer"]
    found = get("/state/?app=writer&user=ben&q=app:limit+%3D+3").one("div", role="status")
    assert list(boards(found)) == ["Everyone in writer"]


def test_search_lists_a_bounded_number_of_keys(get: Get):
    for number in range(shared_state.MAX_FOUND + 1):
        Story("s1", {"user:home": "Oslo"}, user=f"u{number:02}")
    page = get("/state/?q=key:user:home")
    assert len(boards(page)) == shared_state.MAX_FOUND
    assert "More keys match." in page.text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("tier = gold", "'tier' is a key of sessions"),
        ("key:tier", "'tier' is a key of sessions"),
        ("rain", "Shared values are found by one key."),
        ("app:a = 1 app:b = 2", "Shared values are found by one key."),
        ("-app:a = 1", "Shared values are found by one key."),
        ("app:a ever", "Shared values are found by one key."),
        ("app:a =", "The value after '=' is missing."),
        ('app:b = "<i>"', "No shared key has this value now."),
    ],
)
def test_search_that_no_shared_key_can_match_says_why(get: Get, query: str, message: str):
    assert message in get(f"/state/?{urlencode({'app': 'weather', 'q': query})}").text
