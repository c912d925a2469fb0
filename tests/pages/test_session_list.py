"""Session list."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from sessions_app.agents import folder
from sessions_app.runs import lifecycle as runs
from sessions_app.search import indexing
from sessions_app.search.execution import scans
from sessions_app.sessions import labels, overview, saved_views
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.sessions import writes
from tests.pages.client import Get
from tests.pages.html import Element, parse, table
from tests.timeline.story import START, Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]


def titles(get: Get, query: str = "") -> list[str]:
    page = get(f"/sessions/{query}")
    return [link.text for link in page.all("a", css="row-link")]


def make(count: int, **columns: str) -> None:
    """Create sessions named s0, s1, … each older than the one before."""
    for n in range(count):
        key = writes.SessionKey("", columns.get("app", "weather"), columns.get("user", "ann"), f"s{n}")
        writes.create_session(key, now=START - n)


def test_row_shows_title_and_activity(get: Get):
    story = Story("s1", user="ann")
    story.asks("Weather in Paris?")
    story.says("It is sunny.", usageMetadata={"totalTokenCount": 1234})
    story.says("", errorCode="QUOTA", errorMessage="no more")
    row = table(get("/sessions/"))[0]
    assert row["Session"].endswith("Weather in Paris? It is sunny.")
    assert (row["App"], row["User"], row["Id"]) == ("weather", "ann", "s1")
    assert (row["Events"], row["Tokens"], row["Problems"]) == ("3", "1.23k", "")
    badge = get("/sessions/").one("span", css="badge-danger")
    assert (badge.text, badge.attrs["title"]) == ("1", "1 error")


def test_custom_title_precedes_first_text(get: Get):
    story = Story()
    story.asks("Weather?")
    assert titles(get) == ["Weather?"]
    writes.rename_session(story.pk, "A rainy day")
    assert titles(get) == ["A rainy day"]


def test_title_that_is_cut_off_ends_with_an_ellipsis(get: Get):
    story = Story()
    writes.rename_session(story.pk, "x" * 199 + "yz")
    assert titles(get) == ["x" * 199 + "…"]


def test_title_has_its_full_text_as_tooltip(get: Get):
    name = "<b>long</b> " * 30
    Story("s1").asks(name)
    [link] = get("/sessions/").all("a", css="row-link")
    assert link.attrs["title"].startswith("<b>long</b> <b>long</b>")
    [link] = get("/").all("a", css="truncate")
    assert link.attrs["title"].startswith("<b>long</b> <b>long</b>")


def test_a_session_without_a_text_is_called_by_its_id(get: Get):
    Story("empty-one")
    assert titles(get) == ["empty-one"]


def test_the_newest_session_comes_first(get: Get):
    make(3)
    assert titles(get) == ["s0", "s1", "s2"]


def test_pages_join_without_a_gap_or_a_repetition(get: Get):
    make(120)
    seen, address = [], "/sessions/"
    while address:
        page = get(address)
        seen += [link.text for link in page.all("a", css="row-link")]
        older = page.all("a", rel="next")
        address = f"/sessions/{older[0].attrs['href']}" if older else ""
    assert seen == [f"s{n}" for n in range(120)]


def test_sessions_of_equal_time_are_paged_by_key(get: Get):
    for n in range(60):
        writes.create_session(writes.SessionKey("", "weather", "ann", f"s{n}"), now=START)
    first = get("/sessions/")
    second = get(f"/sessions/{first.one('a', rel='next').attrs['href']}")
    both = [row["Id"] for page in (first, second) for row in table(page)]
    assert len(both) == len(set(both)) == 60


def test_older_page_links_to_newest_and_keeps_filter(get: Get):
    make(60)
    older = get("/sessions/?app=weather").one("a", rel="next").attrs["href"]
    page = get(f"/sessions/{older}")
    newest = page.one("nav", css="pager").all("a")[0]
    assert (newest.text, newest.attrs["href"]) == ("Newest", "?app=weather")


@pytest.mark.parametrize("cursor", ["yesterday", "1.5", "nan~1", "1~x", "~", "inf~3", "1e999~2"])
def test_invalid_cursor_is_refused(get: Get, cursor: str):
    page = get(f"/sessions/?before={cursor}", status=400)
    assert "not a valid cursor" in page.one("h1").text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?app=weather", {"tea", "東京の天気は？"}),
        ("?user=ben", {"chess"}),
        ("?q=TEA", {"tea"}),
        ("?q=東京", {"東京の天気は？"}),
        ("?q=100%25", set()),
        ("?q=title:_", set()),
        ("?q=id-3", {"chess"}),
        ("?q=author:agent", {"chess"}),
        ("?q=-author:agent+user:ann", {"tea", "東京の天気は？"}),
        ("?q=errors>0&app=weather", set()),
        ("?q=Bxd7", {"chess"}),
        ("?errors_only=1", {"chess"}),
        ("?app=weather&user=ben", set()),
    ],
)
def test_filters_are_in_the_address(get: Get, query: str, expected: set[str]):
    Story("id-1").asks("tea")
    Story("id-2").asks("東京の天気は？")
    chess = Story("id-3", app="writer", user="ben")
    chess.asks("chess")
    chess.says("Bxd7", errorCode="X")
    assert set(titles(get, query)) == expected


@pytest.mark.parametrize("query", ["?realm=eval/", "?q=is:eval"])
def test_eval_attempts_are_listed_only_on_request(get: Get, query: str):
    Story("real")
    attempt = Story("attempt", realm="eval/r1/c1/1")
    assert titles(get) == ["real"]
    page = get(f"/sessions/{query}")
    assert [row["Id"] for row in table(page)] == ["attempt"]
    link = page.one("td", css="session-cell").one("a")
    assert link.attrs["href"] == f"/sessions/id/{attempt.pk}/"


def test_session_with_any_id_is_linked(get: Get):
    Story("a/b%2F?c#d é", user="x/y")
    link = get("/sessions/").one("td", css="session-cell").one("a")
    assert link.attrs["href"] == "/sessions/weather/x%2Fy/a%2Fb%252F%3Fc%23d%20%C3%A9/"


def test_session_with_unaddressable_id_is_linked_by_key(get: Get):
    story = Story("..")
    link = get("/sessions/").one("td", css="session-cell").one("a")
    assert link.attrs["href"] == f"/sessions/id/{story.pk}/"


def test_hostile_text_stays_text(get: Get):
    hostile = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"
    story = Story(hostile, user=hostile, app=hostile)
    story.asks(hostile)
    writes.rename_session(story.pk, hostile)
    page = get("/sessions/")
    assert not page.all("img")
    assert all(script.attrs["src"].startswith("/static/") for script in page.all("script"))
    assert table(page)[0]["Id"] == hostile


def test_directions_of_writing_do_not_leak_out_of_a_cell(get: Get):
    Story("\u202eevil").asks("\u202eevil")
    row = get("/sessions/").one("tbody").one("tr")
    assert "\u202e" not in row.text
    assert {bdi.text for bdi in row.all("bdi") if "evil" in bdi.text} == {"\\u202eevil"}
    assert all(cell.all("bdi") for cell in row.all("td") if "evil" in cell.text)


@pytest.mark.parametrize(
    ("status", "expected"),
    [("running", True), ("waiting", True), ("failed", True), ("crashed", True), ("done", False)],
)
def test_status_of_newest_run_is_shown_if_relevant(get: Get, status: str, expected: bool):
    story = Story()
    runs.create_run(story.pk, {})
    newest = runs.create_run(story.pk, {})
    Run.objects.filter(pk=newest.pk).update(status=status, created_at=newest.created_at + 1)
    badges = get("/sessions/").one("td", css="session-cell").all("span", data_status=status)
    assert bool(badges) is expected


def test_store_without_sessions_explains_sessions(get: Get):
    empty = get("/sessions/").one("div", css="empty")
    assert empty.one("h2").text == "No sessions yet"
    assert empty.one("a").attrs["href"] == "/sessions/new/"


def test_filters_without_results_offer_reset(get: Get):
    Story()
    empty = get("/sessions/?q=nothing").one("div", css="empty")
    assert empty.one("h2").text == "No session matches"
    assert empty.one("a").attrs["href"] == "?"
    sorted_list = get("/sessions/?q=nothing&sort=-tokens&hide=id").one("div", css="empty")
    assert sorted_list.one("a").attrs["href"] == "?sort=-tokens&hide=id"


def test_a_filter_gets_only_the_list(get: Get):
    Story("one")
    part = get("/sessions/?q=one", target="sessions")
    assert not part.all("header")
    assert not part.all("main")
    assert table(part)[0]["Id"] == "one"


def test_going_back_to_a_filtered_list_gets_the_whole_page(client: Client):
    headers = {"HX-Request": "true", "HX-Target": "sessions", "HX-History-Restore-Request": "true"}
    response = client.get("/sessions/?q=one", headers=headers)
    assert b"<html" in response.content
    assert "HX-Request" in response.headers["Vary"]


def test_the_number_of_queries_does_not_depend_on_the_number_of_sessions(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    for user in ("ann", "ben", "cid"):
        make(20, user=user)
        # apps and tags to choose from, pinned sessions, the others, their tags, views, what was deleted, is not indexed
        has_further_page = user == "cid"  # then the sessions are counted
        with django_assert_num_queries(9 if has_further_page else 8):
            client.get("/sessions/")


def test_a_list_reads_no_event_and_no_state(client: Client):
    Story(initial={"k": 1}).asks("Hello")
    with CaptureQueriesContext(connection) as queries:
        client.get("/sessions/")
    read = " ".join(query["sql"] for query in queries)
    assert "agentsession" in read
    assert not [table for table in ("app_event", "statechange", "sessionstate") if table in read]


def test_writing_to_the_list_is_refused(client: Client):
    assert client.post("/sessions/").status_code == 405
    assert not AgentSession.objects.exists()


def watch(page: Element) -> str:
    """Return where a list asks how it has changed."""
    return page.one("div", id="watch").attrs["hx-get"]


def test_unchanged_list_is_not_sent_again(get: Get, client: Client):
    Story("s1").asks("Hello")
    assert client.get(watch(get("/sessions/"))).status_code == 204


def test_changed_row_is_replaced_in_place(get: Get, client: Client):
    first, second = Story("s1"), Story("s2")
    page = get("/sessions/")
    first.asks("Hello")
    change = get(watch(page))
    row = change.one("tr")
    assert (row.attrs["id"], row.attrs["hx-swap-oob"]) == (f"session-row-{first.pk}", "true")
    assert row.one("td", css="session-cell").text == "Hello Hello"
    assert client.get(watch(change)).status_code == 204
    second.asks("Hi")
    assert get(watch(change)).one("tr").attrs["id"] == f"session-row-{second.pk}"


@pytest.mark.parametrize("happens", ["renamed", "run"])
def test_title_and_run_update_the_row(get: Get, happens: str):
    story = Story("s1")
    page = get("/sessions/")
    if happens == "renamed":
        writes.rename_session(story.pk, "Title")
    else:
        runs.create_run(story.pk, {})
    assert get(watch(page)).one("tr")


def test_sessions_that_come_are_counted_and_not_pushed_in(get: Get, client: Client):
    Story("s1")
    page = get("/sessions/?app=weather")
    for n in range(3):
        Story(f"new-{n}").asks("Hello")
    Story("elsewhere", app="writer").asks("Hello")
    change = get(watch(page))
    assert not change.all("tr")
    link = change.one("div", id="watch").one("a")
    assert (link.text, link.attrs["href"]) == ("3 new or changed", "/sessions/?app=weather")
    assert client.get(watch(change)).status_code == 204


@pytest.mark.parametrize("address", ["/sessions/", "/sessions/?app=weather&q=hello"])
def test_an_empty_list_loads_its_first_sessions_at_once(get: Get, client: Client, address: str):
    page = get(address)
    Story("elsewhere", app="other").says("Hi") if "?" in address else None
    assert client.get(watch(page)).status_code == 204
    Story("s1").asks("Hello")
    update = get(watch(page)).one("div", id="watch")
    assert (update.attrs["hx-get"], update.attrs["hx-target"]) == (address, "#sessions")
    assert update.attrs["hx-trigger"].startswith("load")
    assert not update.all("a")
    assert len(get(update.attrs["hx-get"], target="sessions").one("tbody").all("tr")) == 1


def test_older_page_receives_changes_of_its_rows_only(get: Get, client: Client):
    make(60)
    page = get(f"/sessions/{get('/sessions/').one('a', rel='next').attrs['href']}")
    Story("new").asks("Hello")
    assert client.get(watch(page)).status_code == 204


def test_session_deleted_elsewhere_leaves_the_list(get: Get):
    story = Story("s1")
    page = get("/sessions/")
    writes.delete_session(story.key)
    row = get(watch(page)).one("tr")
    assert (row.attrs["id"], row.attrs["hx-swap-oob"]) == (f"session-row-{story.pk}", "delete")


@pytest.mark.parametrize("expected", ["x.1", "1", "1.2.3", "-1.a", "9" * 30 + ".a", ",".join(["1.a"] * 101)])
def test_rows_that_no_page_shows_are_refused(get: Get, expected: str):
    get(f"/sessions/changes/?rows={expected}", status=400)


def test_looking_for_changes_takes_three_queries(client: Client, get: Get, django_assert_num_queries):
    make(30)
    address = watch(get("/sessions/"))
    with django_assert_num_queries(3):  # the rows shown, their tags, the sessions that came
        client.get(address)


def test_hit_shows_match_and_links_to_its_event(get: Get):
    story = Story("s1")
    story.asks("Is it <b>sunny</b> in Paris?")
    story.says("Rain.")
    cell = get("/sessions/?q=sunny").one("td", css="session-cell")
    hit = cell.one("span", css="session-last")
    assert [mark.text for mark in hit.all("mark")] == ["sunny"]
    assert "Is it <b>sunny</b> in Paris?" in hit.text
    assert hit.one("a").attrs["href"] == "/sessions/weather/ann/s1/?seq=1"


def test_invalid_query_shows_position_and_message(get: Get):
    Story("s1")
    page = get("/sessions/?q=is:runing+tea&app=weather", status=400)
    notes = page.one("div", id="query-notes")
    assert notes.one("span", css="wrong").text in "is:runing"
    assert notes.one("p", css="query-line").text == "is:runing tea"
    assert "did you mean 'running'?" in notes.text
    assert page.one("input", name="q").attrs["value"] == "is:runing tea"
    assert not page.all("div", id="watch")


def test_while_a_query_is_written_the_list_stays(get: Get, client: Client):
    headers = {"HX-Request": "true", "HX-Target": "sessions"}
    response = client.get("/sessions/?q=is:runing", headers=headers)
    assert (response.status_code, response["HX-Reswap"], response["HX-Push-Url"]) == (200, "none", "false")
    assert parse(response.content).one("div", id="query-notes").attrs["hx-swap-oob"] == "true"
    again = get("/sessions/?q=is:running", target="sessions")
    assert not again.one("div", id="query-notes").all("p")


def test_unknown_name_gets_a_suggestion(get: Get):
    Story("s1")
    notes = get("/sessions/?q=app:wether").one("div", id="query-notes")
    assert "No session has the app 'wether': did you mean 'weather'?" in notes.text
    assert notes.one("a").attrs["href"] == "/sessions/?q=app%3Aweather"


@pytest.mark.parametrize(
    ("query", "suggestion"),
    [
        ("weath", "weath*"),
        ("user:units = fahrenheit", "user:units = Fahrenheit"),
        ("user:units = f", ""),
        ("weathers*", ""),
    ],
)
def test_query_without_matches_suggests_what_would_match(get: Get, query: str, suggestion: str):
    Story("s1", {"user:units": "Fahrenheit"}).says("The weather is fine.")
    indexing.index_all()
    notes = get(f"/sessions/?{urlencode({'q': query})}").one("div", id="query-notes")
    assert [link.text for link in notes.all("a")] == ([f"Search {suggestion}"] if suggestion else [])


def test_query_excluding_unknown_name_shows_remark_and_hits(get: Get):
    Story("s1", {"order_id": 1}).calls("get_weather", "c1")
    indexing.index_all()
    for query, suggestion in (
        ("ordr_id missing", "order_id missing"),
        ("-tool:get_wether", "-tool:get_weather"),
    ):
        page = get(f"/sessions/?{urlencode({'q': query})}")
        assert [row["Id"] for row in table(page)] == ["s1"]
        assert [link.text for link in page.one("div", id="query-notes").all("a")] == [f"Search {suggestion}"]
    assert get("/sessions/?q=-tool:get_weather").one("div", id="query-notes").text == ""
    assert (
        get("/sessions/?q=-tool:look").one("div", id="query-notes").text
        == "No indexed session has the tool 'look'."
    )


def test_too_long_query_shows_its_error(get: Get):
    page = get(f"/sessions/?q={'w' * 4_000}", status=400)
    assert "at most 2,000 characters; this one has 4,000" in page.one("div", id="query-notes").text
    assert page.one("input", id="query").attrs["value"] == "w" * 4_000


def test_sessions_are_searched_by_current_and_past_state(get: Get):
    story = Story("s1", {"retries": 1, "user:tier": "gold"})
    story.add(delta={"retries": 5})
    story.add(delta={"retries": 0})
    Story("s2", user="ben")
    for query, result in (("retries > 3", []), ("retries > 3 ever", ["s1"]), ("retries missing", ["s2"])):
        assert titles(get, f"?{urlencode({'q': query})}") == result
    assert titles(get, "?q=user:tier+%3D+gold") == ["s1"]


def test_completions_are_offered_at_the_caret(get: Get):
    Story("s1").calls("get_weather", "c1")
    offered = get("/sessions/completions/?q=tea+app:w").all("li", role="option")
    assert [option.attrs["data-text"] for option in offered] == ["app:weather"]
    assert (offered[0].attrs["data-start"], offered[0].attrs["data-end"]) == ("4", "9")
    terms = get("/sessions/completions/?q=to&caret=2").all("li", role="option")
    assert "tool:" in [option.attrs["data-text"] for option in terms]


def test_query_reads_a_bounded_number_of_tables(client: Client, django_assert_max_num_queries):
    for n in range(60):
        Story(f"s{n}").asks("tea")
    with django_assert_max_num_queries(24):
        client.get("/sessions/?q=tea+author:user+-is:error")


def test_the_help_names_every_term(get: Get):
    page = get("/sessions/query-help/")
    named = {term.text for term in page.all("dl")[1].all("dt")}
    assert {"tool", "tag", "is", "updated", "key"} <= named


def test_looking_asks_no_index_while_nothing_came(client: Client, get: Get):
    Story("s1").asks("tea")
    Story("s2").asks("chess")
    address = watch(get("/sessions/?q=tea"))
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 204
    assert len(queries) == 3
    later = Story("s3")
    later.asks("tea")
    later.says("Green or black?")
    assert get(address).one("div", id="watch").one("a").text == "1 new or changed"


def test_list_shows_how_many_sessions_match(get: Get):
    stories = [Story(f"s{n}", app="weather" if n < 60 else "writer") for n in range(71)]
    labels.pin([stories[0].pk])

    def count(query: str = "") -> list[str]:
        return [label.text for label in get(f"/sessions/{query}").all("span", css="table-count")]

    assert count() == ["71 sessions"]
    assert count("?app=weather") == ["60 sessions"]
    assert count("?app=writer&user=ann") == ["11 sessions"]
    assert count("?q=session:s3") == ["11 sessions"]
    assert count("?q=session:s34") == ["1 session"]
    assert count("?q=-is:error") == [], "a search with further pages is not counted"


def test_every_example_of_the_help_is_a_link_that_works(get: Get):
    links = get("/sessions/query-help/").all("dl")[0].all("a")
    assert len(links) > 5
    for link in links:
        assert get(link.attrs["href"]).one("input", id="query").attrs["value"] == link.text


def test_tags_of_a_row_link_to_their_sessions(get: Get):
    story = Story("s1")
    names = ["plain", "two words", 'a "quoted" one', "a=b", "\\"]
    for name in names:
        labels.tag([story.pk], name)
    links = get("/sessions/").all("a", css="tag")
    assert {link.text for link in links} <= set(names)
    for link in links:
        assert titles(get, link.attrs["href"].removeprefix("/sessions/")) == ["s1"]


def test_word_that_is_a_name_suggests_its_term(get: Get):
    story = Story("s1", {"order_id": 7})
    story.calls("look", "c1")
    indexing.index_all()
    for text, suggestion in (("order_id", "order_id ever"), ("ann", "user:ann")):
        notes = get(f"/sessions/?q={text}").one("div", id="query-notes")
        assert [link.text for link in notes.all("a")] == [f"Search {suggestion}"]
        assert titles(get, notes.one("a").attrs["href"].removeprefix("/sessions/")) == ["s1"]


def test_list_shows_number_of_unindexed_sessions_until_indexed(get: Get):
    for n in range(204):
        Story(f"s{n}")
    assert "204 sessions still to index" in get("/sessions/").one("div", id="sessions").text
    indexing.index_all()
    assert "still to index" not in get("/sessions/").one("div", id="sessions").text


def test_list_reports_search_backlog_of_long_session(get: Get):
    story = Story()
    for _ in range(scans.MAX_EVENTS + 1):
        story.says("hello")
    assert "1 session still to index:" in get("/sessions/").one("div", id="sessions").text


def test_the_agents_folder_is_not_walked_for_every_list(
    get: Get, agents_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(overview, "CACHE_S", 1e12)
    walks = []
    names = folder.AgentsFolder.names
    monkeypatch.setattr(folder.AgentsFolder, "names", lambda folder: walks.append(folder) or names(folder))
    for _ in range(3):
        get("/sessions/")
    assert len(walks) <= 1
    (agents_dir / "newcomer").mkdir()
    (agents_dir / "newcomer" / "agent.py").touch()
    assert "newcomer" in [option.text for option in get("/sessions/").one("select", name="app").all("option")]


def test_saved_search_is_not_offered_for_saving(get: Get):
    saved_views.save("Gold", "q=user:tier = gold")
    offers = {
        query: get(f"/sessions/?{query}").one("nav", "views").text for query in ("q=user:tier=gold", "q=tea")
    }
    assert offers == {"q=user:tier=gold": "Gold Saved views…", "q=tea": "Gold Save this search…"}
