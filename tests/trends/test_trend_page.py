"""The page of trends and its API: plots, tables, links to sessions, code versions, and refusals."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from sessions_app.api import trends as api
from sessions_app.search.execution.session_queries import Search
from sessions_app.search.query.parsing import parse
from sessions_app.store.models import AgentSession, SessionProblem
from sessions_app.trends import code_changes, rollup
from sessions_app.trends.measures import GROUPINGS, MEASURES
from tests.pages.client import Get
from tests.trends.recorded import DAY, Call, Invocation, record, session, today, write_prices

pytestmark = pytest.mark.usefixtures("store")


def sessions_found(link: str) -> set[int]:
    [query] = parse_qs(urlsplit(link).query)["q"]
    return {row.pk for row in Search(parse(query)).filter_rows(AgentSession.objects.all())}


def points(get: Get, address: str) -> list[str]:
    return [link.attrs["href"] for link in get(address).all("svg", css="trend")[0].all("a")]


def ask(client: Client, **query: Any) -> dict[str, Any]:
    answer = client.get("/api/v1/trends", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_each_point_opens_the_sessions_of_its_group_and_day(get):
    owners = {}
    for user, model, age in (
        ("ann", "flash", 0),
        ("ben", "flash", 0),
        ("cem", "pro x", 0),
        ("dan", "pro x", 3),
    ):
        owners[user] = session(user)
        at = today() - age * DAY
        record(
            owners[user], Invocation(at, models=[Call(model)], tools=[Call("look")], code="c1", revision="r1")
        )
    rollup.count_all()
    by_model = points(get, "/trends/?app=weather&measure=cost") + points(
        get, "/trends/?measure=model-latency&by=model"
    )
    sessions = [sessions_found(link) for link in by_model]
    assert sessions == [{owners["ann"].pk, owners["ben"].pk}, {owners["dan"].pk}, {owners["cem"].pk}]
    for by in ("app", "user", "code"):
        for link in points(get, f"/trends/?measure=invocation-time&by={by}"):
            assert sessions_found(link)


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (0.0008, ["0 ms", "1 ms"]),
        (0.005, ["0 ms", "2 ms", "4 ms", "6 ms"]),
        (2.7, ["0 ms", "1 s", "2 s", "3 s"]),
        (7.0, ["0 ms", "2 s", "4 s", "6 s", "8 s"]),
    ],
)
def test_labels_of_the_scale_differ_and_have_equal_steps(get, seconds, labels):
    record(session(), Invocation(today(), seconds=seconds))
    rollup.count_all()
    scale = get("/trends/?app=weather").all("svg", css="trend-scale")[0]
    assert [label.text for label in scale.all("text")] == labels


def test_scale_of_costs_leaves_the_currency_to_the_title(get, settings, tmp_path):
    write_prices(settings, tmp_path)
    record(session(), Invocation(today(), models=[Call("flash")]))
    rollup.count_all()
    page = get("/trends/?app=weather&measure=cost")
    assert page.one("figcaption").text == "Cost in EUR by model"
    labels = [label.text for label in page.one("svg", css="trend-scale").all("text")]
    assert not any("EUR" in label for label in labels)


def test_page_without_recorded_invocations_says_what_would_be_there(get):
    assert "Recorder" in get("/trends/").one("div", css="empty").text
    assert "Recorder" in get("/trends/?app=none&measure=problems&by=user&days=2").text


def test_values_of_a_plot_are_readable_as_a_table(get):
    record(session(), Invocation(today(), seconds=2.0))
    rollup.count_all()
    page = get("/trends/?app=weather")
    table = page.one("details", css="plot-table").one("tbody")
    assert [cell.text for cell in table.all("td")] == ["2.04 s / 2.04 s"]
    assert "planner" in page.one("details", css="plot-table").one("thead").text


def test_impossible_grouping_is_refused_with_the_possible_ones(get, client):
    notice = get("/trends/?measure=tool-latency&by=model").one("p", css="notice-warn")
    assert "Latency of tool calls cannot be grouped by model." in notice.text
    assert "app, agent, tool, user, code version" in notice.text
    answer = client.get("/api/v1/trends", {"measure": "tool-latency", "by": "model"})
    assert answer.status_code == 400
    get("/trends/?measure=speed", status=400)
    get("/trends/?days=31", status=400)
    assert client.get("/api/v1/trends", {"measure": "cost", "days": 31}).status_code == 400
    assert client.get("/api/v1/trends", {"measure": "speed"}).status_code == 422


def test_api_names_all_measures_and_groupings():
    assert list(get_args(api.MeasureName)) == list(MEASURES)
    assert list(get_args(api.GroupingName)) == list(GROUPINGS)


def test_every_measure_and_grouping_has_a_page(get):
    owner, invocation = (
        session(),
        Invocation(today(), models=[Call("flash", failed=True)], tools=[Call("look")], code="c1"),
    )
    record(owner, invocation)
    SessionProblem.objects.create(
        session=owner, code="tool-error", severity="error", invocation_id=invocation.id, text="x"
    )
    rollup.count_all()
    for measure in MEASURES:
        for by in ("", "app", "agent", "user", "code"):
            page = get(f"/trends/?measure={measure}&by={by}&app=weather", target="trends")
            assert page.all("figure")


def test_two_days_are_shown_by_hour(client):
    record(session(), Invocation(today(1), models=[Call("flash")]))
    rollup.count_all()
    trend = ask(client, measure="tokens", days=2)
    assert (trend["by"], trend["step"]) == ("model", 3600)
    [group] = trend["groups"]
    assert (group["name"], group["figures"]["input_tokens"], len(group["points"])) == ("flash", 100, 1)
    assert sessions_of(group["points"][0]["sessions"]) == 1


def sessions_of(query: str) -> int:
    return Search(parse(query)).filter_rows(AgentSession.objects.all()).count()


def test_only_the_largest_groups_are_shown(client):
    for number in range(9):
        owner = session(f"user{number}")
        for _ in range(number + 1):
            record(owner, Invocation(today()))
    rollup.count_all()
    trend = ask(client, measure="invocation-time", by="user")
    assert [group["name"] for group in trend["groups"]] == [f"user{number}" for number in (8, 7, 6, 5, 4, 3)]
    assert trend["more"] is True


def test_cost_is_computed_from_the_prices_of_now_and_unknown_stays_unknown(client, settings, tmp_path):
    record(session(), Invocation(today(), models=[Call("flash", tokens=(900_000, 100_000, 0))]))
    rollup.count_all()
    settings.DATA_DIR = tmp_path
    assert ask(client, measure="cost")["groups"][0]["figures"]["cost"] is None
    write_prices(settings, tmp_path)
    trend = ask(client, measure="cost", by="agent")
    assert (trend["currency"], trend["groups"][0]["figures"]["cost"]) == ("EUR", pytest.approx(1.0))
    record(session(), Invocation(today(), models=[Call("dear", tokens=(1, 1, 0))]))
    rollup.count_all()
    assert ask(client, measure="cost", by="agent")["groups"][0]["figures"]["cost"] is None


def versions(client: Client) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/trends/code-versions", {"app": "weather"})
    assert answer.status_code == 200, answer.content
    return answer.json()["versions"]


def record_version(code: str, seconds: float, tokens: int, failed: int, age: int, number: int = 40) -> None:
    owner = session()
    for place in range(number):
        call = Call("flash", tokens=(tokens + place % 7, 0, 0))
        end = "failed" if place < failed else "end"
        duration = seconds * (1 + place % 5 / 10)
        record(
            owner, Invocation(today() - age * DAY + place / 100, duration, models=[call], end=end, code=code)
        )


def test_slower_and_dearer_version_is_told_apart_by_intervals(client, get, settings, tmp_path):
    write_prices(settings, tmp_path)
    record_version("old0000000", 1.0, 1_000, failed=2, age=2)
    record_version("new0000000", 3.0, 2_000, failed=2, age=1)
    rollup.count_all()
    newest, oldest = versions(client)
    assert (newest["version"], newest["label"], newest["invocations"]) == ("new0000000", "new0000", 40)
    assert all(comparison["change"] is None for comparison in oldest["comparisons"])
    changes = {comparison["name"]: comparison["change"] for comparison in newest["comparisons"]}
    assert changes["latency"]["interval"]["low"] > 1.5
    assert changes["tokens"]["value"] == pytest.approx(1_000, abs=1)
    assert changes["tokens"]["interval"]["low"] > 990
    assert changes["cost"]["value"] == pytest.approx(0.001, rel=0.01)
    assert changes["errors"]["interval"]["low"] < 0 < changes["errors"]["interval"]["high"]
    page = get("/trends/?app=weather")
    assert "not an experiment" in page.text
    assert len(page.all("div", css="change-clear")) == 3


def test_version_with_few_invocations_has_values_without_intervals(client):
    record_version("old", 1.0, 1_000, failed=0, age=2, number=1)
    record_version("new", 1.0, 1_000, failed=0, age=1, number=1)
    rollup.count_all()
    changes = {comparison["name"]: comparison for comparison in versions(client)[0]["comparisons"]}
    assert changes["tokens"]["value"] == 1_000
    assert changes["tokens"]["change"] is None
    assert changes["latency"]["change"] is None
    assert changes["cost"] == {"name": "cost", "value": None, "change": None}


def test_at_most_ten_versions_are_compared_and_the_oldest_with_its_predecessor():
    for number in range(12):
        record_version(f"v{number}", 1.0, 100, failed=0, age=20 - number, number=2)
    rollup.count_all()
    compared = code_changes.compare_versions("weather", 30)
    assert [version.version for version in compared] == [f"v{number}" for number in range(11, 1, -1)]
    assert compared[-1].comparisons[1].change is not None


def test_page_takes_a_bounded_number_of_queries(client, django_assert_max_num_queries):
    for user in ("ann", "ben"):
        for _ in range(5):
            record(session(user), Invocation(today(), models=[Call("flash")], code="c1"))
    rollup.count_all()
    with django_assert_max_num_queries(8):
        client.get("/trends/?app=weather&measure=tokens")


def test_names_that_an_agent_chose_are_escaped(get):
    record(session(), Invocation(today(), agent="<script>alert(1)</script>"))
    rollup.count_all()
    page = get("/trends/?app=weather")
    assert [script.attrs.get("src", "") != "" for script in page.all("script")] == [True] * len(
        page.all("script")
    )


def test_filters_that_are_not_set_have_no_value(get):
    form = get("/trends/").one("form", css="filters")
    chosen = {}
    for select in form.all("select"):
        options = select.all("option")
        picked = [option for option in options if "selected" in option.attrs] or options[:1]
        chosen[select.attrs["name"]] = (picked[0].attrs["value"], picked[0].text)
    assert chosen == {
        "app": ("", "All apps"),
        "measure": ("", "Time of invocations"),
        "by": ("", "By app (default)"),
        "days": ("", "Time with data"),
    }


def test_default_grouping_is_named_and_follows_the_measure(get):
    part = get("/trends/?measure=tool-latency", target="trends")
    select = part.one(id="trends-by")
    assert select.attrs["hx-swap-oob"] == "true"
    options = [(option.attrs["value"], option.text) for option in select.all("option")]
    assert options[0] == ("", "By tool (default)")
    assert "tool" not in [value for value, _ in options]
    chosen = get("/trends/?measure=tool-latency&by=tool").one(id="trends-by")
    assert [option.text for option in chosen.all("option") if "selected" in option.attrs] == ["By tool"]


@pytest.mark.parametrize(
    ("measure", "column"),
    [
        ("invocation-time", "Invocations"),
        ("cost", "Calls"),
        ("tool-latency", "Calls"),
        ("problems", "Problems"),
    ],
)
def test_table_of_groups_names_what_it_counts(get, measure, column):
    owner, invocation = session(), Invocation(today(), models=[Call("flash")], tools=[Call("look")])
    record(owner, invocation)
    SessionProblem.objects.create(
        session=owner, code="tool-error", severity="error", invocation_id=invocation.id, text="x"
    )
    rollup.count_all()
    section = get(f"/trends/?measure={measure}").one("section", aria_labelledby="groups-title")
    assert section.all("th", scope="col")[1].text == column
