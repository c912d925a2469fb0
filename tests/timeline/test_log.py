"""Log records on pages: their number below events, the log of an invocation, the API."""

from __future__ import annotations

import pytest

from sessions_app.agent_processes.process_output import output_file, time_mark
from sessions_app.runs import lifecycle
from sessions_app.store.models import Event, Run, Trace
from sessions_app.store.traces import log_records
from tests.pages.html import parse
from tests.timeline.logs import log
from tests.timeline.session_page import event, session_path
from tests.timeline.story import Story


@pytest.fixture
def trace(story: Story) -> Trace:
    """The trace of an invocation with a question and an answer."""
    story.asks("how many?")
    story.says("two")
    row = Event.objects.get(session=story.pk, seq=1)
    return Trace.objects.create(
        session_id=story.pk, invocation_id=row.invocation_id, started_at=1.0, root_agent="ann"
    )


def test_event_shows_the_number_of_its_records_and_the_worst(story, trace, client):
    log(story, 2, "fine", "fine, too")
    log(story, 2, "slow", level=30)
    log(story, 2, "broken", level=40)
    page = parse(client.get(session_path(story)).content)
    summary = event(page, 2).one("details", "log").one("summary")
    assert summary.text == "4 log records 1 error 1 warning"
    assert not event(page, 1).all("details", "log")


def test_error_of_a_turn_gets_one_badge(story, trace, client):
    for text in ("fine", "three", "four"):
        story.says(text)
    for seq, messages in enumerate((["lost"], ["lost"], ["lost", "lost"], ["lost", "broken"]), 1):
        log(story, seq, *messages, level=40)
    log(story, 5, "a step")
    page = parse(client.get(session_path(story)).content)

    def summary(seq):
        return event(page, seq).one("details", "log").one("summary").text

    assert [summary(seq) for seq in range(1, 6)] == [
        "1 log record 1 error",
        "1 log record 1 error as before",
        "2 log records 2 errors as before",
        "2 log records 2 errors",
        "1 log record",
    ]
    assert [len(event(page, seq).all("span", "badge-danger")) for seq in (1, 2, 3, 4)] == [1, 0, 0, 1]


def test_error_of_another_turn_gets_a_badge_of_its_own(story, client):
    for invocation in ("i1", "i2"):
        story.invocation = invocation
        story.says("hello")
    for seq in (1, 2):
        log(story, seq, "no server", level=40)
    page = parse(client.get(session_path(story)).content)
    assert len(page.all("span", "badge-danger")) == 2


def test_records_before_the_first_event_stand_at_the_users_message(story, trace, client):
    log(story, 2, "loading", after_event_id="")
    page = parse(client.get(session_path(story)).content)
    assert event(page, 1).one("details", "log").one("summary").text == "1 log record"
    part = parse(client.get(f"/sessions/id/{story.pk}/events/1/log/").content)
    assert "loading" in part.text


def test_part_below_an_event_shows_its_records_only(story, trace, client):
    log(story, 1, "early")
    log(story, 2, "<script>late</script>")
    part = parse(client.get(f"/sessions/id/{story.pk}/events/2/log/").content)
    assert [item.one("pre").text for item in part.all("li", "log-record")] == ["<script>late</script>"]
    assert part.one("a", href=f"/traces/{trace.pk}/log/")


COLORED = {
    "\x1b[90m[logging_plugin] Content: text\x1b[0m": "[logging_plugin] Content: text",
    "\x1b[1;38;2;255;0;0mred\x1b[m and \x1b[Kplain": "red and plain",
    "\x1b]0;title\x07\x1b]8;;http://a.example\x1b\\link\x1b]8;;\x1b\\\x1b(B": "link",
    "[90m is no code, \x1b neither": "[90m is no code, \\u001b neither",
}


def test_log_shows_no_control_sequences_of_terminals(story, trace, client):
    log(story, 2, *COLORED)
    for address in (f"/sessions/id/{story.pk}/events/2/log/", f"/traces/{trace.pk}/log/"):
        page = parse(client.get(address).content)
        assert [item.one("pre").text for item in page.all("li", "log-record")] == [*COLORED.values()]


