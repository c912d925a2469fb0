"""Times on pages, including times outside the calendar, which imports may contain."""

from __future__ import annotations

import math

import pytest

from sessions_app.store.models import Event
from sessions_app.templatetags.devui import duration, moment
from tests.pages.client import Get
from tests.pages.html import parse
from tests.timeline.story import Story


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (1_700_000_000.0, "2023-11-14 22:13 UTC"),
        (0.0, "1970-01-01 00:00 UTC"),
        (-1.0, "1969-12-31 23:59 UTC"),
        (-62_135_596_800.0, "0001-01-01 00:00 UTC"),
        (253_402_300_799.0, "9999-12-31 23:59 UTC"),
    ],
)
def test_time_of_any_year_is_a_date_in_the_viewers_zone(epoch, expected):
    time = parse(moment(epoch)).one("time")
    assert time.text == expected
    assert float(time.attrs["data-epoch"]) == epoch


@pytest.mark.parametrize(
    ("epoch", "expected", "hint"),
    [
        (1e15, "1e+15 s", "seconds since 1970"),
        (1.7e12, "1.7e+12 s", "seconds since 1970"),
        (-1e15, "-1e+15 s", "No date"),
        (1e300, "1e+300 s", "No date"),
        (math.nan, "no time", "nan"),
        (math.inf, "no time", "inf"),
    ],
)
@pytest.mark.parametrize("style", ["short", "clock"])
def test_time_outside_the_calendar_is_shown_as_number(epoch, expected, hint, style):
    time = parse(moment(epoch, style)).one("span")
    assert time.text == expected
    assert hint in time.attrs["title"]


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_span_without_end_is_not_shown(seconds):
    assert duration(seconds) == ""


@pytest.mark.django_db
@pytest.mark.parametrize("epoch", [1e15, -1e15, -1.0, 8.64e12, 1e300])
def test_pages_show_events_of_any_time(get: Get, epoch):
    story = Story()
    story.says("a", delta={"n": 1, "user:n": 1}, timestamp=epoch)
    story.says("b", delta={"n": 2})
    assert Event.objects.filter(session_id=story.pk, timestamp=epoch).exists()
    change = story.session.changes.filter(key="n").order_by("pk").first()
    for address in (
        f"/sessions/id/{story.pk}/",
        f"/sessions/id/{story.pk}/?seq=1",
        f"/sessions/id/{story.pk}/?diff=1",
        f"/state/history/{change.pk}/",
        f"/state/values/{change.pk}/whole/",
        "/state/?app=weather&user=ann",
        "/sessions/",
        "/",
    ):
        get(address)
