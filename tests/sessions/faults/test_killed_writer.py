"""A writer killed at any moment: acknowledged events are stored, and nothing is stored partially."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from sessions_app.store.models import Event
from tests import forked_processes
from tests.sessions.faults.store_integrity import assert_intact
from tests.store import store_url

ROOT = Path(__file__).resolve().parents[3]


class Writers:
    """The warm process that forks writers (`writer.py`), and what all of them said they have stored."""

    def __init__(self) -> None:
        self.acks: list[tuple[str, str]] = []
        self._process = forked_processes.Popen(
            [sys.executable, "-m", "tests.sessions.faults.writer"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": store_url()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._until("ready") == "ready"

    def kill_one(self, chance: random.Random) -> None:
        """Start a writer, let it append for a while, and kill it."""
        self._tell("write")
        pid = int(self._until("pid").split()[1])
        expected = len(self.acks) + chance.randint(0, 40)
        while len(self.acks) < expected:
            self._until("ack")
        time.sleep(chance.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        self._tell(f"reap {pid}")
        self._until("gone")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def _until(self, word: str) -> str:
        """Return the next line that starts with a word, noting what is acknowledged before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            first, *rest = line.split()
            if first == "ack":
                self.acks.append((rest[0], rest[1]))
            if first == word:
                return line.strip()
        raise AssertionError(f"The process that forks writers ended before it said {word!r}.")


@pytest.fixture
def writers(store: None) -> Iterator[Writers]:
    started = Writers()
    yield started
    started.close()


def kill(writers: Writers, times: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(times):
        writers.kill_one(chance)
    if connection.vendor == "postgresql":
        _wait_for_their_backends()
    stored = Counter(Event.objects.values_list("session__session_id", "event_id"))
    assert writers.acks, "nothing was acknowledged: the test tested nothing"
    assert [ack for ack in writers.acks if stored[ack] != 1] == []
    assert_intact()


def _wait_for_their_backends() -> None:
    """Wait until PostgreSQL has noticed that its clients are gone, and has ended what they had begun."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    for _ in range(200):
        with connection.cursor() as cursor:
            cursor.execute(others)
            if cursor.fetchone()[0] == 0:
                return
        time.sleep(0.05)


def test_writer_killed_ten_times_loses_no_confirmed_event(writers):
    kill(writers, 10)


@pytest.mark.soak
def test_writer_killed_two_hundred_times_loses_no_confirmed_event(writers):
    kill(writers, 200)
