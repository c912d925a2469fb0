"""The socket of a session page, through its route."""

from __future__ import annotations

import asyncio
import json
import random
from html.parser import HTMLParser

from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.delivery.failure import Failure
from sessions_app.live import consumers, page_socket, snapshot
from sessions_app.live.session_tail import SessionTail
from sessions_app.runs import lifecycle
from sessions_app.sessions import judgements
from sessions_app.store.database import change_listener, units_of_work
from sessions_app.store.models import Event, NestedRun, Run
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.nested_runs import NestedRunOrigin, save_nested
from sessions_app.store.traces.log_records import NewLogRecord, save_log_records
from sessions_app.timeline.event_window import WINDOW_SIZE
from tests.live.conftest import foreign_writer, seqs_in, watching
from tests.patience import PATIENCE_S
from tests.timeline.story import Story


async def test_page_receives_missed_events_then_new_ones(story):
    for text in ("one", "two", "three"):
        await units_of_work.write(story.says, text)
    async with watching(story.pk, after=1) as page:
        await page.until_event(3)
        await units_of_work.write(story.says, "four")
        message = await page.until_event(4)
        assert page.seqs() == [2, 3, 4]
        assert "four" in message["html"]
        assert (message["last"], message["count"]) == (4, 1)


async def test_an_event_of_another_process_reaches_the_page(story):
    async with watching(story.pk) as page, foreign_writer("s1", events=1):
        message = await page.until_event(1)
        assert "from afar 0" in message["html"]


async def test_reconnect_during_writes_loses_and_doubles_nothing(story):
    chance = random.Random(7)
    seqs: list[int] = []
    async with foreign_writer("s1", events=240, pause=0.004):
        while len(seqs) < 240:
            async with watching(story.pk, after=seqs[-1] if seqs else 0) as page:
                for _ in range(chance.randrange(1, 12)):
                    message = await page.next()
                    seqs += seqs_in(message.get("html", ""))
                    if len(seqs) >= 240:
                        break
    assert seqs == list(range(1, 241))


async def test_a_long_backlog_comes_in_batches_without_a_gap(story):
    for number in range(205):
        await units_of_work.write(story.says, f"event {number}")
    async with watching(story.pk) as page:
        await page.until_event(205)
        assert page.seqs() == list(range(1, 206))
        assert all(message["count"] <= WINDOW_SIZE for message in page.of("events"))


async def test_a_lost_bell_costs_no_event(story, monkeypatch):
    async def hear_nothing(self):
        await asyncio.Event().wait()

    monkeypatch.setattr(change_listener._Notifier, "_watch_store", hear_nothing)
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        await units_of_work.write(story.says, "unheard")
        await page.until_event(1)


async def test_a_result_comes_as_an_event_of_its_own_that_names_its_call(story):
    await units_of_work.write(story.calls, "get_weather", "c 1&<")
    async with watching(story.pk, after=1) as page:
        await units_of_work.write(story.answers, "get_weather", "c 1&<")
        html = (await page.until_event(2))["html"]
        assert 'data-answers="[&quot;c 1&amp;&lt;&quot;]"' in html


async def test_a_cursor_that_is_no_number_is_refused_for_good(story):
    for after in ("x", "", "-1", "1.5", "９", "9" * 40, None):
        async with watching(story.pk, after=after) as page:
            assert await page.closed() == consumers.BAD_CURSOR.code, after


async def test_a_session_that_does_not_exist_is_refused_for_good(store):
    async with watching(404) as page:
        assert await page.closed() == consumers.NO_SESSION.code


async def test_page_ahead_of_the_store_is_told_to_reload(story):
    await units_of_work.write(story.says, "one")
    async with watching(story.pk, after=99) as page:
        assert (await page.next())["type"] == "reset"
        await units_of_work.write(story.says, "two")
        await page.until_event(2)


async def test_deleted_session_closes_the_socket_for_good(story):
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        await units_of_work.write(writes.delete_session, story.key)
        await page.until(lambda message: message["type"] == "gone")
        assert await page.closed() == consumers.NO_SESSION.code


async def test_messages_from_the_page_are_ignored(story):
    async with watching(story.pk) as page:
        await page.say(text="{}")
        await page.say(bytes=b"\x00")
        await units_of_work.write(story.says, "still here")
        await page.until_event(1)