def test_log_is_filtered_by_level_and_paged(story, trace, client):
    messages = [f"line {number}" for number in range(log_records.PAGE_SIZE + 1)]
    log(story, 1, *messages)
    log(story, 2, "slow", level=30)
    page = parse(client.get(f"/traces/{trace.pk}/log/").content)
    assert [pre.text for pre in page.all("pre")] == messages[:-1]
    following = parse(
        client.get(f"/traces/{trace.pk}/log/" + page.one("a", rel="next").attrs["href"]).content
    )
    assert [pre.text for pre in following.all("pre")] == [messages[-1], "slow"]
    warnings = parse(client.get(f"/traces/{trace.pk}/log/?level=warning").content)
    assert [pre.text for pre in warnings.all("pre")] == ["slow"]


def test_empty_log_says_so(story, trace, client):
    assert "Nothing was logged" in parse(client.get(f"/traces/{trace.pk}/log/").content).one("main").text
    log(story, 1, "fine")
    page = parse(client.get(f"/traces/{trace.pk}/log/?level=error").content)
    assert "No record of this level or above. The log has 1 record." in page.one("main").text


@pytest.mark.parametrize("query", ["?level=loud", "?after=-1", "?after=x"])
def test_invalid_query_is_refused(trace, client, query):
    assert client.get(f"/traces/{trace.pk}/log/{query}").status_code == 400


def test_trace_links_to_its_log(story, trace, client):
    log(story, 2, "slow", level=30)
    page = parse(client.get(f"/traces/{trace.pk}/").content)
    assert page.one("a", href=f"/traces/{trace.pk}/log/").text == "1 record"
    assert page.one("a", href=f"/traces/{trace.pk}/log/?level=warning").text == "1 warning"


@pytest.mark.django_db(transaction=True)
def test_api_lists_records_page_by_page(story, trace, client):
    messages = [f"line {number}" for number in range(log_records.PAGE_SIZE)]
    log(story, 2, *messages, "slow", level=30)
    first = client.get(f"/api/v1/traces/{trace.pk}/log").json()
    assert [item["message"] for item in first["items"]] == messages
    second = client.get(f"/api/v1/traces/{trace.pk}/log?after={first['next']}").json()
    assert [item["message"] for item in second["items"]] == ["slow"]
    assert second["next"] is None
    assert client.get(f"/api/v1/traces/{trace.pk}/log?level=error").json()["items"] == []
    assert client.get(f"/api/v1/traces/{trace.pk}/log?level=loud").status_code == 422


def test_records_of_many_events_are_counted_in_one_query(story, trace, django_assert_num_queries):
    log(story, 1, "a")
    log(story, 2, "b", "c")
    events = list(Event.objects.filter(session=story.pk).select_related("session"))
    with django_assert_num_queries(1):
        counts = log_records.count_by_event(events[0].session, events)
    assert {seq: count.records for seq, count in counts.items()} == {1: 1, 2: 2}


def test_page_shows_the_output_of_the_process_during_and_after_the_run(story, client, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    story.asks("go")
    trace = Trace.objects.create(
        session=story.session, invocation_id="i1", started_at=1_000.0, finished_at=1_001.0
    )
    (tmp_path / "output").mkdir()
    file = output_file(tmp_path / "output", story.session.app_name)
    file.write_bytes(time_mark(900) + b"earlier\n" + time_mark(1_000) + b"\x1b[31m<b>subprocess</b>\x1b[0m\n")
    with file.open("ab") as later:
        later.write(time_mark(1_055) + b"thread\n" + time_mark(1_100) + b"another run\n")
    page = f"/traces/{trace.pk}/log/"
    link = parse(client.get(page).content).one("section", "process-output").one("a").attrs["href"]
    assert "no output of the process" in parse(client.get(page + link).content).one("main").text

    lifecycle.finish(lifecycle.create_run(story.pk, {}).pk, Run.Status.DONE, invocation_id="i1")
    output = parse(client.get(page + link).content).one("section", "process-output").one("pre")
    assert output.text.split() == ["<b>subprocess</b>", "thread"]
