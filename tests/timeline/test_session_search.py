"""Search within a session: hits, counts, marks, only hits, suggestions."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from sessions_app.search import indexing
from sessions_app.search.execution import scans
from sessions_app.search.query.parsing import parse
from sessions_app.timeline.event_window import WINDOW_SIZE
from sessions_app.timeline.session_search import hit_windows, hits, scan, suggestions
from sessions_app.timeline.session_search.hits import (
    NOT_COUNTED,
    CountProgress,
    HitsBeside,
    HitsRequest,
    RequestedPart,
    find_hits,
)
from sessions_app.timeline.session_search.scan import SessionSearch
from tests.invisible_characters import EVIL, assert_shown
from tests.pages.html import Element
from tests.timeline.story import Story


@pytest.fixture(params=["indexed", "tail"])
def session_story(request: pytest.FixtureRequest, story: Story) -> Story:
    """Two turns with tools, once known to the index and once not yet."""
    story.asks("What is the weather in Paris?")
    story.calls("get_weather", "c1", city="Paris")
    story.answers(
        "get_weather", "c1", response={"sky": "sunny"}, delta={"city": "Paris", "user:tier": "gold"}
    )
    story.says("Sunny in Paris.")
    story.invocation = "i2"
    story.asks("And in Rome?")
    story.calls("find_city", "c2", city="Rome")
    story.answers("find_city", "c2", response={"status": "error", "error": "no such city"})
    story.says("I do not know Rome.", author="helper", branch="root.helper")
    if request.param == "indexed":
        indexing.index_all()
    return story


def page_of(story: Story, query: str = "") -> str:
    return reverse("session-by-pk", kwargs={"pk": story.pk}) + query


def seqs(story: Story, text: str) -> list[int]:
    return SessionSearch(story.session, parse(text)).seqs_after(0, 100).rows


def shown_seqs(tree: Element) -> list[int]:
    return [int(event.attrs["data-seq"]) for event in tree.all("article", css="event")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("paris", [1, 2, 4]),
        ('"no such city"', [7]),
        ("kind:user", [1, 5]),
        ("author:helper", [8]),
        ("agent:helper", [8]),
        ("tool:get_weather", [2, 3]),
        ("invocation:i2", [5, 6, 7, 8]),
        ("branch:root.helper", [8]),
        ("key:city", [3]),
        ("key:user:tier", [3]),
        ("user:tier = gold", [3]),
        ("error:such", [7]),
        ("kind:user rome", [5]),
        ("-kind:user rome", [6, 8]),
        ("after:2023-11-14", list(range(1, 9))),
        ("before:2023-11-14", []),
        ("nothing", []),
    ],
)
def test_every_event_term_finds_its_events(session_story, text, expected):
    assert seqs(session_story, text) == expected


def test_hits_are_counted_and_lead_round_in_both_directions(session_story):
    paris = parse("paris")
    at_two = find_hits(session_story.session, paris, HitsRequest(selected=2))
    assert (at_two.count, at_two.number, at_two.previous, at_two.next) == (3, 2, 1, 4)
    at_last = find_hits(session_story.session, paris, HitsRequest(selected=4))
    assert (at_last.number, at_last.previous, at_last.next) == (3, 2, 1)
    beside = find_hits(session_story.session, paris, HitsRequest(selected=3))
    assert (beside.number, beside.previous, beside.next) == (0, 2, 4)
    nothing_open = find_hits(session_story.session, paris, HitsRequest(at=4))
    assert (nothing_open.number, nothing_open.previous, nothing_open.next) == (0, 2, 4)
    assert find_hits(session_story.session, parse("nothing"), HitsRequest(selected=3)).next == 0


def test_count_is_bounded_and_says_so(session_story, get):
    counted = CountProgress(1, hits.MAX_COUNTED - 1)
    request = HitsRequest(selected=4, count_progress=counted)
    result = find_hits(session_story.session, parse("paris"), request)
    assert (result.count, result.capped, result.number) == (hits.MAX_COUNTED, True, 0)
    query = f"?q=paris&counted={counted.to}&count={counted.hits}"
    assert "10,000+ hits" in get(page_of(session_story, query)).one("div", id="search-results").text


def test_hits_are_marked_in_the_timeline_and_for_scripts(session_story, get):
    page = get(page_of(session_story, "?q=paris"))
    assert [int(event.attrs["data-seq"]) for event in page.all("article", css="is-hit")] == [1, 2, 4]
    assert shown_seqs(page) == list(range(1, 9))
    line = get(page_of(session_story, "?q=paris&first=2&last=8&at=2"), target="search-results").one(
        "p", css="search-hits"
    )
    assert json.loads(line.attrs["data-hits"]) == [2, 4]
    assert json.loads(line.attrs["data-words"]) == ["paris"]


def test_hit_has_no_elapsed_time_from_the_previous_hit(story, get):
    story.asks("first needle")
    story.told += 5_000
    story.says("between")
    story.says("second needle")
    page = get(page_of(story, "?q=needle&only=1"))
    assert [event.attrs["data-seq"] for event in page.all("article")] == ["1", "3"]
    assert not page.all("p", css="gap")
    assert not page.all("span", css="elapsed")


def test_only_hits_can_be_shown_and_the_open_event_stays_open(session_story, get):
    page = get(page_of(session_story, "?q=paris&only=1&seq=7"))
    assert shown_seqs(page) == [1, 2, 4]
    assert "event 7" in page.one("h2", id="inspector-title").text
    assert page.one("input", name="only").attrs["checked"] == ""
    [surroundings] = [link for link in page.all("a") if "data-surroundings" in link.attrs]
    assert surroundings.attrs["href"] == "?q=paris&event=e7"


def test_links_keep_the_search_without_scripts(session_story, get):
    page = get(page_of(session_story, "?q=paris&only=1&seq=4"))
    assert page.all("a", css="event-seq")[0].attrs["href"] == "?event=e1&q=paris&only=1"
    following = page.one("a", data_hit="next")
    assert following.attrs["href"] == "?q=paris&only=1&seq=1"
    assert page.one("form", id="session-search").one("input", name="event").attrs["value"] == "e4"


def test_hits_come_page_by_page(story, get):
    for number in range(3 * WINDOW_SIZE):
        story.says("needle" if number % 2 else "hay")
    last = 3 * WINDOW_SIZE
    newest = get(page_of(story, "?q=needle&only=1"))
    assert shown_seqs(newest) == list(range(last - 2 * WINDOW_SIZE + 2, last + 1, 2))
    older = newest.one("p", id="older").one("a")
    assert older.attrs["href"] == f"?before={last - 2 * WINDOW_SIZE + 2}&q=needle&only=1"
    before = get(page_of(story, older.attrs["href"]), target="window")
    assert shown_seqs(before) == list(range(2, WINDOW_SIZE + 1, 2))
    events = before.one("ol", id="events")
    assert (events.attrs["data-first"], events.attrs["data-last"]) == ("1", str(last - 2 * WINDOW_SIZE + 1))
    assert "hidden" in before.one("p", id="older").attrs
    after = get(page_of(story, f"?after={WINDOW_SIZE}&q=needle&only=1"), target="window")
    assert shown_seqs(after) == list(range(WINDOW_SIZE + 2, 3 * WINDOW_SIZE + 1, 2))
    assert after.one("ol", id="events").attrs["data-last"] == str(last)


def test_a_window_around_an_event_holds_the_hits_near_it(story):
    for number in range(4 * WINDOW_SIZE):
        story.says("needle" if number % 2 else "hay")
    needle = parse("needle")
    middle = hit_windows.around(story.session, needle, 2 * WINDOW_SIZE + 1)
    assert len(middle.events) == WINDOW_SIZE
    assert (middle.has_older, middle.has_newer) == (True, True)
    assert (
        middle.events[WINDOW_SIZE // 2 - 1].seq < 2 * WINDOW_SIZE + 1 <= middle.events[WINDOW_SIZE // 2].seq
    )
    start = hit_windows.around(story.session, needle, 1)
    assert (start.first_shown, start.has_older, start.has_newer) == (1, False, True)


def test_search_without_hits_says_so_with_empty_timeline(session_story, get):
    page = get(page_of(session_story, "?q=nothing&only=1"))
    assert "no event of this session matches" in page.one("div", id="search-results").text
    assert shown_seqs(page) == []
    assert not page.all("div", id="no-events")


def test_invalid_query_shows_position_and_message(session_story, get):
    page = get(page_of(session_story, "?q=kind:tol_call&only=1"))
    notes = page.one("div", id="search-results")
    assert notes.one("span", css="wrong").text == "kind:tol_call"
    assert "did you mean 'tool_call'?" in notes.text
    assert shown_seqs(page) == list(range(1, 9)), "nothing is hidden by a query that cannot be read"


def test_terms_that_do_not_apply_to_events_are_named(session_story, get):
    assert (
        "app:weather"
        in get(page_of(session_story, "?q=app:weather rome")).one("div", id="search-results").text
    )


def test_chips_offer_values_of_the_session_and_replace_each_other(session_story):
    groups = dict(suggestions.chips(session_story.session, "paris kind:user"))
    assert [chip.value for chip in groups["kind"]] == ["user", "agent", "tool_call", "tool_result", "error"]
    assert [chip.value for chip in groups["author"]] == ["agent", "helper", "user"]
    assert [chip.value for chip in groups["tool"]] == ["find_city", "get_weather"]
    assert [chip.value for chip in groups["branch"]] == ["root.helper"]
    assert [chip.label for chip in (groups["kind"][1], groups["author"][0])] == ["agent response", "agent"]
    on, other = groups["kind"][:2]
    assert (on.is_on, on.query) == (True, "paris")
    assert (other.is_on, other.query) == (False, "paris kind:agent")
    assert groups["tool"][0].query == "paris kind:user tool:find_city"


def test_chips_of_a_query_that_cannot_be_read_start_anew(session_story):
    [(_, [first, *_]), *_] = suggestions.chips(session_story.session, 'kind:"')
    assert first.query == "kind:user"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("to", ["tool:"]),
        ("tool:get", ["get_weather"]),
        ("author:h", ["helper"]),
        ("key:", ["city", "user:tier"]),
        ("app", []),
    ],
)
def test_completion_offers_event_terms_and_session_names(session_story, get, typed, expected):
    url = reverse("session-completions", kwargs={"pk": session_story.pk})
    options = get(f"{url}?q={typed}").all("li", role="option")
    assert [option.one("bdi").text for option in options][: len(expected) or None] == expected


def test_completion_in_deleted_session_is_refused(db, client):
    assert client.get(reverse("session-completions", kwargs={"pk": 9})).status_code == 404


def test_search_needs_constant_queries_for_any_length(story, get, django_assert_max_num_queries):
    for number in range(2 * WINDOW_SIZE):
        story.says(f"needle {number}", delta={"n": number})
    with django_assert_max_num_queries(9):
        find_hits(story.session, parse("needle"), HitsRequest(selected=5, stretch=(1, 40)))
    with django_assert_max_num_queries(53):
        get(page_of(story, "?q=needle&only=1&seq=9"))


def test_nothing_hides_in_the_search(story, client):
    story.says(EVIL, author=EVIL)
    story.calls(EVIL, "c1", **{EVIL: EVIL})
    for query in (EVIL, f'author:"{EVIL}"', "kind:" + EVIL):
        answer = client.get(page_of(story), {"q": query, "only": "1"})
        assert answer.status_code == 200
        assert_shown(answer.content.decode(), query)
    completions = client.get(reverse("session-completions", kwargs={"pk": story.pk}), {"q": "author:"})
    assert_shown(completions.content.decode(), "completions")


def test_only_unindexed_events_are_scanned(story, django_assert_max_num_queries):
    story.says("x", author="cook")
    indexing.index_all()
    page, unknown = parse("author:cook"), parse("author:waiter")
    assert find_hits(story.session, page).among == []
    assert find_hits(story.session, unknown).count == 0
    story.says("y", author="waiter")
    story.says("z", author="cook")
    assert find_hits(story.session, unknown, HitsRequest(stretch=(1, 3))).among == [2]
    assert find_hits(story.session, page, HitsRequest(stretch=(1, 3))).among == [1, 3]
    session = story.session
    indexing.index_all()
    session.refresh_from_db()
    with django_assert_max_num_queries(1):
        assert find_hits(session, parse("tool:nothing branch:none author:cook")).count == 0


@pytest.mark.parametrize("stretch", [1, 2, 7])
def test_hits_are_the_same_for_any_batch_size(session_story, monkeypatch, stretch):
    monkeypatch.setattr(scans, "_current_time", lambda: 0.0)
    search = SessionSearch(session_story.session, parse("rome"), first_batch=stretch)
    assert search.seqs_after(0, 9).rows == [5, 6, 8]
    assert search.seqs_after(5, 1).rows == [6]
    assert search.seqs_before(9, 9).rows == [8, 6, 5]
    assert search.seqs_before(8, 1).rows == [6]
    assert [event.seq for event in search.before(99, 2).rows] == [8, 6]
    assert search.seqs_before(1, 5).rows == []
    assert search.seqs_after(8, 5).rows == []


class Clock:
    """A clock that goes on by a second whenever it is read: every look ends with its first stretch."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def slow(monkeypatch) -> None:
    """A store in which three events take all the time there is."""
    monkeypatch.setattr(scan, "FIRST_BATCH", 3)
    monkeypatch.setattr(scans, "_current_time", Clock())


