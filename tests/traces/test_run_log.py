"""Log records and printed text of a run, stored by the recorder."""

from __future__ import annotations

import asyncio
import io
import logging
import resource
import sys
import threading
import time
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin

from sessions_app.adk import Recorder, run_log
from sessions_app.adk.invocation_log import LOGS_MOST, InvocationLog, InvocationLogs
from sessions_app.adk.run_log import RunLog
from sessions_app.store.database import units_of_work
from sessions_app.store.models import LogRecord
from sessions_app.store.session_key import SessionKey
from sessions_app.store.traces import log_records, outbox
from tests.fake_models import ScriptedModel, call
from tests.patience import PATIENCE_S
from tests.sessions.build import APP, USER

log = logging.getLogger("shop.stock")


async def stored() -> list[LogRecord]:
    await outbox.outbox().wait_written()
    rows = LogRecord.objects.exclude(logger__startswith="google_adk").order_by("pk")
    return await units_of_work.read(lambda: list(rows))


def agent_with(tool: Any, *, name: str = "ann") -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel.saying(call(tool.__name__), "done"), tools=[tool])


def look() -> str:
    """Look into the stock."""
    print("two", "items")
    print("no such item", file=sys.stderr)
    log.warning("stock of %s is low", "tea")
    return "2"


async def test_log_records_and_printed_lines_are_stored_with_their_tool(ask):
    events = await ask(agent_with(look))
    rows = await stored()
    assert [(row.source, row.level, row.logger, row.message) for row in rows] == [
        ("stdout", logging.INFO, "", "two items"),
        ("stderr", logging.WARNING, "", "no such item"),
        ("log", logging.WARNING, "shop.stock", "stock of tea is low"),
    ]
    [function_call] = events[0].get_function_calls()
    for row in rows:
        assert (row.agent, row.tool, row.call_id) == ("ann", "look", function_call.id)
        assert row.after_event_id == events[0].id


async def test_everything_is_still_printed(ask, capsys):
    await ask(agent_with(look))
    assert "two items\n" in capsys.readouterr().out


async def test_record_that_a_handler_prints_is_stored_once(ask):
    handler = logging.StreamHandler(sys.stderr)
    log.addHandler(handler)
    try:
        await ask(agent_with(look))
    finally:
        log.removeHandler(handler)
    assert [row.message for row in await stored()].count("stock of tea is low") == 1


async def test_text_after_the_last_tool_names_no_tool(ask):
    def say_goodbye(**_: Any) -> None:
        print("goodbye")

    agent = agent_with(look)
    agent.after_agent_callback = say_goodbye
    await ask(agent)
    last = (await stored())[-1]
    assert (last.message, last.agent, last.tool) == ("goodbye", "ann", "")


async def test_credentials_are_removed(ask):
    def leak() -> str:
        """Print a key."""
        print("token=sk-abcdefghijklmnopqrstuvwxyz0123456789")
        return ""

    await ask(agent_with(leak))
    [row] = await stored()
    assert "sk-abc" not in row.message


async def test_flood_is_bounded_and_the_note_counts_what_was_dropped(ask):
    def flood() -> str:
        """Print much."""
        for number in range(run_log.MAX_RECORDS + 950):
            print("line", number)
        return ""

    await ask(agent_with(flood))
    rows = await stored()
    assert len(rows) == run_log.MAX_RECORDS + 1
    assert rows[-1].message.startswith("950 further records were dropped")


async def test_long_line_and_odd_characters_are_stored(ask):
    def shout() -> str:
        """Print a long line and characters that no column can hold."""
        print("a" * (run_log.MAX_MESSAGE + 5))
        print("nul \0 and half \ud800")
        return ""

    await ask(agent_with(shout))
    lines = [row.message for row in await stored()]
    assert [len(line) for line in lines[:2]] == [run_log.MAX_MESSAGE, 5]
    assert lines[2].startswith("nul ")


async def test_credential_at_the_cut_of_a_long_message_is_removed_whole(ask):
    key = "sk-" + "k" * 60

    def leak() -> str:
        """Log, print a line, and print without end of line."""
        before = "x " * (run_log.MAX_MESSAGE // 2 - 10)
        log.error("%s%s %s", before, key, "y " * run_log.MAX_MESSAGE)
        print(before + key + " end")
        print("x " * 2000, end="")
        print(before + key, end="")
        print(key, end="\n")
        return ""

    await ask(agent_with(leak))
    messages = [row.message for row in await stored()]
    assert all(len(message) <= run_log.MAX_MESSAGE for message in messages)
    assert not any("kkk" in message for message in messages)
    assert "[redacted] end" in "".join(messages)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("WARNING: no price", logging.WARNING),
        ("ERROR:root:no price", logging.ERROR),
        ("2026-11-24 13:53:20.123 | ERROR    | shop:price:1 - no price", logging.ERROR),
        ("[2026-11-24T13:53:20Z] WARN no price", logging.WARNING),
        ("Traceback (most recent call last):", logging.ERROR),
        ("ERRORS were counted", logging.INFO),
        ("no ERROR", logging.INFO),
    ],
)
async def test_printed_line_has_the_level_that_it_states(ask, line, level):
    def tell() -> str:
        """Print a line."""
        print(line)
        return ""

    await ask(agent_with(tell))
    assert [(row.source, row.level) for row in await stored()] == [("stdout", level)]


