"""Run list."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from sessions_app.delivery.failure import Failure
from sessions_app.runs import lifecycle as runs
from sessions_app.store.models import Run, Trace
from tests.pages.client import Get
from tests.pages.html import table
from tests.pages.run_rows import create_run
from tests.timeline.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]


def test_a_run_shows_how_it_ended_and_how_long_it_took(get: Get):
    story = Story()
    story.asks("Weather?")
    create_run(story, status="done", started_at=10.0, finished_at=11.5, first_seq=0, last_seq=4)
    row = table(get("/runs/"))[0]
    assert (row["Status"], row["Turn"], row["Session"], row["Duration"]) == (
        "done",
        "Weather?",
        "Weather?",
        "1.50 s",
    )


def test_runs_of_one_session_are_distinguished_by_message(get: Get):
    story = Story()
    story.asks("Weather?")
    story.says("Sunny.")
    story.asks("And <b>now</b>?")
    create_run(story, at=1.0, first_seq=0)
    create_run(story, at=2.0, first_seq=2)
    create_run(story, at=3.0)
    links = [row.one("a", css="row-link") for row in get("/runs/").one("tbody").all("tr")]
    assert [(link.text, link.attrs["href"].partition("?")[2]) for link in links] == [
        ("a turn without text", ""),
        ("And <b>now</b>?", "seq=3"),
        ("Weather?", "seq=1"),
    ]


def test_a_failed_run_shows_its_error_and_traceback_as_text(get: Get):
    create_run(
        Story(), status="failed", error_type="ValueError", error="<b>no</b>", traceback="File x, line 1"
    )
    failed = get("/runs/").one("details", css="run-error")
    assert failed.one("summary").text == "ValueError: <b>no</b>"
    assert failed.one("pre").text == "File x, line 1"


def test_a_run_links_to_its_trace(get: Get):
    story = Story()
    create_run(story, status="done", invocation_id="i1", at=2.0)
    create_run(story, status="failed", at=1.0)
    trace = Trace.objects.create(session=story.session, invocation_id="i1", started_at=1.0)
    links = [cell.all("a") for cell in get("/runs/").all("td", css="row-actions")]
    assert [[link.attrs["href"] for link in row_links] for row_links in links] == [
        [f"/traces/{trace.pk}/"],
        [],
    ]


def test_active_run_can_be_cancelled(get: Get):
    active = create_run(Story(), status="running")
    form = get("/runs/").one("td", css="row-actions").one("form")
    assert (form.attrs["method"], form.attrs["action"]) == ("post", f"/runs/{active.pk}/cancel/")
    assert form.one("button").text == "Cancel"


def test_cancelling_run_offers_no_second_cancel(get: Get):
    create_run(Story(), status="running", cancel_requested_at=1.0)
    button = get("/runs/").one("td", css="row-actions").one("button")
    assert (button.text, "disabled" in button.attrs) == ("Cancelling", True)


def test_a_run_that_has_ended_cannot_be_cancelled(get: Get):
    create_run(Story(), status="done")
    assert "Cancel" not in get("/runs/").one("td", css="row-actions").text


def test_run_shows_its_code_version(get: Get):
    create_run(Story(), status="done", code_version="0123456789abcdef", git_revision="fedcba98+")
    [row] = table(get("/runs/"))
    assert row["Code"] == "0123456"
    code = get("/runs/").one("code", css="ran")
    assert code.attrs["title"] == "Code 0123456789abcdef, commit fedcba98+"


@pytest.mark.parametrize("status", ["done", "failed", "waiting", "cancelled", "crashed"])
def test_message_of_a_run_can_be_sent_again(get: Get, status: str):
    ended = create_run(Story(), status=status)
    form = get("/runs/").one("td", css="row-actions").one("form")
    assert (form.attrs["method"], form.attrs["action"]) == ("post", f"/runs/{ended.pk}/again/")
    assert form.one("button").text == "Run again"


def test_answers_and_runs_without_input_cannot_be_repeated(get: Get):
    answer = {"new_message": {"parts": [{"functionResponse": {"id": "c1", "name": "x", "response": {}}}]}}
    for number, request in enumerate((answer, {}, {"live": True})):
        new_run = runs.create_run(Story(f"s{number}").pk, request)
        Run.objects.filter(pk=new_run.pk).update(status="done")
    assert not any(cell.all("form") for cell in get("/runs/").all("td", css="row-actions"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("user=ben", ["s2"]),
        ("session=s1", ["s1"]),
        ("error=ValueError", ["s3"]),
        ("error=Nobody", []),
        ("status=failed&error=ValueError&user=ann&session=s3", ["s3"]),
    ],
)
def test_runs_are_filtered_by_user_session_and_error(get: Get, query: str, expected: list[str]):
    create_run(Story("s1"), at=60.0, status="done")
    create_run(Story("s2", user="ben"), at=180.0, status="done")
    create_run(Story("s3"), at=300.0, status="failed", error_type="ValueError", error="no")
    page = get(f"/runs/?{query}")
    assert (
        [row["Session"].split()[0] for row in table(page)] == expected
        if expected
        else page.one("div", css="empty")
    )


def test_form_keeps_its_filters(get: Get):
    create_run(Story(), status="failed", error_type="<b>", error="no")
    page = get("/runs/?user=ann&session=s%201&error=%3Cb%3E")
    fields = {name: page.one("input", name=name).attrs["value"] for name in ("user", "session")}
    assert fields == {"user": "ann", "session": "s 1"}
    [chosen] = [
        option for option in page.one("select", name="error").all("option") if "selected" in option.attrs
    ]
    assert (chosen.attrs["value"], chosen.text) == ("<b>", "<b>")


def test_the_next_page_and_the_watch_keep_every_filter(get: Get):
    story = Story()
    for n in range(60):
        create_run(story, at=float(n), status="failed", error_type="ValueError", error="no")
    query = "app=weather&status=failed&user=ann&session=s1&error=ValueError"
    page = get(f"/runs/?{query}")
    for address in (page.one("a", rel="next").attrs["href"], page.one("div", id="watch").attrs["hx-get"]):
        assert set(query.split("&")) <= set(address.replace("?", "&").split("&")), address


def test_runs_are_filtered_by_app_and_status(get: Get):
    create_run(Story("s1"), status="done")
    create_run(Story("s2", app="writer"), status="failed")
    assert [row["App"] for row in table(get("/runs/?status=failed"))] == ["writer"]
    assert [row["App"] for row in table(get("/runs/?app=weather"))] == ["weather"]
    assert get("/runs/?app=weather&status=failed").one("div", css="empty").one("h2").text == "No run matches"


def test_pages_join_without_a_gap_or_a_repetition(get: Get):
    story = Story()
    run_pks = [create_run(story, at=float(n // 3)).pk for n in range(110)]
    run_ids, address = [], "/runs/"
    while address:
        page = get(address)
        run_ids += [row.attrs["id"].removeprefix("run-") for row in page.one("tbody").all("tr")]
        older = page.all("a", rel="next")
        address = f"/runs/{older[0].attrs['href']}" if older else ""
    assert sorted(run_ids) == sorted(run_pks)


@pytest.mark.parametrize("query", ["?status=bored", "?before=x"])
def test_invalid_parameter_is_refused(get: Get, query: str):
    get(f"/runs/{query}", status=400)


def test_store_without_runs_explains_runs(get: Get):
    assert get("/runs/").one("div", css="empty").one("h2").text == "No runs yet"


def test_the_number_of_queries_does_not_depend_on_the_number_of_runs(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    for n in range(3):
        for m in range(10):
            create_run(Story(f"s{n}-{m}"), status="failed")
        # the apps and the errors of the filters, the runs with their sessions, the traces without a run
        with django_assert_num_queries(4):
            client.get("/runs/")


def test_active_run_is_replaced_in_place(get: Get, client: Client):
    active = create_run(Story(), status="running")
    create_run(Story("s2"), status="done")
    address = get("/runs/").one("div", id="watch").attrs["hx-get"]
    assert client.get(address).status_code == 204
    runs.finish(active.pk, Run.Status.FAILED, Failure("ValueError", "no"))
    change = get(address)
    assert change.one("tr").attrs["id"] == f"run-{active.pk}"
    assert change.one("tr").one("span", data_status="failed")
    assert client.get(change.one("div", id="watch").attrs["hx-get"]).status_code == 204


def test_a_run_that_went_with_its_session_leaves_the_list(get: Get):
    story = Story()
    gone_run = create_run(story, status="done")
    address = get("/runs/").one("div", id="watch").attrs["hx-get"]
    story.session.delete()
    assert get(address).one("tr").attrs == {"id": f"run-{gone_run.pk}", "hx-swap-oob": "delete"}


def test_runs_that_come_are_counted_and_not_pushed_in(get: Get, client: Client):
    create_run(Story("s1"))
    page = get("/runs/?app=weather")
    create_run(Story("s2"), at=200.0)
    create_run(Story("s3", app="writer"), at=300.0)
    update = get(page.one("div", id="watch").attrs["hx-get"])
    link = update.one("a")
    assert (link.text, link.attrs["href"]) == ("1 new or changed", "/runs/?app=weather")
    assert not update.all("tr")
    assert client.get(update.one("div", id="watch").attrs["hx-get"]).status_code == 204


def test_an_empty_list_of_runs_loads_its_first_at_once(get: Get):
    page = get("/runs/?status=done")
    create_run(Story("s1"), status="done")
    update = get(page.one("div", id="watch").attrs["hx-get"]).one("div", id="watch")
    assert (update.attrs["hx-get"], update.attrs["hx-target"]) == ("/runs/?status=done", "#runs")
    assert len(get(update.attrs["hx-get"], target="runs").one("tbody").all("tr")) == 1


def test_only_active_runs_can_be_selected(get: Get):
    active = create_run(Story("a"), status="running")
    create_run(Story("b"), status="done")
    [box] = get("/runs/").one("tbody").all("input", name="run")
    assert box.attrs["value"] == active.pk
    assert box.attrs["form"] == "run-actions"


@pytest.mark.parametrize("count", [0, 101])
def test_number_of_cancelled_runs_is_bounded(client: Client, count: int):
    response = client.post("/runs/cancel/", {"run": [f"r{number}" for number in range(count)]})
    assert response.status_code == 400


@pytest.mark.django_db(transaction=True)
def test_selected_runs_are_cancelled_though_one_is_gone(client: Client):
    active = create_run(Story(), status="running")
    response = client.post("/runs/cancel/", {"run": ["gone", active.pk]})
    assert response.status_code == 302
    active.refresh_from_db()
    assert active.cancel_requested_at


def test_unknown_run_cannot_be_cancelled(client: Client):
    assert client.post("/runs/cancel/", {"run": ["gone"]}).status_code == 404
