"""The overview of Monitor: plots of all figures, the time that they show, and links to trends."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from sessions_app.store.models import SessionProblem
from sessions_app.templatetags.trends import axis_label
from sessions_app.trends import rollup
from sessions_app.trends.overview import read_overview
from sessions_app.trends.trend_queries import DEFAULT_DAYS, LEAST_STEPS, fit_time
from tests.trends.recorded import DAY, Call, Invocation, record, session, today, write_prices

pytestmark = pytest.mark.usefixtures("store")


def headlines(page):
    return {chart.one("h2").text: chart.one("strong").text for chart in page.all("li", css="chart")}


def record_two():
    owner = session()
    failed = Invocation(today(), seconds=2.0, models=[Call("flash", tokens=(900, 100, 0))], end="failed")
    record(owner, failed)
    record(owner, Invocation(today(), seconds=2.0, models=[Call("flash", tokens=(900, 100, 0))]))
    SessionProblem.objects.create(
        session=owner, code="tool-error", severity="error", invocation_id=failed.id, text="x"
    )
    rollup.count_all()


def test_overview_shows_every_figure(get, settings, tmp_path):
    write_prices(settings, tmp_path, price=1_000.0)
    record_two()
    page = get("/monitor/")
    assert headlines(page) == {
        "Invocations": "2",
        "Failed invocations": "50 %",
        "Median time": "2.04 s",
        "95th percentile of time": "2.04 s",
        "Tokens": "2.00k",
        "Cost": "EUR 2.00",
        "Problems": "1",
    }
    bars = {chart.one("h2").text: len(chart.all("rect")) for chart in page.all("li", css="chart")}
    assert (bars["Invocations"], bars["Median time"]) == (1, 0)


@pytest.mark.parametrize(("time", "days"), [("", None), ("&days=7", ["7"])])
def test_each_plot_opens_its_trend_with_app_and_time(get, time, days):
    record_two()
    for chart in get(f"/monitor/?app=weather{time}").all("li", css="chart"):
        link = chart.one("h2").one("a").attrs["href"]
        query = parse_qs(urlsplit(link).query)
        assert (urlsplit(link).path, query["app"], query.get("days")) == ("/trends/", ["weather"], days)
        assert get(link).all("figure")


def test_overview_is_filtered_by_app(get):
    record_two()
    assert get("/monitor/?app=other").one("div", css="empty")
    assert headlines(get("/monitor/?app=weather", target="monitor"))["Invocations"] == "2"


def test_unknown_cost_links_to_the_prices(get, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    record_two()
    cost = next(chart for chart in get("/monitor/").all("li", css="chart") if chart.one("h2").text == "Cost")
    assert cost.one("strong").text == "unknown"
    assert cost.one(css="chart-link").attrs["href"] == "/evals/prices/"


def test_without_data_the_page_says_what_would_be_there(get):
    assert "Recorder" in get("/monitor/").one("div", css="empty").text


@pytest.mark.parametrize("query", ["days=31", "days=x"])
def test_unknown_lengths_are_refused(get, query):
    get(f"/monitor/?{query}", status=400)


@pytest.mark.parametrize(("age", "days"), [(0, 2), (5, 7), (20, 30), (80, 90), (100, DEFAULT_DAYS)])
def test_time_fits_the_data(age, days):
    record(session(), Invocation(today() - age * DAY))
    rollup.count_all()
    assert fit_time("weather")[0] == fit_time("")[0] == days


def test_empty_begin_of_the_time_is_cut(get):
    record(session(), Invocation(today() - 20 * DAY))
    record(session(), Invocation(today()))
    rollup.count_all()
    assert len(read_overview("weather")[0].plot.trend.starts) in (21, 22)
    assert len(read_overview("weather", days=30)[0].plot.trend.starts) == 30
    assert len(read_overview("weather", days=2)[0].plot.trend.starts) == 48


def test_new_data_has_a_plot_of_some_hours():
    record(session(), Invocation(today(24)))
    rollup.count_all()
    assert len(read_overview("")[0].plot.trend.starts) == LEAST_STEPS


def test_axis_names_the_day_once_and_then_hours():
    record(session(), Invocation(today(24)))
    rollup.count_all()
    labels = [label for _, label in replace(read_overview("")[0].plot, labels=12).times]
    days = [label for label in labels if ":" not in label]
    assert len(labels) == LEAST_STEPS
    assert labels[0] == days[0]
    assert len(days) == len(set(days)) <= 2


def test_overview_takes_at_most_six_queries(client, django_assert_max_num_queries):
    for user in ("ann", "ben"):
        record(session(user), Invocation(today(), models=[Call("flash")], code="c1"))
    rollup.count_all()
    with django_assert_max_num_queries(6):
        client.get("/monitor/")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.5, "money USD", "0.5"),
        (1.0, "money USD", "1"),
        (1_500.0, "money USD", "1,500"),
        (60_000, "tokens", "60k"),
        (2.5, "seconds", "2.5 s"),
        (10.0, "number", "10"),
        (1.0, "share", "100 %"),
    ],
)
def test_labels_of_scales_have_no_zeros_at_the_end(value, unit, text):
    assert axis_label(value, unit) == text
