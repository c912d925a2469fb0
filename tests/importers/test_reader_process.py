"""Readers of what others made run in a child with limits of memory and time; what ends it ends nothing else."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, Event
from sessions_app.transfer.readers import databases, pickles, reader_process
from sessions_app.transfer.readers.reader_process import ReaderProcess, ReadingFailed
from sessions_app.transfer.writers import import_location
from tests.importers import stores
from tests.importers.stores import copy_of, execute
from tests.plugin_packages import InstallPlugin

Read = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReaderProcess, "max_memory", 400 * 1024 * 1024)


@pytest.fixture
def read() -> Read:
    """Return a function that calls a hostile reader in a child of its own."""

    def read(reader: str, *arguments: str) -> list[Any]:
        with closing(child(reader)) as process:
            return list(process.read(*arguments))

    return read


def child(reader: str) -> ReaderProcess:
    return ReaderProcess(f"tests.importers.hostile_readers:{reader}")


def test_values_arrive_and_prints_do_not(read):
    assert read("echo", "a\n", "\ud800", "é") == ["a\n", "\ud800", "é"]


def test_one_child_serves_all_calls():
    with closing(child("echo")) as process:
        pids = {list(process.read("a")) and process._process and process._process.pid for _ in range(3)}
    assert len(pids) == 1


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (["grow"], "it needs more than 400 MB of memory"),
        (["crash"], "it ended the process that read it (Segmentation fault)"),
        (["leave"], "SystemExit: 3"),
        (["fail"], "it is torn"),
        (["answer_with_many_values", "6000000"], "it has more than 5,000,000 values"),
    ],
    ids=lambda call: call[0] if isinstance(call, list) else "",
)
def test_reader_that_would_end_or_fill_the_server_ends_only_its_child(read, call, reason):
    with pytest.raises(ReadingFailed) as failed:
        read(*call)
    assert str(failed.value) == reason


def test_reader_that_never_ends_is_ended(read, monkeypatch):
    monkeypatch.setattr(ReaderProcess, "max_cpu_s", 0.5)
    with pytest.raises(ReadingFailed, match=r"more than 0\.5 s of processor time"):
        read("loop")


def test_child_watches_its_memory_where_the_system_has_no_limit(read, monkeypatch):
    monkeypatch.setattr(ReaderProcess, "max_memory", 10**13)
    with pytest.raises(ReadingFailed, match="of memory"):
        read("grow_watched", "200000000")


def test_answer_that_would_fill_the_server_is_cut_off(read, monkeypatch):
    monkeypatch.setattr(reader_process, "MAX_ANSWER_BYTES", 50_000)
    assert len(read("answer_at_length", "40")) == 40
    with pytest.raises(ReadingFailed, match="its values have more than"):
        read("answer_at_length", "1000000")


def test_refusal_keeps_its_hint(read):
    with pytest.raises(BadInput) as refused:
        read("refuse")
    assert (refused.value.message, refused.value.hint) == ("It is no chat.", "Send a chat.")


def test_next_call_has_a_new_child_until_too_many_have_died(monkeypatch):
    monkeypatch.setattr(reader_process, "MAX_DEATHS", 2)
    with closing(child("crash")) as process:
        for _ in range(2):
            with pytest.raises(ReadingFailed, match="Segmentation fault"):
                list(process.read())
        with pytest.raises(ReadingFailed, match="not read, because 2 others"):
            list(process.read())


def test_answer_that_is_not_read_to_its_end_ends_the_child():
    process = child("answer_at_length")
    values = process.read("1000000")
    next(values)
    values.close()
    assert list(process.read("1")) == ["x" * 1_000]
    assert process._process
    pid = process._process.pid
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.fixture
def reader() -> Any:
    with closing(pickles.PickleReader()) as reader:
        yield reader


def test_values_of_pickles_keep_their_types(reader):
    values = {
        "bytes": b"\x00\xff",
        "date": date(2026, 1, 2),
        "datetime": datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
        "local": datetime(2026, 1, 2),
        "time": time(3, 4, 5),
        "timedelta": timedelta(-1, 2, 3),
        "decimal": Decimal("1.10"),
        "complex": 1 - 2j,
        "infinity": float("inf"),
        "surrogate": "\ud800",
        "nul": {"\x00": "\x00"},
        "tagged": {pickles.TAG: ["Decimal"]},
        "long": 2**20_000,
    }

    assert reader.read(pickle.dumps(values)) == {**values, "long": hex(2**20_000)}


def test_object_that_looks_like_a_tag_fails_alone(reader):
    with pytest.raises(ReadingFailed):
        reader.read(pickle.dumps({pickles.TAG: ["Decimal", "no number"]}))
    assert reader.read(pickle.dumps([1])) == [1]


COPIES = b"\x80\x02(" + b"N" * 100_000 + b"tq\x00" + b"cbuiltins\nlist\nh\x00\x85R" * 1_000 + b"."
"""1,000 copies of a list of 100,000."""

LONG_TEXT = pickle.dumps(["x" * 1_000_000] * 20_000)
"""A text of 1 MB 20,000 times."""


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (stores.DEEP_TUPLE, "Segmentation fault"),
        (COPIES, "more than 400 MB of memory"),
        (LONG_TEXT, "too large"),
    ],
    ids=["deep tuple", "copies", "long text"],
)
def test_hostile_pickle_is_named_with_its_session_and_harms_no_other(store, tmp_path, blob, reason):
    file = copy_of(stores.V0, tmp_path)
    execute(file, "UPDATE events SET actions = ? WHERE id = 'e1-3'", (blob,))

    report = import_location(str(file))

    assert (report.created, report.events) == (3, 9)
    [line] = report.unread
    assert line.startswith("event e1-3 of weather/ann/s1: actions: ")
    assert reason in line
    assert reason in Event.objects.get(event_id="e1-3").data


def test_command_names_the_session_of_a_hostile_pickle(store, tmp_path, capsys):
    file = copy_of(stores.V0, tmp_path)
    execute(file, "UPDATE events SET actions = ? WHERE id = 'e1-3'", (stores.DEEP_TUPLE,))

    with pytest.raises((SystemExit, CommandError)):
        call_command("import_sessions", str(file))

    assert "e1-3 of weather/ann/s1: actions: it ended the process that read it" in capsys.readouterr().out


def test_value_that_an_sqlite_file_computes_is_limited(store, tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "MAX_VALUE_BYTES", 1_000_000)
    file = copy_of(stores.V0, tmp_path)
    execute(file, "ALTER TABLE events ADD COLUMN bomb TEXT AS (hex(zeroblob(1000000))) VIRTUAL")

    report = import_location(str(file))

    assert "string or blob too big" in "".join(report.unread)
    assert not Event.objects.exists()


PLUGIN = """
from sessions_app.transfer.readers.importer import Importer

class Bomb(Importer):
    def matches_file(self, path, head):
        return head.startswith(b"BOMB")

    def read_sessions(self, path):
        texts = []
        while True:
            texts.append("x" * 10_000_000)

BOMB = Bomb(name="bombs")
"""


def test_importer_of_a_package_that_needs_all_memory_is_refused(
    store, tmp_path, install_plugin: InstallPlugin
):
    install_plugin("devui.importers", "bomb_importers", PLUGIN)
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.bomb").write_text("BOMB")

    with pytest.raises(BadInput, match="'bombs' failed: it needs more than 400 MB of memory"):
        import_location(str(folder / "a.bomb"))
    assert not AgentSession.objects.exists()