async def test_failing_read_asks_to_retry_and_logs_the_cursor(story, monkeypatch, caplog):
    def fail(session_pk, cursor, limit):
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(snapshot, "read_events_after", fail)
    await units_of_work.write(story.says, "one")
    async with watching(story.pk) as page:
        assert await page.closed() == page_socket.RETRY_LATER.code
    assert "after event 0" in caplog.text
    assert "the disk is on fire" in caplog.text


async def test_page_closed_while_sending_is_no_error(story, monkeypatch, caplog):
    closing = asyncio.Event()

    async def find_the_line_closed(self, *, text_data):
        closing.set()
        raise OSError("connection is closing")

    monkeypatch.setattr(consumers.SessionSocket, "send", find_the_line_closed)
    await units_of_work.write(story.says, "one")
    async with watching(story.pk), asyncio.timeout(PATIENCE_S):
        await closing.wait()
    assert caplog.text == ""


async def test_a_page_that_shows_the_past_gets_counts_and_no_rows(story):
    await units_of_work.write(story.says, "one")
    async with watching(story.pk, after=0, query="&rows=0") as page:
        assert (await page.until_event(1)) == {"type": "events", "cursor": 1, "last": 1, "count": 1}
        await units_of_work.write(story.says, "two")
        assert (await page.until_event(2))["count"] == 1
        assert page.seqs() == []


async def test_shared_key_written_by_any_session_updates_the_board(story):
    other = await units_of_work.write(Story, "s2")
    async with watching(story.pk) as page:
        before = await page.until(lambda message: message["type"] == "board")
        await units_of_work.write(other.says, "x", delta={"app:motd": "hi"})
        after = await page.until(lambda message: message["type"] == "board")
        assert after["mark"] != before["mark"]


async def test_event_in_another_session_of_the_app_updates_the_list(story):
    other = await units_of_work.write(Story, "s2")
    async with watching(story.pk) as page:
        before = await page.until(lambda message: message["type"] == "sessions")
        await units_of_work.write(other.says, "x")
        after = await page.until(lambda message: message["type"] == "sessions")
        assert after["mark"] != before["mark"]


async def test_runs_are_sent_from_queue_to_traceback(story):
    run = await units_of_work.write(
        lifecycle.create_run, story.pk, {"new_message": {"parts": [{"text": "Weather?"}]}}
    )
    async with watching(story.pk) as page:
        queued = await page.until(lambda message: message["type"] == "run")
        assert queued["active"]
        assert "Weather?" in queued["html"]
        assert f"/runs/{run.pk}/cancel/" in queued["html"]
        failure = Failure("ValueError", "no <b>luck</b>", "Traceback: line 7")
        await units_of_work.write(lifecycle.finish, run.pk, Run.Status.FAILED, failure)
        failed = await page.until(lambda message: message["type"] == "run" and not message["active"])
        assert "ValueError" in failed["html"]
        update = await page.until(lambda message: message["type"] == "marks" and "failed" in message["html"])
        assert "Traceback: line 7" in update["html"]
        assert "no &lt;b&gt;luck&lt;/b&gt;" in update["html"]


async def test_idle_socket_sends_keepalives(story):
    has_beat = asyncio.Event()

    async def send(text: str) -> None:
        if json.loads(text)["type"] == "beat":
            has_beat.set()

    following = asyncio.create_task(SessionTail(story.pk, 0, send, heartbeat_s=0.0).run())
    await asyncio.wait_for(has_beat.wait(), PATIENCE_S)
    following.cancel()
    await asyncio.wait([following])


async def test_all_tasks_end_after_the_page_leaves(story):
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not any(
        name.startswith(("devui-socket", "devui-change-notifier", "devui-stream")) for name in names
    )


