"""A full, locked or read-only store: a clear error, no partial write, and later writes work."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.backends.signals import connection_created
from django.test import Client

from sessions_app.store.database import db_errors, units_of_work
from sessions_app.store.errors import (
    AlreadyExists,
    StoreBusy,
    StoreCorrupt,
    StoreFault,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.sessions.build import append, create, get
from tests.sessions.faults.small_disk import mount_disk
from tests.sessions.faults.store_integrity import assert_intact

sqlite_only = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="a limit of SQLite's")

ROOT = Path(__file__).resolve().parents[3]
BIG = "x" * 50_000


async def on_writer(statement: str) -> None:
    """Run a statement on SQLite's writing connection, as it is used by appends."""
    await units_of_work.write(lambda: connection.cursor().execute(statement).fetchall())


async def fill() -> None:
    """Leave the store with the pages it has, none of them free: what SQLite meets on a full disk."""
    await on_writer("VACUUM")
    await on_writer("PRAGMA max_page_count = 1")


async def make_room() -> None:
    await on_writer("PRAGMA max_page_count = 1000000000")


@sqlite_only
async def test_full_store_refuses_append_and_recovers(ours):
    session = await create(ours)
    await append(session, ours, {"n": 1})
    await fill()
    before = session.model_copy(deep=True)
    with pytest.raises(StoreFull, match="has no space left: database or disk is full") as refusal:
        await append(session, ours, {"n": 2, "user:n": 2, "big": BIG})
    assert "Free space" in refusal.value.hint
    assert session == before
    await make_room()
    await append(session, ours, {"n": 3, "user:n": 3, "big": BIG})
    assert await get(ours) == session
    await units_of_work.read(assert_intact)


@sqlite_only
async def test_group_on_a_full_store_confirms_only_stored_appends(ours):
    """Appends that are committed together: each is in the store if and only if its caller was told so."""
    sessions = [await create(ours, f"s{number}") for number in range(20)]
    await fill()
    sizes = [10, BIG, 10, 10, BIG] * 4
    tries = [
        append(session, ours, {"n": "x" * size if isinstance(size, int) else size})
        for session, size in zip(sessions, sizes, strict=True)
    ]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)} == {StoreFull}
    ids = {outcome.id for outcome in outcomes if not isinstance(outcome, BaseException)}
    assert await units_of_work.read(lambda: set(Event.objects.values_list("event_id", flat=True))) == ids
    await units_of_work.read(assert_intact)


@sqlite_only
async def test_lost_transaction_fails_its_whole_group(store):
    """SQLite may undo the whole transaction when the disk fails; then no job of the group is stored."""

    def lose_transaction() -> None:
        with transaction.atomic():
            AgentSession.objects.count()
            transaction.get_connection().cursor().execute("ROLLBACK")

    def create_session(number: int) -> Any:
        return units_of_work.write(writes.create_session, SessionKey("", "app", "user", f"s{number}"))

    outcomes = await asyncio.gather(
        create_session(1),
        units_of_work.write(lose_transaction),
        create_session(2),
        create_session(3),
        return_exceptions=True,
    )
    stored = await units_of_work.read(lambda: set(AgentSession.objects.values_list("session_id", flat=True)))
    session_ids = {outcome.session_id for outcome in outcomes if isinstance(outcome, AgentSession)}
    assert stored == session_ids


async def test_a_store_that_may_only_be_read_refuses_writes_and_is_still_read(ours):
    session = await create(ours, state={"n": 1})
    before = session.model_copy(deep=True)
    with forbidden_to_write():
        with pytest.raises(StoreReadOnly, match="is read-only") as refusal:
            await append(session, ours, {"n": 2})
        assert "DATABASE_URL" in refusal.value.hint
        with pytest.raises(StoreReadOnly):
            await create(ours, "s2")
        assert await get(ours) == session == before
    await append(session, ours, {"n": 3})
    assert await get(ours) == session


@sqlite_only
async def test_long_foreign_lock_refuses_writes_and_recovers(ours):
    session = await create(ours)
    with held_by_another():
        with pytest.raises(StoreBusy, match="locked by another process: database is locked") as refusal:
            await append(session, ours, {"n": 1})
        assert "Try again" in refusal.value.hint
    await append(session, ours, {"n": 2})
    assert await get(ours) == session


