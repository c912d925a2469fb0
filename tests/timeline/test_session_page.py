"""The session page, requested as a browser does."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app import lookup
from sessions_app.agents import cards
from sessions_app.console.questions import CONFIRMATION
from sessions_app.delivery.failure import Failure
from sessions_app.paths import session_url
from sessions_app.runs import lifecycle
from sessions_app.sessions import deletion
from sessions_app.store.models import Run
from sessions_app.store.realms import FORK
from sessions_app.timeline.event_window import WINDOW_SIZE
from sessions_app.views.session import KEYS_AT_MOST
from tests.pages.html import Element, parse
from tests.timeline.session_page import event, session_path
from tests.timeline.story import START, Story

HEADINGS = {f"h{level}" for level in range(1, 7)}


def seqs(tree: Element) -> list[int]:
    return [int(event.attrs["data-seq"]) for event in tree.all("article")]


def test_every_event_has_one_element_with_number_and_id(story, get):
    story.asks("Weather?")
    story.calls("get_weather", "c1", city="Paris")
    story.answers("get_weather", "c1")
    story.says("Sunny.")
    page = get(session_path(story))
    items = [(e.attrs["data-seq"], e.attrs["data-event-id"]) for e in page if "data-seq" in e.attrs]
    assert sorted(items) == [("1", "e1"), ("2", "e2"), ("3", "e3"), ("4", "e4")]
    row = next(row for row in page.all("li", "row") if row.all("article", data_seq="2"))
    assert seqs(row) == [2, 3]


def test_session_has_one_page_for_ids_and_key(story, get):
    story.says("hi")
    assert seqs(get("/sessions/weather/ann/s1/")) == seqs(get(session_path(story))) == [1]


def bounds(tree: Element) -> tuple[str, str, str]:
    """Return the seqs between which a window holds every event, and the session's last as it knows."""
    attrs = tree.one("ol", id="events").attrs
    return attrs["data-first"], attrs["data-last"], attrs["data-cursor"]


def link(tree: Element, side: str) -> str | None:
    """Return where a page leads on one side, None when there is nothing."""
    place = tree.one("p", id=side)
    return None if "hidden" in place.attrs else place.one("a").attrs["href"]


def test_page_opens_at_the_end_and_links_to_older_events(story, get):
    for number in range(WINDOW_SIZE + 30):
        story.says(f"event {number}")
    page = get(session_path(story))
    assert seqs(page) == list(range(31, WINDOW_SIZE + 31))
    assert (link(page, "older"), link(page, "newer")) == ("?before=31", None)
    assert seqs(get(session_path(story, "?before=31"))) == list(range(1, 31))


def test_window_is_a_part_of_the_page_with_its_bounds(story, get):
    for number in range(3 * WINDOW_SIZE):
        story.says(f"event {number}")
    last = str(3 * WINDOW_SIZE)
    older = get(session_path(story, f"?before={2 * WINDOW_SIZE + 1}"), target="window")
    assert seqs(older) == list(range(WINDOW_SIZE + 1, 2 * WINDOW_SIZE + 1))
    assert bounds(older) == (str(WINDOW_SIZE + 1), str(2 * WINDOW_SIZE), last)
    assert not older.all("html")
    newer = get(session_path(story, f"?after={2 * WINDOW_SIZE}"), target="window")
    assert bounds(newer) == (str(2 * WINDOW_SIZE + 1), last, last)
    assert (link(newer, "older"), link(newer, "newer")) == (f"?before={2 * WINDOW_SIZE + 1}", None)
    assert bounds(get(session_path(story, f"?after={last}"), target="window")) == ("0", "0", last)


@pytest.mark.parametrize(("around", "value"), [(1, 1), (60, 60), (-5, 1), (0, 1), (9999, 120)])
def test_any_position_is_reachable_without_opening_an_event(story, get, around, value):
    for number in range(120):
        story.says(f"event {number}")
    page = get(session_path(story, f"?around={around}"))
    assert value in seqs(page)
    assert len(seqs(page)) == WINDOW_SIZE
    assert not page.all("article", aria_current="true")


