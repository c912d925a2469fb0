"""List of traces: filters by owner and errors, and pagination."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

import pytest
from django.db import connection

from sessions_app.store.models import ModelCall, Trace
from sessions_app.traces import waterfall
from tests.pages.client import Get
from tests.pages.html import Element
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def add_trace(story: Story, number: int = 1, error: str = "") -> None:
    """Add an invocation of one model call, which failed if an error is named."""
    same = {"session_id": story.pk, "invocation_id": f"i{number}", "started_at": float(number)}
    Trace.objects.create(**same, root_agent=f"{story.key.session_id}-{number}")
    ModelCall.objects.create(**same, ref=f"r{number}", number=1, agent="a", request="{}", error_type=error)


def names(page: Element) -> list[str]:
    rows: Iterable[Element] = (row for body in page.all("tbody") for row in body.all("tr"))
    return [next(cell.text for cell in row.all("td", data_label="Agent")) for row in rows]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["s22-4", "s21-3", "s1-2", "s1-1"]),
        ({"user": "tom"}, ["s22-4"]),
        ({"user": "to"}, []),
        ({"session": "s2"}, ["s22-4", "s21-3"]),
        ({"session": "S2"}, []),
        ({"session": "%"}, []),
        ({"only": "errors"}, ["s22-4", "s1-2"]),
        ({"app": "weather", "user": "ann", "session": "s1", "only": "errors"}, ["s1-2"]),
    ],
)
def test_traces_are_found_by_session_and_by_errors(get: Get, query: dict[str, str], expected: list[str]):
    story = Story("s1")
    add_trace(story, 1)
    add_trace(story, 2, error="Quota")
    add_trace(Story("s21"), 3)
    add_trace(Story("s22", user="tom"), 4, error="Quota")
    page = get(f"/traces/?{urlencode(query)}")
    assert names(page) == expected
    assert expected or "No trace matches" in page.text


def test_trace_filters_are_in_the_form_and_kept_by_pages(get: Get, client, django_assert_num_queries):
    story, other = Story("s1"), Story("s2")
    for number in range(1, 70):
        add_trace(story, number, error="Quota")
        add_trace(other, number)
    url = "/traces/?user=ann&session=s1&only=errors"
    first = get(url)
    form = first.one("form", css="filters")
    assert form.one("input", name_="session").attrs["value"] == "s1"
    assert "checked" in form.one("input", name_="only").attrs
    second = get(f"/traces/{first.one('a', rel='next').attrs['href']}")
    assert names(first) + names(second) == [f"s1-{number}" for number in range(69, 0, -1)]
    with django_assert_num_queries(
        4
    ):  # the apps of the filter, the traces, their number, what their models cost
        client.get(url)


def test_rows_name_the_turn_and_link_to_trace_and_session(get: Get, client):
    story = Story("s1")
    for number, text in enumerate(("Weather?", "And <b>now</b>?"), start=1):
        story.invocation = f"i{number}"
        story.asks(text)
        story.says("Sunny.")
        add_trace(story, number)
    add_trace(story, 3)
    page = get("/traces/")
    links = [row.one("a", css="row-link") for row in page.one("tbody").all("tr")]
    assert [link.text for link in links] == [
        "Trace of a turn without text", "Trace of And <b>now</b>?", "Trace of Weather?"
    ]  # fmt: skip
    assert get(links[1].attrs["href"]).one("h1")
    sessions = [cell.one("a").attrs["href"] for cell in page.all("td", data_label="Session")]
    path = "/sessions/weather/ann/s1/"
    assert sessions == [path, f"{path}?seq=3", f"{path}?seq=1"]
    rows = client.get("/traces/csv/").content.decode().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["turn", "", "And <b>now</b>?", "Weather?"]


def test_blank_message_is_a_turn_without_text(get: Get):
    story = Story("s1")
    story.invocation = "i1"
    story.asks(" \n\t")
    add_trace(story, 1)
    assert get("/traces/").one("a", css="row-link").text == "Trace of a turn without text"


def test_a_filter_of_traces_that_does_not_exist_is_refused(get: Get):
    assert "'only' cannot be used" in get("/traces/?only=slow", status=400).text


def test_narrowed_traces_are_found_by_indexes():
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL plans by the sizes of tables, and these are empty.")
    expected = waterfall.TraceFilter("weather", "ann", "s1", errors_only=True)
    plan = waterfall.filter_traces(expected).order_by("-started_at", "-pk")[:51].explain()
    assert "USING INDEX trace_newest" in plan
    assert "INDEX call_failed" in plan
    assert "SCAN" not in plan.replace("SCAN sessions_app_trace USING INDEX", "")