@contextmanager
def held_by_another() -> Iterator[None]:
    """Let another connection write inside the block, and our writes wait for a moment only."""

    def wait_no_longer(sender: object, connection: Any, **kwargs: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 1")

    units_of_work.close_pools()
    connection_created.connect(wait_no_longer)
    try:
        with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
    finally:
        connection_created.disconnect(wait_no_longer)
        units_of_work.close_pools()


@contextmanager
def forbidden_to_write() -> Iterator[None]:
    """Let every connection that is opened inside the block read only."""
    statement = {
        "sqlite": "PRAGMA query_only = ON",
        "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    }[connection.vendor]

    def forbid(sender: object, connection: Any, **kwargs: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    units_of_work.close_pools()
    connection_created.connect(forbid)
    try:
        yield
    finally:
        connection_created.disconnect(forbid)
        units_of_work.close_pools()


def test_api_answers_503_with_hint_on_read_only_store(store, client: Client):
    writes.create_session(SessionKey("", "weather", "ann", "s1"))
    body = {"content_type": "application/json", "data": {"stateDelta": {"n": 1}}}
    with forbidden_to_write():
        answer = client.patch("/apps/weather/users/ann/sessions/s1", **body)
    assert answer.status_code == 503
    assert answer.json()["code"] == "store_read_only"
    assert "DATABASE_URL" in answer.json()["hint"]
    assert client.patch("/apps/weather/users/ann/sessions/s1", **body).status_code == 200


def test_page_reports_read_only_store(store, client: Client):
    connections.close_all()
    with forbidden_to_write():
        answer = client.post("/sessions/new/", {"app": "weather", "user": "ann"})
    connections.close_all()
    assert answer.status_code == 503
    assert "is read-only" in answer.content.decode()


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("53100", StoreFull),
        ("25006", StoreReadOnly),
        ("57P01", StoreUnavailable),
        ("53300", StoreUnavailable),
        ("55P03", StoreBusy),
        ("40P01", StoreBusy),
        ("XX001", StoreCorrupt),
        ("XX002", StoreCorrupt),
    ],
)
@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="PostgreSQL's own words")
async def test_postgresql_disk_errors_are_recognized(store, sqlstate: str, meaning: type[StoreFault]):
    def fail() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no luck' USING ERRCODE = '{sqlstate}'; END $$")

    with pytest.raises(meaning, match="no luck"):
        await units_of_work.write(fail)


async def test_a_refusal_is_no_fault_of_the_store(ours):
    with pytest.raises(AlreadyExists):
        await asyncio.gather(
            *(units_of_work.write(writes.create_session, SessionKey("", "a", "u", "s")) for _ in range(2))
        )


def test_a_fault_never_shows_a_password(settings):
    settings_dict = {**connection.settings_dict, "NAME": "store", "PASSWORD": "hunter2"}
    assert "hunter2" not in db_errors.store_name(settings_dict, "postgresql")
    assert "hunter2" not in db_errors.store_name(settings_dict, "sqlite")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_file_that_finds_no_room_is_a_full_store(number: int):
    with pytest.raises(StoreFull), db_errors.translate_file_errors():
        raise OSError(number, os.strerror(number))


DISK = """
import asyncio, sys
import devui
devui.setup(sys.argv[1])
from google.genai import types
from sessions_app.adk import DjangoArtifactService, DjangoSessionService
from sessions_app.store.errors import StoreFull
from tests.sessions.build import append, create

async def main():
    service, files = DjangoSessionService(), DjangoArtifactService()
    session = await create(service)
    try:
        while True:
            await append(session, service, {"big": "x" * 100_000, "n": len(session.events) + 1})
    except StoreFull:
        print("full", len(session.events), flush=True)
    picture = types.Part.from_bytes(data=b"x" * 3_000_000, mime_type="image/png")
    try:
        await files.save_artifact(app_name="weather", user_id="ann", session_id="s1", filename="a", artifact=picture)
    except StoreFull:
        print("full", flush=True)
    sys.stdin.readline()
    await append(session, service, {"big": "y" * 100_000, "n": len(session.events) + 1})
    found = await service.get_session(app_name="weather", user_id="ann", session_id="s1")
    print("whole" if found == session and found.state["n"] == len(found.events) else "torn", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 6 MB: an empty store and its write-ahead log take about 2."""
    with mount_disk(tmp_path / "disk", 6) as folder:
        yield folder


@sqlite_only
def test_really_full_disk_damages_nothing_and_recovers(small_disk: Path):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 2_000_000)
    command = [sys.executable, "-c", DISK, f"sqlite:///{small_disk}/store.sqlite3"]
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    writer = forked_processes.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    replies = [writer.stdout.readline().split()[0] for _ in range(2)]
    ballast.unlink()
    out, _ = writer.communicate("go on\n", timeout=PATIENCE_S)
    assert (replies, out.strip()) == (["full", "full"], "whole")
