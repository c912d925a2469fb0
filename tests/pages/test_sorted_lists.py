"""Tables of lists: order, hidden columns, saved choices, live updates and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import Client, RequestFactory

from sessions_app.artifacts import artifact_list
from sessions_app.memory import memory_list
from sessions_app.runs import run_list
from sessions_app.sessions import labels, listing, saved_views
from sessions_app.store.models import AgentSession, Artifact, MemoryEntry
from sessions_app.store.sessions import writes
from sessions_app.tables import (
    artifact_columns,
    memory_columns,
    run_columns,
    session_columns,
    table,
)
from sessions_app.templatetags import devui
from tests.pages.client import Get
from tests.pages.html import Element
from tests.pages.html import table as read_table
from tests.pages.run_rows import create_run
from tests.timeline.story import START, Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]

SORTABLE = [column for column in session_columns.TABLE.columns if column.order]
KEYS = [column.key for column in SORTABLE]


def make_sessions(count: int) -> None:
    """Create sessions with few different values, so that many rows are equal in a column."""
    random = Random(1)
    for number in range(count):
        key = writes.SessionKey("", random.choice("ab"), random.choice("xyz"), f"s{number}")
        session = writes.create_session(key, now=START)
        AgentSession.objects.filter(pk=session.pk).update(
            updated_at=START + random.randrange(5),
            total_tokens=random.randrange(4),
            last_seq=random.randrange(3),
            problem_count=random.randrange(2),
        )


def ids(page: Element) -> list[str]:
    """Return the ids of the sessions of a page, in order."""
    return [cell.text for cell in page.all("td", css="id-cell")]


def walk(get: Get, address: str) -> list[str]:
    """Return the ids of the sessions of all pages."""
    hits = []
    while address:
        page = get(address)
        hits += ids(page)
        further = page.all("a", rel="next")
        address = f"/sessions/{further[0].attrs['href']}" if further else ""
    return hits


@pytest.mark.parametrize("key", KEYS)
def test_pages_of_every_order_join_without_a_gap_or_a_repetition(get: Get, key: str):
    make_sessions(120)
    order = next(column.order for column in SORTABLE if column.key == key)
    assert order
    rows = listing.with_list_columns(AgentSession.objects.all())
    expected = [row.session_id for row in rows.order_by(*order.names)]
    is_descending = order.names[0].startswith("-")
    assert walk(get, f"/sessions/?sort={'-' if is_descending else ''}{key}") == expected
    assert walk(get, f"/sessions/?sort={'' if is_descending else '-'}{key}") == expected[::-1]


@dataclass
class SortedList:
    """A list and its rows without order."""

    table: table.Table[Any]
    rows: Callable[[], QuerySet[Any]]


LISTS = {
    "sessions": SortedList(session_columns.TABLE, lambda: listing.list_sessions(listing.SessionFilter())),
    "runs": SortedList(run_columns.TABLE, lambda: run_list.filter_runs(run_list.NO_FILTERS)),
    "invocations without a run": SortedList(
        run_columns.TABLE, lambda: run_list.filter_invocations(run_list.NO_FILTERS)
    ),
    "memory": SortedList(memory_columns.TABLE, lambda: memory_list.filter_entries("")),
    "artifacts": SortedList(
        artifact_columns.TABLE, lambda: artifact_list.newest_versions(artifact_list.FileFilter())
    ),
}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL sorts so few rows without an index")
@pytest.mark.parametrize("name", LISTS)
def test_an_index_has_every_order_in_both_directions(name: str):
    sorted_list = LISTS[name]
    orders = [column.order for column in sorted_list.table.columns if column.order]
    assert orders
    partly_sorted = "TEMP B-TREE FOR RIGHT PART OF ORDER BY"
    in_subqueries = sorted_list.rows().order_by("pk")[:50].explain().count(partly_sorted)
    for order in (*orders, *(order.reverse() for order in orders)):
        plan = sorted_list.rows().order_by(*order.names)[:50].explain()
        assert "TEMP B-TREE FOR ORDER BY" not in plan, order.names
        assert plan.count(partly_sorted) == in_subqueries, order.names


def head(page: Element, key: str) -> tuple[str, str]:
    """Return the address that a head leads to, and aria-sort of its cell."""
    link = page.one("a", id=f"sort-{key}")
    cell = next(cell for cell in page.one("thead").all("th") if link in list(cell))
    return link.attrs["href"], cell.attrs.get("aria-sort", "")


def test_heads_sort_in_both_directions_and_say_how_rows_are_sorted(get: Get):
    make_sessions(3)
    page = get("/sessions/?app=a")
    assert head(page, "updated") == ("?app=a&sort=updated", "descending")
    assert head(page, "tokens") == ("?app=a&sort=-tokens", "")
    assert head(page, "user") == ("?app=a&sort=user", "")
    page = get("/sessions/?app=a&sort=-tokens")
    assert head(page, "tokens") == ("?app=a&sort=tokens", "descending")
    assert head(page, "updated") == ("?app=a", "")
    assert page.one("caption").text == "Sessions, by tokens, descending"
    assert "id" not in [link.attrs["id"].removeprefix("sort-") for link in page.all("a", css="sort-link")]


@pytest.mark.parametrize("sort", ["-nothing", "id", "--tokens", "session"])
def test_unknown_order_is_refused(get: Get, sort: str):
    page = get(f"/sessions/?sort={sort}", status=400)
    assert f"cannot be sorted by '{sort}'" in page.one("h1").text


@pytest.mark.parametrize(
    ("sort", "cursor"),
    [
        ("tokens", '["a",1]'),
        ("tokens", "[1.5,1]"),
        ("tokens", "[true,1]"),
        ("tokens", "[99999999999999999999,1]"),
        ("tokens", "[1]"),
        ("app", '["a",1]'),
        ("user", '["\\u0000",1]'),
        ("user", '["\\ud800",1]'),
        ("duration", "[NaN,1]"),
        ("duration", "[1e999,1]"),
        ("duration", '{"a":1}'),
        ("user", "[" * 3_000),
    ],
)
def test_cursor_of_another_order_is_refused(get: Get, sort: str, cursor: str):
    page = get(f"/sessions/?{urlencode({'sort': sort, 'before': cursor})}", status=400)
    assert "not a valid cursor" in page.one("h1").text


def test_cursor_holds_the_longest_id(get: Get):
    for number in range(60):
        writes.create_session(writes.SessionKey("", "app", "\\" * 500 + str(number), f"s{number}"), now=START)
    assert len(set(walk(get, "/sessions/?sort=user"))) == 60


def test_filters_and_pages_keep_order_and_columns(get: Get):
    make_sessions(60)
    page = get("/sessions/?sort=-tokens&hide=app,id")
    form_fields = {
        field.attrs["name"]: field.attrs["value"] for field in page.all("input", form="sessions-filters")
    }
    assert form_fields == {"sort": "-tokens", "hide": "app,id"}
    assert page.one("form", css="filters").attrs["id"] == "sessions-filters"
    further = page.one("a", rel="next")
    assert further.text == "Next page"
    assert {"sort": ["-tokens"], "hide": ["app,id"]}.items() <= parse_qs(further.attrs["href"][1:]).items()
    assert get(f"/sessions/{further.attrs['href']}").one("nav", css="pager").one("a").text == "First page"


def test_pinned_sessions_come_first_only_in_the_default_order(get: Get):
    make_sessions(5)
    AgentSession.objects.filter(session_id="s0").update(total_tokens=-1)
    labels.pin([AgentSession.objects.get(session_id="s0").pk], pinned=True)
    assert get("/sessions/").one("tbody", css="pinned").all("tr")
    page = get("/sessions/?sort=-tokens")
    assert not page.all("tbody", css="pinned")
    assert ids(page)[-1] == "s0"


def test_hidden_columns_are_left_out_and_can_be_shown_again(get: Get):
    make_sessions(2)
    page = get("/sessions/?app=a&hide=id,session,pick,nothing")
    columns = [cell.text for cell in page.one("thead").all("th")]
    assert "Id" not in columns
    assert {"Session", "App", "Tokens"} <= set(columns)
    assert page.all("td", css="pick")
    menu = page.one("details", css="table-menu")
    choices = {link.text: link.attrs["href"] for link in menu.all("a", css="column-choice")}
    assert choices["Show Id"] == "?app=a"
    assert choices["Hide Tokens"] == "?app=a&hide=id,tokens"
    assert not {"Hide Session", "Hide Actions"} & set(choices)


def test_menu_stays_open_while_columns_are_chosen(client: Client, get: Get):
    make_sessions(1)
    assert "open" not in get("/sessions/").one("details", css="table-menu").attrs
    headers = {"HX-Request": "true", "HX-Target": "sessions", "HX-Trigger": "column-id"}
    assert b'table-menu" open' in client.get("/sessions/?hide=id", headers=headers).content


def test_saved_view_keeps_order_and_columns(get: Get):
    make_sessions(20)
    view = saved_views.save("Most expensive", "sort=-tokens&q=user:x&hide=id")
    assert view.query == "q=user%3Ax&sort=-tokens&hide=id"
    link = get("/sessions/").one("nav", css="views").one("a", css="chip")
    assert head(get(link.attrs["href"]), "tokens")[1] == "descending"


def test_changed_row_keeps_its_columns_and_new_ones_are_counted_in_every_order(get: Get):
    for key in KEYS:
        story = Story(f"{key}-1", app=key)
        story.asks("Hello")
        page = get(f"/sessions/?app={key}&sort={key}&hide=id")
        address = page.one("div", id="watch").attrs["hx-get"]
        newcomer = Story(f"{key}-2", app=key)
        newcomer.asks("Hello")
        newcomer.asks("Again")
        story.asks("Again")
        change = get(address)
        assert change.one("div", id="watch").one("a").text == "1 new or changed"
        assert (
            change.one("div", id="watch").one("a").attrs["href"] == f"/sessions/?app={key}&sort={key}&hide=id"
        )
        row = change.one("tr", id=f"session-row-{story.pk}")
        assert row.one("td", data_label="Events").text == "2"
        assert not row.all("td", css="id-cell")


def read_csv(client: Client, address: str) -> list[list[str]]:
    response = client.get(address)
    assert response.status_code == 200
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(response.content.decode())))


def test_csv_has_the_visible_columns_of_all_pages_in_order(get: Get, client: Client):
    make_sessions(60)
    menu = get("/sessions/?user=x&sort=tokens&hide=app,duration").one("details", css="table-menu")
    address = menu.all("a")[-1].attrs["href"]
    heads, *rows = read_csv(client, address)
    keys = [column.key for column in session_columns.TABLE.columns if column.value]
    assert heads == [key for key in keys if key not in {"app", "duration"}]
    assert all(datetime.fromisoformat(row[-1]).tzinfo == UTC for row in rows)
    assert [row[1] for row in rows] == walk(get, "/sessions/?user=x&sort=tokens")
    assert {row[2] for row in rows} == {"x"}


def test_csv_of_a_scanning_search_has_all_matches(get: Get, client: Client, monkeypatch: pytest.MonkeyPatch):
    make_sessions(20)
    monkeypatch.setattr("sessions_app.search.execution.scans.FIRST_WINDOW", 3)
    monkeypatch.setattr("sessions_app.search.execution.scans.SCAN_S", 0.0)
    _, *rows = read_csv(client, "/sessions/csv/?q=title:s&sort=user")
    assert len(rows) == 0
    AgentSession.objects.update(title="odd")
    _, *rows = read_csv(client, "/sessions/csv/?q=title:odd&sort=user")
    assert len({row[1] for row in rows}) == 20


def test_time_outside_of_the_calendar_is_a_number_in_the_csv(client: Client):
    make_sessions(1)
    AgentSession.objects.update(updated_at=1_700_000_000_000.0)
    _, row = read_csv(client, "/sessions/csv/")
    assert row[-1] == "1700000000000.0"


@pytest.mark.parametrize("name", LISTS)
def test_every_csv_has_times_in_iso_8601(name: str):
    columns = LISTS[name].table.columns
    [time_column] = [column for column in columns if column.key == LISTS[name].table.default_sort[1:]]
    assert time_column.show is devui.moment


def test_csv_of_memory_has_whole_texts(client: Client):
    text = "word " * 1_000 + "end"
    content = json.dumps({"parts": [{"text": text}]})
    MemoryEntry.objects.create(app_name="a", user_id="u", entry_id="e", content=content, timestamp=START)
    _, row = read_csv(client, "/memory/csv/")
    assert row[0] == text


def test_key_of_a_row_cannot_become_markup(rf: RequestFactory):
    make_sessions(1)
    row = session_columns.SessionRow(listing.list_page(listing.SessionFilter()).rows[0])
    keyed = replace(session_columns.TABLE, row_key=lambda row: '"><b hx-post="/x" hx-trigger="load">')
    [drawn] = keyed.arrange(rf.get("/")).draw([row])
    assert "<b hx-post" not in drawn


def test_row_that_moves_ahead_of_a_scan_is_not_shown_twice():
    make_sessions(3)
    session = AgentSession.objects.get(session_id="s1")
    pending = listing.PendingScan("cursor", listing.ScanProgress(5, 3), 3, None)
    page = replace(listing.list_page(listing.SessionFilter()), pending=pending).without({session.pk})
    assert sorted(row.session_id for row in page.rows) == ["s0", "s2"]
    assert page.pending
    assert page.pending.progress.matches == 2


def test_csv_escapes_formulas(client: Client):
    story = Story("=1+1", user="@SUM(A1)")
    story.asks("+cmd")
    _, row = read_csv(client, "/sessions/csv/")
    assert row[:4] == ["'+cmd", "'=1+1", "weather", "'@SUM(A1)"]


def test_csv_is_bounded_and_says_so(client: Client, monkeypatch: pytest.MonkeyPatch):
    make_sessions(5)
    monkeypatch.setattr(table, "MAX_EXPORTED", 3)
    assert len(read_csv(client, "/sessions/csv/")) == 4
    assert (
        client.get("/sessions/csv/")["Content-Disposition"] == 'attachment; filename="sessions-first-3.csv"'
    )
    monkeypatch.setattr(table, "MAX_EXPORTED", 5)
    assert client.get("/sessions/csv/")["Content-Disposition"] == 'attachment; filename="sessions.csv"'


def test_runs_are_sorted_both_ways_and_exported(get: Get, client: Client):
    story = Story()
    for at in range(60):
        create_run(story, at=float(at), status="done", error_type=f"E{at}")
    newest = get("/runs/")
    assert head(newest, "created") == ("?sort=created", "descending")
    oldest = get("/runs/?sort=created&hide=code")
    assert len(read_table(oldest)) == 50
    assert "Code" not in read_table(oldest)[0]
    assert len(read_csv(client, "/runs/csv/?sort=created&hide=code")) == 61
    first, last = (
        get(f"/runs/?sort={sort}").one("tbody").all("tr")[0].attrs["id"] for sort in ("created", "-created")
    )
    assert first != last


def test_runs_are_sorted_by_duration_with_unfinished_ones_last(get: Get):
    story = Story()
    for number, seconds in enumerate([2.0, 30.0, None, 7.0]):
        finished_at = None if seconds is None else 10.0 + seconds
        create_run(story, at=float(number), status="done", started_at=10.0, finished_at=finished_at)
    shown = ["30.0 s", "7.00 s", "2.00 s", ""]
    assert [row["Duration"] for row in read_table(get("/runs/?sort=-duration"))] == shown
    assert [row["Duration"] for row in read_table(get("/runs/?sort=duration"))] == shown[::-1]


def test_pages_of_runs_by_duration_join(get: Get, client: Client):
    story = Story()
    for at in range(60):
        create_run(story, at=float(at), status="done", started_at=1.0, finished_at=1.0 + at % 3)
    page = get("/runs/?sort=-duration")
    further = get(f"/runs/{page.one('a', rel='next').attrs['href']}")
    keys = [row.attrs["id"] for part in (page, further) for row in part.one("tbody").all("tr")]
    assert len(set(keys)) == 60


def test_new_run_is_counted_in_every_order(get: Get):
    story = Story()
    create_run(story, at=1.0)
    create_run(story, at=2.0)
    page = get("/runs/?sort=created")
    create_run(story, at=3.0)
    assert (
        get(page.one("div", id="watch").attrs["hx-get"]).one("div", id="watch").one("a").text
        == "1 new or changed"
    )


def test_artifacts_are_sorted_and_exported(get: Get, client: Client):
    for number in range(3):
        Artifact.objects.create(
            app_name="weather",
            user_id="ann",
            filename=f"f{number}",
            filename_id=f"f{number}",
            version=0,
            holding="text",
            size=(7, 300, 20)[number],
            part="{}",
            created_at=float(number),
        )
    assert [row["Size"] for row in read_table(get("/artifacts/?sort=-size"))] == ["300 B", "20 B", "7 B"]
    assert [row[3] for row in read_csv(client, "/artifacts/csv/?sort=size")] == ["size", "7", "20", "300"]