def test_rail_shows_errors_of_the_session(story, get):
    story.says("one")
    story.add(errorCode="E", errorMessage="boom")
    story.says("three")
    rail = get(session_path(story)).one("div", id="rail")
    assert rail.attrs["aria-valuemax"] == "3"
    assert rail.one("svg").attrs["viewbox"] == "0 0 1 3"
    assert rail.one("path").attrs["d"] == "M0 2h1"


@pytest.mark.parametrize("query", ["?seq=20", "?event=e20"])
def test_a_link_to_an_event_opens_it_in_its_surroundings(story, get, query):
    for number in range(300):
        story.says(f"event {number}", delta={"n": number})
    page = get(session_path(story, query))
    assert 20 in seqs(page)
    assert event(page, 20).attrs["aria-current"] == "true"
    assert "event 20" in page.one("h2", id="inspector-title").text
    assert page.one("h2", id="board-title").text == "State at event 20"
    assert "19" in page.one("li", "entry", data_key="n").text


def test_a_link_to_an_event_names_it_by_id_or_number(story, get):
    for text in ("one", "two"):
        story.says(text)
    for query in ("?event=2", "?event=e2", "?seq=2"):
        assert "event 2" in get(session_path(story, query)).one("h2", id="inspector-title").text


def test_page_and_partial_of_an_event_agree(story, get):
    story.says("hi", delta={"x": 1})
    whole = get(session_path(story, "?seq=1")).one("div", id="detail")
    assert get(session_path(story, "?seq=1"), target="detail").text == whole.text


@pytest.mark.parametrize(
    ("query", "expected", "nearest"),
    [("?seq=99", "99", 2), ("?event=nobody", "'nobody'", 2), ("?seq=0", "0", 1)],
)
def test_page_of_missing_event_links_to_the_nearest(story, get, query, expected, nearest):
    story.says("one")
    story.says("two")
    page = get(session_path(story, query), status=404)
    assert page.one("h1").text == f"Session '{story.session.session_id}' has no event {expected}."
    assert page.one("a", "button-primary").attrs["href"] == f"{session_url(story.session)}?seq={nearest}"


@pytest.mark.parametrize(
    ("route", "query"), [("session-fork", "?seq=99"), ("session-rewind", "?event=nobody")]
)
def test_dialog_at_missing_event_links_to_the_nearest(story, get, route, query):
    story.says("one")
    story.says("two")
    page = get(reverse(route, kwargs={"pk": story.pk}) + query, status=404)
    assert "the nearest of them is event 2" in page.one("p", "lead").text
    assert page.one("a", "button-primary").attrs["href"] == f"{session_url(story.session)}?seq=2"


def test_missing_session_is_named(story, get):
    page = get("/sessions/weather/ann/tea-tme/", status=404)
    assert "'tea-tme'" in page.one("h1").text
    assert page.one("main").one("a").attrs["href"] == "/sessions/"


def test_unknown_key_is_404(db, get):
    assert get("/sessions/id/4711/", status=404).one("h1").text == lookup.session_missing(4711).message


def test_open_page_reports_deletion_and_offers_undo(story, get, client):
    story.says("hi")
    batch = deletion.delete([story.pk]).batch
    page = get(session_path(story), target="gone", status=404)
    assert not page.all("html")
    assert "This session was deleted" in page.text
    form = page.one("form")
    assert form.attrs["action"] == reverse("session-undo", kwargs={"batch": batch.id})
    client.post(form.attrs["action"], {"next": form.one("input", name="next").attrs["value"]})
    assert seqs(get(session_path(story))) == [1]


def test_purged_session_is_reported_without_undo(db, get):
    page = get("/sessions/id/4711/", target="gone", status=404)
    assert not page.all("form")
    assert page.one("a").attrs["href"] == "/sessions/"


@pytest.mark.parametrize("path", ["", "blob/"])
def test_nothing_of_a_deleted_session_is_served(story, client, path):
    story.says("hi")
    deletion.delete([story.pk])
    assert client.get(f"{session_path(story)}events/1/{path}").status_code == 404


