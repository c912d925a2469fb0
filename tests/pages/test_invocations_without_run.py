"""Invocations of other programs in the list of runs."""

from __future__ import annotations

import csv
import io
import json
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from sessions_app.runs import lifecycle, run_list
from sessions_app.runs.pauses import Kind
from sessions_app.store.database.pagination import Order
from sessions_app.store.models import ModelCall, Run, RunPause, Trace
from sessions_app.store.traces.records import StageRecord, save_stages
from tests.pages.client import Get
from tests.pages.html import Element, table
from tests.pages.run_rows import create_run
from tests.timeline.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]


def record(story: Story, number: int = 1, end: str = "end", error: str = "") -> Trace:
    """Record an invocation of one model call, which failed if an error is named; an empty end: it goes on."""
    invocation_id = f"i{number}"
    stages = [StageRecord("agent", float(number)), StageRecord(end, number + 0.5, "Broken", is_last=True)]
    save_stages(story.key, invocation_id, stages if end else stages[:1], "", "a")
    ModelCall.objects.create(
        session_id=story.pk,
        invocation_id=invocation_id,
        started_at=float(number),
        ref=f"r{number}",
        number=1,
        agent="a",
        request="{}",
        error_type=error,
    )
    return Trace.objects.get(session=story.pk, invocation_id=invocation_id)


def row_ids(page: Element) -> list[str]:
    """Return what the rows of a page are: the id of a run, or the session and second of an invocation."""
    keys = [row.attrs["id"].removeprefix("run-") for body in page.all("tbody") for row in body.all("tr")]
    traces = {f"trace-{trace.pk}": trace for trace in Trace.objects.select_related("session")}
    return [
        f"{traces[key].session.session_id}-{traces[key].started_at:.0f}" if key in traces else key
        for key in keys
    ]


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
        ({"error": "Quota"}, ["s22-4", "s1-2"]),
        ({"status": "failed"}, ["s22-4"]),
        ({"status": "cancelled"}, ["s21-3"]),
        ({"status": "running"}, ["s1-2"]),
        ({"status": "done"}, ["s1-1"]),
        ({"status": "paused"}, []),
        ({"status": "waiting"}, []),
        ({"app": "weather", "user": "ann", "session": "s1", "only": "errors"}, ["s1-2"]),
    ],
)
def test_invocations_are_filtered_as_runs_are(get: Get, query: dict[str, str], expected: list[str]):
    story = Story("s1")
    record(story, 1)
    record(story, 2, end="", error="Quota")
    record(Story("s21"), 3, end=Trace.CUT_OFF)
    record(Story("s22", user="tom"), 4, end=Trace.FAILED, error="Quota")
    page = get(f"/runs/?{urlencode(query)}")
    assert row_ids(page) == expected
    assert expected or "No run matches" in page.text


def test_row_names_the_turn_and_links_to_trace_and_session(get: Get, client: Client):
    story = Story("s1")
    story.invocation = "i1"
    story.asks("And <b>now</b>?")
    trace = record(story, 1, end=Trace.FAILED, error="Quota")
    page = get("/runs/")
    [row] = table(page)
    assert row["Turn"] == "And <b>now</b>? Broken"
    shown = {name: row[name] for name in ("Status", "Source", "Code", "Calls", "Tokens", "Duration")}
    assert shown == {
        "Status": "failed", "Source": "program", "Code": "unknown", "Calls": "1 1 error",
        "Tokens": "", "Duration": "500 ms",
    }  # fmt: skip
    assert page.one("a", css="row-link").attrs["href"] == "/sessions/weather/ann/s1/?seq=1"
    actions = page.one("td", css="row-actions")
    assert actions.one("a").attrs["href"] == f"/traces/{trace.pk}/"
    assert not actions.all("form")
    [exported] = csv.DictReader(io.StringIO(client.get("/runs/csv/").content.decode()))
    assert (exported["turn"], exported["status"], exported["source"], exported["duration"]) == (
        "And <b>now</b>?", "failed", "program", "0.5",
    )  # fmt: skip