async def test_exception_of_a_tool_is_logged_with_its_traceback_if_a_plugin_catches_it(ask):
    def fail() -> str:
        """Raise."""
        raise KeyError("calendar_id")

    await ask(agent_with(fail), plugins=[Recorder(), ReflectAndRetryToolPlugin()])
    [row] = [row for row in await stored() if row.logger == run_log.OWN_LOGGER]
    assert row.message.startswith("fail raised KeyError: 'calendar_id'\nTraceback (most recent call last):")
    assert 'raise KeyError("calendar_id")' in row.message
    assert (row.level, row.tool) == (logging.ERROR, "fail")


async def test_record_that_cannot_be_formatted_is_stored_as_far_as_possible(ask, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's handler would raise

    def confuse() -> str:
        """Log with arguments that do not fit."""
        log.error("%d items", "many")
        return ""

    await ask(agent_with(confuse))
    assert (await stored())[0].message == "%d items (cannot be formatted: TypeError)"


async def test_thread_that_prints_after_its_run_belongs_to_it(ask):
    may_print = threading.Event()
    threads: list[Any] = []

    def start() -> str:
        """Start work that ends later."""

        def work() -> None:
            may_print.wait(PATIENCE_S)
            print("late")

        threads.append(asyncio.get_running_loop().create_task(asyncio.to_thread(work)))
        return ""

    await ask(agent_with(start))
    may_print.set()
    await asyncio.gather(*threads)
    assert [row.message for row in await stored()] == ["late"]


async def test_thread_without_context_belongs_to_the_only_active_run(ask):
    def start() -> str:
        """Print in a thread."""
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        thread.join()
        return ""

    await ask(agent_with(start))
    assert [row.message for row in await stored()] == ["from a thread"]


async def test_text_between_runs_belongs_to_none(ask):
    await ask(agent_with(look))
    print("nobody's")
    log.error("nobody's")
    assert len(await stored()) == 3


async def test_recorder_can_leave_logs_out(ask):
    await ask(agent_with(look), plugins=[Recorder(keep_logs=False)])
    assert await stored() == []


async def test_session_that_is_gone_takes_no_records(ask, ours):
    await ask(agent_with(look))
    key = SessionKey("", APP, USER, "s1")
    late = log_records.NewLogRecord("i1", "r1", 1, 1.0, 20, "log", "late")
    await ours.delete_session(app_name=APP, user_id=USER, session_id="s1")
    assert await stored() == []
    await units_of_work.read(lambda: log_records.save_log_records(key, [late]))
    assert await stored() == []


@pytest.mark.parametrize(("level", "name"), [(5, "debug"), (20, "info"), (35, "warning"), (99, "critical")])
def test_level_has_the_name_that_it_reaches(level, name):
    assert log_records.level_name(level) == name


async def test_thread_without_context_belongs_to_no_run_while_several_are_active(ask):
    other = RunLog(SessionKey("", APP, USER, "s2"), "i2", time.time)

    def start() -> str:
        """Print in a thread."""
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        thread.join()
        print("from the tool")
        return ""

    try:
        await ask(agent_with(start))
    finally:
        other.close()
    assert [row.message for row in await stored()] == ["from the tool"]


async def test_more_records_than_a_transaction_takes_are_all_stored_in_order(ask):
    def flood() -> str:
        """Print more lines than one transaction takes."""
        for number in range(2 * log_records.MAX_WRITTEN + 1):
            print(number)
        return ""

    await ask(agent_with(flood))
    assert [row.message for row in await stored()] == [str(n) for n in range(2 * log_records.MAX_WRITTEN + 1)]


async def test_run_that_never_ends_is_not_active_for_ever(ours):
    logs = InvocationLogs()
    first = RunLog(SessionKey("", APP, USER, "s1"), "i0", time.time)
    log = InvocationLog(SessionKey("", APP, USER, "s1"), "i0", "ann", keep_logs=False)
    log.run_log = first
    logs._add_log("i0", log)
    for number in range(1, LOGS_MOST + 1):
        logs._add_log(
            f"i{number}", InvocationLog(SessionKey("", APP, USER, "s1"), f"i{number}", "ann", keep_logs=False)
        )
    assert first not in run_log._active


class Sink(io.TextIOBase):
    """A terminal that shows nothing."""

    def write(self, text: str) -> int:
        return len(text)


@pytest.mark.soak
async def test_gigabyte_that_a_tool_prints_is_bounded(ask, monkeypatch):
    line, count = "x" * 999, 1_000_000

    def flood() -> str:
        """Print 1 GB."""
        for _ in range(count):
            print(line)
        return ""

    monkeypatch.setattr(sys, "stdout", Sink())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await ask(agent_with(flood))
    rows = await stored()
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 50_000
    assert sum(len(row.message) for row in rows) < run_log.MAX_CHARS + run_log.MAX_MESSAGE
    assert rows[-1].message.startswith(f"{count - len(rows) + 1:,} further records were dropped")


async def test_thread_that_prints_after_its_run_and_without_its_context_belongs_to_none(ask):
    may_print = threading.Event()
    threads: list[threading.Thread] = []

    def start() -> str:
        """Start a thread that prints later."""

        def work() -> None:
            may_print.wait(PATIENCE_S)
            print("late")
            log.error("late")

        threads.append(threading.Thread(target=work))
        threads[0].start()
        return ""

    await ask(agent_with(start))
    may_print.set()
    threads[0].join()
    assert await stored() == []