@pytest.mark.parametrize("query", ["?seq=x", "?before=-1", "?tab=nothing", "?scope=nothing"])
def test_invalid_query_is_refused(story, get, query):
    get(session_path(story, query), status=400)


def test_eval_attempt_opens_by_key_and_is_read_only(db, get):
    story = Story(realm="eval/r1/c1/1")
    story.says("hi")
    page = get(session_path(story))
    assert "eval attempt" in page.one("section", "column-timeline").text
    assert not page.all("form", "console")
    get("/sessions/weather/ann/s1/", status=404)


def test_the_delta_of_each_event_shows_old_and_new_by_scope(db, get):
    story = Story(initial={"city": "Rome"})
    delta = {"city": "Paris", "user:unit": "F", "app:n": 1, "temp:draft": "x"}
    story.says("hi", delta=delta, keep_temp=True)
    changes = event(get(session_path(story)), 1).one("ul", "delta").all("li", "change")
    change_texts = [(change.one("abbr").attrs["aria-label"], change.text) for change in changes]
    assert change_texts == [
        ("session scope", 'Scity "Rome" "Paris"'),
        ("user scope", 'Uuser:unit "F"'),
        ("app scope", "Aapp:n 1"),
        ("temp scope", 'Ttemp:draft "x"'),
    ]


def test_large_delta_is_bounded_in_row_and_whole_in_inspector(story, get):
    story.says("hi", delta={f"k{number:02}": number for number in range(30)})
    page = get(session_path(story, "?seq=1"))
    assert "22 more keys" in event(page, 1).text
    assert len(page.one("ul", "delta-list").all("bdi", "change-key")) == 30


def test_markdown_of_an_agent_is_rendered_and_a_user_is_quoted_as_is(story, get):
    story.asks("**hi**")
    story.says("**bold** <b>not</b>")
    page = get(session_path(story))
    assert event(page, 1).one("p", "message-text").text == "**hi**"
    assert event(page, 2).one("strong").text == "bold"
    assert not event(page, 2).all("b")