def test_blank_message_is_a_turn_without_text(get: Get):
    story = Story("s1")
    story.invocation = "i1"
    story.asks(" \n\t")
    record(story, 1)
    assert get("/runs/").one("a", css="row-link").text == "a turn without text"


def test_run_and_its_trace_are_one_row(get: Get):
    story = Story()
    run = create_run(story, status="running")
    trace = record(story, 1, end="")
    assert row_ids(get("/runs/")) == [run.pk, "s1-1"]
    lifecycle.record_invocation(run.pk, "i1")
    assert row_ids(get("/runs/")) == [run.pk]
    save_stages(story.key, "i1", [StageRecord("end", 9.0, is_last=True)], "", "a")
    assert row_ids(get("/runs/")) == [run.pk]
    assert get("/runs/").one("td", css="row-actions").all("a")[0].attrs["href"] == f"/traces/{trace.pk}/"


def test_run_that_is_known_before_its_trace_is_one_row(get: Get):
    story = Story()
    run = create_run(story, status="running", invocation_id="i1")
    record(story, 1)
    assert row_ids(get("/runs/")) == [run.pk]


def test_invocation_is_found_at_the_end_of_its_run(get: Get):
    story = Story()
    run = create_run(story, status="running")
    record(story, 1)
    lifecycle.finish(run.pk, Run.Status.DONE, invocation_id="i1")
    assert row_ids(get("/runs/")) == [run.pk]


def test_invocations_in_realms_are_not_listed(get: Get):
    record(Story("s1", realm="eval/1"), 1)
    assert get("/runs/").one("div", css="empty").one("h2").text == "No runs yet"