class Tags(HTMLParser):
    """Collects what could act in a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2) style="color:red">{{ 7 }}{% load x %}'


async def test_hostile_content_is_inert(store):
    story = await units_of_work.write(Story, HOSTILE, user=HOSTILE, app=HOSTILE)
    story.invocation = HOSTILE
    fields = {"branch": HOSTILE, "modelVersion": HOSTILE, "errorMessage": HOSTILE, "errorCode": HOSTILE}
    delta = {HOSTILE: HOSTILE, f"user:{HOSTILE}": [HOSTILE]}
    actions = {"transferToAgent": HOSTILE, HOSTILE: True, "artifactDelta": {HOSTILE: 1}}
    await units_of_work.write(lambda: story.says(HOSTILE, author=HOSTILE, delta=delta, actions=actions))
    await units_of_work.write(lambda: story.add({"text": HOSTILE, "thought": True}, **fields))
    await units_of_work.write(lambda: story.calls(HOSTILE, HOSTILE, waiting=True, **{HOSTILE: HOSTILE}))
    await units_of_work.write(lambda: story.answers(HOSTILE, HOSTILE, response={HOSTILE: HOSTILE}))
    await units_of_work.write(lifecycle.create_run, story.pk, {"new_message": {"parts": [{"text": HOSTILE}]}})
    async with watching(story.pk) as page:
        await page.until(lambda message: message["type"] == "run")
        html = "".join(message.get("html", "") for message in page.messages)
    assert "&lt;script&gt;" in html
    tags = Tags(html)
    assert not tags.tags & {"script", "img", "style", "iframe", "object"}
    assert not [name for name in tags.attributes if name.startswith("on") or name == "style"]


async def test_poll_needs_three_queries_and_batch_a_constant_number(story):
    def costs(work, *args):
        with CaptureQueriesContext(connection) as queries:
            work(*args)
        return len(queries)

    await units_of_work.write(story.says, "one", delta={"x": 1})
    assert await units_of_work.read(costs, snapshot.read_snapshot, story.pk) == 3
    short = await units_of_work.read(costs, snapshot.read_events_after, story.pk, 0)
    for number in range(60):
        await units_of_work.write(story.says, f"event {number}", delta={"x": number})
    assert await units_of_work.read(costs, snapshot.read_events_after, story.pk, 0) == short <= 11


async def test_number_of_log_records_reaches_the_page_while_a_tool_runs(story):
    await units_of_work.write(story.calls, "helper", "c1")
    event = await units_of_work.read(lambda: Event.objects.get(session=story.pk, seq=1))

    async def log(number: int) -> None:
        record = NewLogRecord(
            invocation_id=event.invocation_id,
            ref="r1",
            number=number,
            at=1.0,
            level=30,
            source="log",
            after_event_id=event.event_id,
            message="slow",
        )
        await units_of_work.write(save_log_records, story.key, [record])

    async with watching(story.pk) as page:
        await page.until_event(1)
        for number in (1, 2):
            await log(number)
            words = f"{number} log record"
            message = await page.until(
                lambda update, words=words: update["type"] == "log" and words in update["html"]
            )
            assert 'data-seq="1"' in message["html"]


async def test_judgement_reaches_the_page_and_its_withdrawal_too(story):
    await units_of_work.write(story.says, "It is sunny.")
    async with watching(story.pk) as page:
        await page.until_event(1)
        await units_of_work.write(judgements.judge, story.pk, 1, "bad", "It rains.")
        message = await page.until(lambda message: message["type"] == "judgements")
        assert 'data-seq="1"' in message["html"]
        assert "It rains." in message["html"]
        await units_of_work.write(judgements.withdraw, story.pk, 1)
        message = await page.until(lambda message: message["type"] == "judgements")
        assert 'data-seq="1"' in message["html"]
        assert "judgement" not in message["html"]


async def test_nested_run_reaches_the_page_while_it_runs(story):
    await units_of_work.write(story.calls, "helper", "c1")
    async with watching(story.pk) as page:
        await page.until_event(1)
        run = NestedRun(call_id="c1", agent="helper", started_at=1.0, changed_at=1.0, event_count=1)
        await units_of_work.write(save_nested, story.key, NestedRunOrigin("r1", "c1"), run, {})
        message = await page.until(lambda message: message["type"] == "nested")
        assert 'data-of="c1"' in message["html"]
        assert "1 event of agent" in " ".join(message["html"].split())
        run = NestedRun(call_id="c1", agent="helper", started_at=1.0, changed_at=2.0, event_count=2)
        await units_of_work.write(save_nested, story.key, NestedRunOrigin("r1", "c1"), run, {})
        message = await page.until(lambda message: message["type"] == "nested")
        assert "2 events of agent" in " ".join(message["html"].split())