def test_all_kinds_of_content_are_shown(story, get):
    story.add(
        {"text": "let me think", "thought": True},
        {"executableCode": {"code": "print(1)", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "boom"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA" * 500, "displayName": "cat.png"}},
        actions={"transferToAgent": "booker", "escalate": True, "artifactDelta": {"cat.png": 3}},
    )
    text = event(get(session_path(story)), 1).text
    for part in (
        "let me think",
        "print(1)",
        "boom",
        "cat.png image/png · 1.50 kB",
        "transfer to booker",
        "escalate",
        "cat.png v3",
    ):
        assert part in text, (part, text)


def test_rewound_and_compacted_events_say_so(story, get):
    story.asks("one")
    story.invocation = "i2"
    story.asks("two")
    story.add(author="user", actions={"rewindBeforeInvocationId": "i2"})
    span = {"startTimestamp": START, "endTimestamp": START + 1, "compactedContent": {}}
    story.invocation = "i3"
    story.add(author="user", actions={"compaction": span})
    page = get(session_path(story))
    assert "summarized in 4" in event(page, 1).text
    assert "rewound by 3" in event(page, 2).text
    assert "rewinds events 2 to 2" in event(page, 3).text
    assert "rewound by" not in event(page, 3).text


def test_run_error_is_in_place_with_its_traceback(story, get):
    run = lifecycle.create_run(story.pk, {"new_message": {"parts": [{"text": "Break it"}]}})
    lifecycle.finish(run.id, Run.Status.FAILED, Failure("E", "boom", "line 7"), invocation_id="i1")
    story.add(errorCode="RuntimeError", errorMessage="boom")
    page = get(session_path(story))
    assert "RuntimeError boom" in event(page, 1).text
    assert event(page, 1).one("pre").text == "line 7"
    head = page.one("div", "run-state")
    assert "at event 1" in head.text
    assert "boom" not in head.text, "the event says it"
    element = page.one("ul", "runs")
    assert "Failed" in element.text
    assert "Break it" in element.text, "what was asked may stand nowhere else"
    assert "boom" not in element.text, "the event says it"


def test_active_runs_are_cancellable_and_queued_ones_listed(story, get):
    first = lifecycle.create_run(story.pk, {"new_message": {"parts": [{"text": "one"}]}})
    lifecycle.claim(first.id, None, "v1")
    lifecycle.create_run(story.pk, {"new_message": {"parts": [{"functionResponse": {}}]}})
    runs = get(session_path(story)).one("ul", "runs").all("li", "run")
    assert [(run.one("span", "badge").text, run.all("bdi")[0].text) for run in runs] == [
        ("Running", "one"),
        ("Queued", "an answer"),
    ]
    assert "waits" not in runs[0].text
    assert "waits for the run above" in runs[1].text
    assert runs[0].one("form").attrs["action"] == reverse("run-cancel", kwargs={"run_id": first.id})


def test_first_queued_run_waits_for_the_agents_process(story, get):
    lifecycle.create_run(story.pk, {"new_message": {"parts": [{"text": "one"}]}})
    assert "starting weather…" in get(session_path(story)).one("ul", "runs").one("li", "run").text


def test_a_confirmation_asks_yes_or_no_and_names_the_call(story, get):
    story.calls(
        CONFIRMATION,
        "c2",
        waiting=True,
        originalFunctionCall={"id": "c1", "name": "pay", "args": {"amount": 120}},
        toolConfirmation={"hint": "Really?", "payload": {"limit": 3}},
    )
    form = get(session_path(story)).one("form", "question")
    assert "Really?" in form.text
    assert "pay amount=120" in form.text
    assert [button.attrs["value"] for button in form.all("button")] == ["yes", "no"]
    assert json.loads(form.one("textarea").text) == {"limit": 3}


def test_an_open_call_asks_for_its_result_until_it_is_answered(story, get):
    story.calls("request_leave", "c1", waiting=True)
    form = get(session_path(story)).one("form", "question")
    assert form.one("input", name="call_id").attrs["value"] == "c1"
    story.answers("request_leave", "c1", author="user")
    assert not get(session_path(story)).all("form", "question")


def test_the_inspector_has_parts_delta_actions_details_and_raw_json(story, get):
    story.calls("get_weather", "c1", city="Paris")
    page = get(session_path(story, "?seq=1&tab=raw"))
    tabs = page.one("section", "inspector").all("input", type="radio")
    assert [tab.attrs["value"] for tab in tabs if "checked" in tab.attrs] == ["raw"]
    assert {tab.attrs["value"] for tab in tabs} >= {"parts", "delta", "actions", "details", "raw"}
    assert 'city"Paris"' in page.one("div", id="raw").text


def test_the_stored_json_of_an_event_has_an_address(story, client):
    story.says("こんにちは")
    response = client.get(reverse("event-json", kwargs={"pk": story.pk, "seq": 1}))
    assert response.headers["Content-Type"] == "application/json"
    assert response.content.decode() == story.event(1).data
    assert client.get(reverse("event-json", kwargs={"pk": story.pk, "seq": 9})).status_code == 404


def test_a_big_argument_is_fetched_piece_by_piece(story, get, client):
    story.calls("f", "c1", items=[{"n": n} for n in range(150)])
    tree = get(session_path(story, "?seq=1")).one("div", "tab-parts")
    closed = next(d for d in tree.all("details") if "hx-get" in d.attrs)
    piece = parse(client.get(closed.attrs["hx-get"]).content)
    assert "n" in piece.text
    assert "50 more" in piece.text


def test_board_links_to_writers_in_this_and_other_sessions(story, get):
    story.says("a", delta={"x": 1, "user:y": 1})
    Story("s2").says("b", delta={"user:y": 2})
    page = get(session_path(story))
    x, y = (page.one("li", "entry", data_key=key) for key in ("x", "user:y"))
    assert "?seq=1" in [link.attrs["href"] for link in x.all("a")]
    assert any("/sessions/id/" in link.attrs["href"] for link in y.all("a"))
    assert "event 1 of s2" in y.text


def test_board_marks_earlier_and_later_changes(story, get):
    story.says("a", delta={"x": 1})
    story.says("b", delta={"x": 2, "z": 3})
    page = get(session_path(story, "?seq=1"))
    assert "now 2" in page.one("li", "entry", data_key="x").text
    assert "created later" in page.one("li", "entry", data_key="z").text
    assert "2 keys changed since" in page.one("section", "board").text


def keys_on(board: Element) -> list[str]:
    """Return the keys that a board shows."""
    return [entry.attrs["data-key"] for entry in board.all("li", "entry")]


def test_state_of_many_keys_is_bounded_with_link_to_more(story, get):
    story.says("a", delta={f"k{number:03}": number for number in range(100)})
    story.says("b")
    board = get(session_path(story)).one("section", "board")
    assert len(keys_on(board)) == 30
    assert "70 more keys" in board.text
    assert len(keys_on(get(session_path(story, "?keys=all")).one("section", "board"))) == KEYS_AT_MOST


@pytest.mark.parametrize("at", ["", "&seq=1"])
@pytest.mark.parametrize("size", ["", "&keys=all"])
def test_a_state_of_very_many_keys_is_read_page_by_page(story, get, at, size):
    expected = [f"user:k{number:03}" for number in range(130)]
    story.says("a", delta={"own": 1, **dict.fromkeys(expected, 1)})
    story.says("b", delta={"other": 2})
    all_keys, query = [], f"?{at}{size}"
    for _ in range(10):
        board = get(session_path(story, query)).one("section", "board")
        column = board.one("section", "scope-column", data_column="user")
        all_keys += keys_on(column)
        assert "own" in keys_on(board)
        assert "130" in column.one("h3").text
        following = [link for link in column.all("a") if link.text == "Next user keys"]
        if not following:
            break
        query = following[0].attrs["href"]
    assert list(dict.fromkeys(all_keys)) == expected
    first = next(link for link in column.all("a") if link.text == "First user keys")
    assert "begin" not in first.attrs["href"]


def test_keys_of_a_search_are_read_page_by_page(story, get):
    story.says("a", delta={f"{'ab'[number % 2]}{number:03}": 1 for number in range(100)})
    story.says("b")
    board = get(session_path(story, "?key=b&begin=b061")).one("section", "board")
    assert keys_on(board) == [f"b{number:03}" for number in range(61, 100, 2)]


def test_sessions_of_the_app_are_listed_and_searchable(story, get):
    story.asks("about tea")
    Story("s2").asks("about coffee")
    Story("s3", app="other").asks("elsewhere")
    page = get(session_path(story))
    beside = page.one("div", id="siblings").one("ul").all("a")
    assert {link.all("bdi")[0].text: link.attrs.get("aria-current") for link in beside} == {
        "about tea": "page",
        "about coffee": None,
    }
    result = get(session_path(story, "?find=coffee"), target="siblings")
    assert [link.all("bdi")[0].text for link in result.one("ul").all("a")] == ["about coffee"]


@pytest.mark.parametrize("query", ["", "?seq=2&tab=details", "?seq=2&diff=1"])
def test_headings_lead_from_level_to_level(story, get, query):
    story.asks("one")
    story.says("two", delta={"n": 1}, usageMetadata={"totalTokenCount": 3})
    levels = [
        int(each.tag[1]) for each in get(session_path(story, query)).one("main") if each.tag in HEADINGS
    ]
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels)), levels