@pytest.mark.parametrize("sort", ["", "created", "duration", "-duration"])
def test_pages_of_runs_and_invocations_join(get: Get, sort: str):
    story = Story()
    run_keys = [
        create_run(story, at=float(n // 3), status="done", started_at=1.0, finished_at=2.0 + n % 4).pk
        for n in range(60)
    ]
    trace_keys = [f"trace-{record(story, n).pk}" for n in range(1, 61)]
    keys, address = [], f"/runs/?sort={sort}"
    while address:
        page = get(address)
        keys += [row.attrs["id"].removeprefix("run-") for row in page.one("tbody").all("tr")]
        older = page.all("a", rel="next")
        address = f"/runs/{older[0].attrs['href']}" if older else ""
    assert sorted(keys) == sorted([*run_keys, *trace_keys])
    column = "duration" if "duration" in sort else "created_at"
    rows = {row.pk: getattr(row.record, column) for row in run_list.read_rows(keys)}
    values = [rows[key] for key in keys]
    assert values == sorted(values, reverse=sort in {"", "-duration"})


@pytest.mark.parametrize(
    "before", ["x", "[]", '["",""', '["","",""]', "[1,2]", '["[1]","[1]"]', '["", "[NaN,1]"]', "[" * 5000]
)
def test_invalid_cursor_is_refused(get: Get, before: str):
    get(f"/runs/?{urlencode({'before': before})}", status=400)


def test_invocation_that_ends_is_replaced_in_place(get: Get, client: Client):
    story = Story()
    trace = record(story, 1, end="")
    address = get("/runs/").one("div", id="watch").attrs["hx-get"]
    assert client.get(address).status_code == 204
    save_stages(story.key, "i1", [StageRecord("end", 9.0, is_last=True)], "", "a")
    change = get(address)
    assert change.one("tr").attrs["id"] == f"run-trace-{trace.pk}"
    assert change.one("tr").one("span", data_status="done")
    assert client.get(change.one("div", id="watch").attrs["hx-get"]).status_code == 204


def test_invocation_that_comes_is_counted(get: Get):
    record(Story("s1"), 1)
    page = get("/runs/")
    record(Story("s2"), 2)
    create_run(Story("s3"), at=3.0)
    assert get(page.one("div", id="watch").attrs["hx-get"]).one("a").text == "2 new or changed"


def test_number_of_queries_does_not_depend_on_the_number_of_rows(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    for number in range(1, 70):
        story = Story(f"s{number}")
        record(story, number)
        create_run(story, at=float(number), status="done", first_seq=0, last_seq=1)
    # the apps and the errors of the filters; the runs and the traces without a run, the number of both, and what each
    # has spent, with the nested runs and the problems
    with django_assert_num_queries(10):
        client.get("/runs/")


@pytest.mark.parametrize("rows", ["trace-x.1", "trace-99999999999999999999.1", "trace-²3.1", "trace-.1"])
def test_keys_of_no_row_leave_the_list(get: Get, rows: str):
    assert get(f"/runs/changes/?rows={rows}").one("tr").attrs["hx-swap-oob"] == "delete"


def test_paused_runs_are_found_by_their_status(get: Get):
    paused_run, running_run = (create_run(Story(name), status="running") for name in ("s1", "s2"))
    RunPause.objects.create(
        run=paused_run, kind=Kind.TOOL, agent="a", target="t", content="{}", created_at=1.0, expires_at=9e9
    )
    assert row_ids(get("/runs/?status=paused")) == [paused_run.pk]
    assert row_ids(get("/runs/?status=running")) == [running_run.pk]
    assert get("/runs/").one("span", data_status="paused").text == "paused"


def test_failed_runs_and_runs_with_failed_model_calls_have_errors(get: Get):
    failed = create_run(Story("s1"), at=2.0, status="failed", error_type="ValueError", error="no")
    story = Story("s2")
    create_run(story, status="done", invocation_id="i1")
    repaired = Run.objects.get(session=story.pk)
    record(story, 1, error="Quota")
    create_run(Story("s3"), status="done")
    assert row_ids(get("/runs/?only=errors")) == [repaired.pk, failed.pk]


@pytest.mark.parametrize(
    ("former", "address"),
    [
        ("", "/runs/"),
        ("?user=ann&session=s%201&only=errors&app=a", "/runs/?user=ann&session=s+1&only=errors&app=a"),
        ("?sort=started&before=%5B1.0%2C2%5D", "/runs/?sort=created"),
        ("?sort=-started&hide=agent", "/runs/?sort=-created&hide=agent"),
    ],
)
def test_former_address_of_traces_leads_to_the_runs(get: Get, client: Client, former: str, address: str):
    response = client.get(f"/traces/{former}")
    assert (response.status_code, response.headers["Location"]) == (302, address)
    get(address)


def test_a_filter_of_errors_that_does_not_exist_is_refused(get: Get):
    assert "'only' cannot be used" in get("/runs/?only=slow", status=400).text


def test_narrowed_invocations_are_found_by_indexes():
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL plans by the sizes of tables, and these are empty.")
    filters = {**run_list.NO_FILTERS, "app": "weather", "user": "ann", "session": "s1", "only": "errors"}
    plan = run_list.filter_invocations(filters).order_by(*Order("-created_at").names)[:51].explain()
    assert "USING INDEX own_trace_newest" in plan
    assert "INDEX call_failed" in plan
    assert "SCAN" not in plan.replace("SCAN sessions_app_trace USING INDEX", "")


def test_traces_of_an_older_store_get_the_status_of_their_last_stage():
    from importlib import import_module

    from django.apps import apps

    migration = import_module("sessions_app.migrations.0008_list_of_runs")
    story = Story()
    create_run(story, invocation_id="i5", status="done")
    for number, end in enumerate(["end", Trace.FAILED, Trace.CUT_OFF, "", "end"], start=1):
        record(story, number, end=end)
    empty = Trace.objects.create(session_id=story.pk, invocation_id="i6", started_at=6.0, finished_at=7.0)
    assert json.loads(empty.stages) == []
    Trace.objects.update(own_status="")
    migration.set_own_status(apps, None)
    found = list(Trace.objects.order_by("started_at").values_list("own_status", flat=True))
    assert found == ["done", "failed", "cancelled", "running", "", "done"]