@pytest.fixture
def long(story: Story) -> Story:
    """Forty events that no index knows; 9 and 30 tell of Rome."""
    for seq in range(1, 41):
        story.says("Rome" if seq in (9, 30) else "hay")
    return story


@pytest.mark.usefixtures("slow")
def test_long_search_reports_progress_and_continues(long):
    rome, counts, hits = parse("rome"), [], None
    while hits is None or not hits.is_all:
        hits = find_hits(
            long.session,
            rome,
            HitsRequest(count_progress=hits.count_progress if hits else NOT_COUNTED),
        )
        counts.append((hits.count_progress.to, hits.count_progress.hits))
    assert counts[:4] == [(3, 0), (6, 0), (9, 1), (12, 1)]
    assert counts[-1] == (40, 2)
    assert (hits.count, hits.capped) == (2, False)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("selected", "way", "hits"),
    [
        (20, "later", [30, 9, 30]),
        (35, "later", [9, 30, 9]),
        (20, "earlier", [9, 30, 9]),
        (5, "earlier", [30, 9, 30]),
    ],
)
def test_hits_around_the_window_are_searched_until_found(long, selected, way, hits):
    went = []
    for _ in hits:
        bounds, answers = [0, 0], 0
        while True:
            result = find_hits(
                long.session,
                parse("rome"),
                HitsRequest(selected=selected, scan_positions=(bounds[0], bounds[1])),
            )
            side: HitsBeside = getattr(result, way)
            answers += 1
            if side.seqs or not side.place:
                break
            bounds[way == "later"] = side.place
            assert answers < 20
        selected = side.nearest
        went.append(selected)
    assert went == hits


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("way", ["earlier", "later"])
def test_search_without_hits_ends(long, way):
    bounds, answers = [0, 0], 0
    while True:
        hits = find_hits(
            long.session, parse("nothing"), HitsRequest(selected=20, scan_positions=(bounds[0], bounds[1]))
        )
        side = getattr(hits, way)
        if not side.place:
            break
        bounds[way == "later"] = side.place
        answers += 1
        assert answers < 30
    assert side.seqs == []


