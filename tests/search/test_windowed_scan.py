"""Windowed scans of sessions that no index lists: no session is lost, repeated or moved."""

from __future__ import annotations

from random import Random

import pytest
from pytest_django import DjangoAssertNumQueries

from sessions_app.search import indexing
from sessions_app.search.execution import scans, session_queries, session_sets, state_terms
from sessions_app.search.query.parsing import parse
from sessions_app.sessions import labels, listing
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession
from sessions_app.store.sessions import writes
from tests.pages.client import Get

pytestmark = pytest.mark.django_db

QUERIES = (
    "title:odd",
    "k ~ 1",
    "-k ~ 1",
    "title:odd k ~ 1",
    "k ~ 1 ever -title:odd",
    "app:weather title:odd",
)


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """End every scan after one window of three sessions, and let no index list any."""
    monkeypatch.setattr(scans, "FIRST_WINDOW", 3)
    monkeypatch.setattr(scans, "SCAN_S", 0.0)
    monkeypatch.setattr(state_terms, "FEW", 0)
    monkeypatch.setattr(session_sets, "FEW", 0)


def make(count: int, random: Random) -> None:
    """Create sessions of few moments and apps, some of them pinned, whose titles and values are odd or not."""
    for number in range(count):
        key = writes.SessionKey("", random.choice(["weather", "other"]), "ann", f"s{number}")
        new_session = writes.create_session(
            key, {"k": str(random.randrange(30))}, now=float(random.randrange(9))
        )
        labels.rename(new_session.pk, random.choice(["odd", "even"]))
        if random.random() < 0.05:
            labels.pin([new_session.pk], pinned=True)
    indexing.index_all()


def walk_pages(
    session_filter: listing.SessionFilter,
) -> tuple[list[list[int]], list[listing.SessionListPage]]:
    """Return the rows of each page, as looks bring them, and every answer."""
    pages: list[list[int]] = [[]]
    answers_given = []
    before, progress = "", listing.NOT_STARTED
    while True:
        answer = listing.list_page(session_filter, before, progress, size=4, most_pinned=2)
        answers_given.append(answer)
        pages[-1] += [row.pk for row in answer.rows]
        if answer.pending:
            before, progress = answer.pending.place, answer.pending.progress
        elif answer.others.next:
            before, progress = answer.others.next, listing.NOT_STARTED
            pages.append([])
        else:
            return pages, answers_given


OTHER_SEEDS = [pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2, 3)]


@pytest.mark.parametrize("seed", [0, *OTHER_SEEDS])
def test_windowed_rows_equal_one_complete_query(seed: int):
    make(40, Random(seed))
    for text in QUERIES:
        check_windowed_rows(text)


def check_windowed_rows(text: str) -> None:
    session_filter = listing.SessionFilter(query=parse(text))
    whole = list(listing.list_sessions(session_filter).order_by("-updated_at", "-pk"))
    pinned_first = (
        listing.list_sessions(session_filter).filter(pinned_at__isnull=False).order_by("-pinned_at", "-pk")
    )
    above = [row.pk for row in pinned_first[:2]]
    pages, answered = walk_pages(session_filter)
    assert [pk for page in pages for pk in page] == [
        *above,
        *(row.pk for row in whole if row.pk not in above),
    ], text
    assert all(len(page) == 4 for page in pages[1:-1]), text
    assert any(answer.pending for answer in answered), text


def test_scan_reports_its_progress():
    make(20, Random(1))
    session_filter = listing.SessionFilter(query=parse("title:nowhere"))
    pending = listing.list_page(session_filter).pending
    assert pending is not None
    assert (pending.progress.sessions, pending.progress.matches, pending.row_count, pending.total) == (
        3,
        0,
        0,
        None,
    )
    pending = listing.list_page(session_filter, pending.place, pending.progress).pending
    assert pending is not None
    assert (pending.progress.sessions, pending.total) == (6, 20)


def test_query_for_one_app_scans_only_its_sessions():
    make(20, Random(1))
    session_filter = listing.SessionFilter(query=parse("app:weather title:nowhere"))
    pending = listing.list_page(session_filter).pending
    assert pending is not None
    pending = listing.list_page(session_filter, pending.place, pending.progress).pending
    assert pending is not None
    assert pending.total == AgentSession.objects.filter(app_name="weather").count()


def test_indexed_terms_are_not_scanned(monkeypatch: pytest.MonkeyPatch):
    make(20, Random(1))
    for text in ("app:weather", "is:pinned", "session:s1", "updated:<2h"):
        assert session_queries.Search(parse(text)).plan.tests == []


@pytest.mark.parametrize("text", ["app:weather", "is:error", "tool:rare", "thunderstorm", "k = 3"])
def test_query_answered_by_an_index_scans_no_window(
    text: str, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: DjangoAssertNumQueries
):
    monkeypatch.undo()
    make(20, Random(1))
    looks = []
    monkeypatch.setattr(scans, "scan", lambda *value, **_: looks.append(value))
    session_filter = listing.SessionFilter(query=parse(text))
    with django_assert_max_num_queries(12):
        assert listing.list_page(session_filter).pending is None
    assert looks == []


def test_a_place_that_is_none_is_refused():
    with pytest.raises(BadInput):
        listing.list_page(
            listing.SessionFilter(query=parse("title:odd")), "yesterday", listing.ScanProgress(3, 0)
        )


def test_continued_scan_needs_few_queries(django_assert_max_num_queries: DjangoAssertNumQueries):
    make(20, Random(1))
    session_filter = listing.SessionFilter(query=parse("title:nowhere"))
    pending = listing.list_page(session_filter).pending
    assert pending is not None
    with django_assert_max_num_queries(4):
        listing.list_page(session_filter, pending.place, pending.progress)


def test_new_sessions_are_scanned_for_a_short_time():
    make(20, Random(1))
    session_filter = listing.SessionFilter(query=parse("title:odd"))
    newest = AgentSession.objects.order_by("-updated_at", "-pk")[:3]
    expected = sum(row.title == "odd" for row in newest)
    assert listing.count_new_sessions(session_filter, -1.0, [], seconds=0.0) == expected
    assert listing.count_new_sessions(session_filter, 1e12, []) == 0


def test_without_scripts_a_link_continues_the_scan(get: Get):
    make(10, Random(1))
    address = "/sessions/?q=title%3Anowhere"
    progress = []
    while address:
        page = get(address)
        progress += [line.text for line in page.all("div", css="scan-progress")]
        on = [link for link in page.all("a", rel="next") if "Continue" in link.text]
        address = f"/sessions/{on[0].attrs['href']}" if on else ""
    assert len(progress) == 3
    assert "No match among the newest 3 sessions" in progress[0]
    assert "No match among the newest 6 of 10 sessions" in progress[1]
    assert "the newest 9 of 10" in progress[-1]
    assert "No session matches" in page.text