def test_a_session_without_events_teaches(story, get):
    page = get(session_path(story))
    assert "No events yet" in page.one("div", id="no-events").text


def test_nothing_is_inline_and_every_id_is_there_once(story, get):
    story.calls("f", "c1", waiting=True, a=1)
    story.says("x", delta={"y": {"z": 1}})
    page = get(session_path(story, "?seq=2"))
    for element in page:
        assert element.tag != "style"
        assert element.tag != "script" or not element.text
        assert not [name for name in element.attrs if name.startswith("on") or name == "style"]
    ids = [element.attrs["id"] for element in page if "id" in element.attrs]
    assert len(ids) == len(set(ids))


def test_every_field_and_button_has_a_name(story, get):
    story.calls("f", "c1", waiting=True, a=1)
    page = get(session_path(story, "?seq=1"))
    labelled = {label.attrs.get("for") for label in page.all("label")}
    inside = {id(element) for label in page.all("label") for element in label}
    for element in page:
        if element.tag in {"input", "textarea"} and element.attrs.get("type") != "hidden":
            assert (
                "aria-label" in element.attrs or id(element) in inside or element.attrs.get("id") in labelled
            ), element.attrs
        if element.tag == "button":
            assert element.text or "aria-label" in element.attrs, element.attrs


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 }}{% load x %}'