@pytest.mark.usefixtures("slow")
def test_cached_hits_are_not_searched_again(long, get):
    rome = parse("rome")
    count = find_hits(
        long.session,
        rome,
        HitsRequest(
            selected=20,
            count_progress=CountProgress(6, 0),
            part=RequestedPart.COUNT,
        ),
    )
    assert (count.count_progress, count.earlier, count.later) == (
        (9, 1),
        HitsBeside(),
        HitsBeside(),
    )
    later = find_hits(long.session, rome, HitsRequest(selected=29, part=RequestedPart.LATER))
    assert (later.count_progress, later.earlier, later.later.seqs) == (
        (0, 0),
        HitsBeside(),
        [30],
    )
    earlier = get(page_of(long, "?q=rome&seq=10&part=earlier"), target="search-results").one(
        "p", css="search-hits"
    )
    assert (earlier.attrs["data-earlier"], earlier.attrs["data-later"]) == ("[9]", "[]")
    get(page_of(long, "?q=rome&part=nothing"), target="search-results", status=400)


@pytest.mark.usefixtures("slow")
def test_windows_of_hits_report_progress_and_link_on(long):
    rome = parse("rome")
    window, seqs = hit_windows.newest(long.session, rome), []
    assert (window.first_shown, window.last_shown, window.has_older) == (38, 40, True)
    while window.has_older:
        window = hit_windows.before(long.session, rome, window.first_shown)
        seqs += [event.seq for event in window.events]
    assert seqs == [30, 9]
    window = hit_windows.after(long.session, rome, 0)
    assert (window.first_shown, window.last_shown, window.has_newer) == (1, 3, True)


@pytest.mark.usefixtures("slow")
def test_searching_page_says_so_and_continues_without_scripts(long, get):
    page = get(page_of(long, "?q=rome&seq=20"))
    line = page.one("p", css="search-hits")
    assert "data-counting" in line.attrs
    assert (line.attrs["data-counted"], line.attrs["data-count"]) == ("3", "0")
    assert line.one("progress").attrs == {"max": "40", "value": "3", "aria-label": "Events searched"}
    further = line.one("noscript").one("a").attrs["href"]
    again = get(page_of(long, further)).one("p", css="search-hits")
    assert again.attrs["data-counted"] == "6"


def test_neighbouring_hits_are_prefetched(session_story):
    hits = find_hits(session_story.session, parse("paris"), HitsRequest(selected=2))
    assert (hits.later.seqs, hits.earlier.seqs) == ([4, 1, 2], [1, 4, 2])
    assert find_hits(session_story.session, parse("author:helper"), HitsRequest(selected=8)).later.seqs == [8]


def test_hits_are_listed_for_a_page_and_not_for_a_session(session_story):
    counted = CountProgress(1, hits.MAX_COUNTED)
    for last, listed in ((1 + hits.MAX_LISTED_RANGE, [1, 2, 4]), (2 + hits.MAX_LISTED_RANGE, [])):
        request = HitsRequest(stretch=(1, last), count_progress=counted)
        assert find_hits(session_story.session, parse("paris"), request).among == listed