def test_hostile_content_is_inert_everywhere_on_the_page(db, get):
    story = Story(HOSTILE, {f"app:{HOSTILE}": HOSTILE}, app=HOSTILE, user=HOSTILE)
    story.invocation = HOSTILE
    story.says(HOSTILE, author=HOSTILE, delta={HOSTILE: [HOSTILE]}, branch=HOSTILE, modelVersion=HOSTILE)
    story.add(
        {"functionCall": {"id": HOSTILE, "name": HOSTILE, "args": {HOSTILE: HOSTILE}}},
        {"inlineData": {"mimeType": HOSTILE, "displayName": HOSTILE, "data": "AA"}},
        errorCode=HOSTILE,
        errorMessage=HOSTILE,
        longRunningToolIds=[HOSTILE],
        actions={"transferToAgent": HOSTILE},
        customMetadata={HOSTILE: HOSTILE},
    )
    run = lifecycle.create_run(story.pk, {"new_message": {"parts": [{"text": HOSTILE}]}})
    lifecycle.finish(run.id, Run.Status.FAILED, Failure("", HOSTILE, HOSTILE), invocation_id=HOSTILE)
    for query in ("", "?seq=1", "?seq=2", "?seq=2&tab=raw"):
        page = get(session_path(story, query))
        assert not page.all("img")
        assert all(not script.text for script in page.all("script"))


@pytest.mark.parametrize(
    ("expected", "is_offered"),
    [
        (None, True),
        ({"model_type": "CascadeLive", "live": True}, True),
        ({"sub_agents": [{"live": True}]}, True),
        ({"live": False}, False),
    ],
)
@pytest.mark.usefixtures("weather_can_run")
def test_live_run_is_offered_unless_known_unsupported(story, get, expected, is_offered):
    if expected is not None:
        cards.save_loaded("weather", "1", expected)
    assert bool(get(session_path(story)).all("a", aria_label="Speak live")) is is_offered


def test_a_fork_with_state_of_its_own_is_not_offered_to_be_spoken_with(db, get):
    fork = Story(realm=f"{FORK}x")
    assert not get(session_path(fork)).all("a", aria_label="Speak live")


@pytest.mark.parametrize("query", ["", "?seq=1", "?seq=2", "?seq=3", "?seq=3&tab=raw"])
def test_page_takes_at_most_twenty_queries_at_any_length(story, client, query):
    def costs() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(session_path(story, query)).status_code == 200
        return len(queries)

    def tell(rounds: int) -> None:
        for number in range(rounds):
            story.invocation = f"i{story.told}"
            story.asks("go")
            story.calls("f", f"c{story.told}")
            story.answers("f", f"c{story.told - 1}", delta={f"n{number % 20}": 1, f"user:n{number % 20}": 1})

    tell(2)
    short = costs()
    tell(60)
    around_window = 1  # events before it
    assert short <= costs() <= short + around_window
    assert costs() <= 20


def test_ten_thousand_events_make_a_small_page(story, client, get):
    for number in range(400):
        story.calls("f", f"c{number}", city=f"city {number}")
        story.answers("f", f"c{number}", delta={"n": number, f"k{number % 40}": number})
    page = get(session_path(story))
    assert len(seqs(page)) == WINDOW_SIZE
    assert len(list(page)) < 4000


@pytest.mark.parametrize("target", ["detail", "board", "siblings", "window"])
def test_partial_and_page_differ_for_caches(story, client: Client, target: str):
    story.says("hi")
    response = client.get(session_path(story), headers={"HX-Request": "true", "HX-Target": target})
    assert {"HX-Request", "HX-Target"} <= {name.strip() for name in response.headers["Vary"].split(",")}
