"""Output of child processes: all of it is read, at most the limit is passed on, omissions are reported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sessions_app.agent_processes import process_output
from sessions_app.agent_processes.process_output import OutputLimit, OutputReader


class Shown:
    """Collects what a limit passes on."""

    def __init__(self) -> None:
        self.data = b""

    def __call__(self, data: bytes) -> None:
        self.data += data

    @property
    def lines(self) -> list[str]:
        return self.data.decode(errors="replace").splitlines()


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """A clock of one entry, which the test sets."""
    now = [1000.0]
    monkeypatch.setattr(process_output.time, "monotonic", lambda: now[0])
    return now


def test_output_below_the_limit_passes_as_it_is():
    shown_output = Shown()
    limit = OutputLimit(shown_output, limit=10)
    limit.take(b"one\n")
    limit.take(b"\xff\x00")
    limit.take(b"on\n")
    limit.end()
    assert shown_output.data == b"one\n\xff\x00on\n"


def test_output_above_the_limit_is_cut_at_a_line_and_counted():
    shown_output = Shown()
    limit = OutputLimit(shown_output, "The newest is elsewhere.", limit=10)
    limit.take(b"one\ntwo\nthree\n")
    limit.take(b"four\n")
    limit.end()
    assert shown_output.lines == [
        "one",
        "two",
        "[DevUI] Output is limited to 0.0 MB in 10 minutes. The newest is elsewhere.",
        "[DevUI] 0.0 MB of output, 2 lines, were not shown.",
    ]


def test_line_without_end_is_cut_and_the_note_begins_a_line():
    shown_output = Shown()
    limit = OutputLimit(shown_output, limit=10)
    limit.take(b"x" * 1000)
    limit.end()
    assert shown_output.lines[0] == "x" * 10
    assert shown_output.lines[1].startswith("[DevUI] Output is limited")
    assert shown_output.data.endswith(b"were not shown.\n")


def test_next_window_passes_output_on_again_after_the_count(clock):
    shown_output = Shown()
    limit = OutputLimit(shown_output, limit=10)
    limit.take(b"12345678\nnot shown\n")
    clock[0] += process_output.WINDOW_S - 1
    limit.take(b"nor this\n")
    clock[0] += 2
    limit.take(b"again\n")
    assert shown_output.lines[0] == "12345678"
    assert shown_output.lines[2:] == ["[DevUI] 0.0 MB of output, 2 lines, were not shown.", "again"]


def test_unfinished_last_line_is_ended():
    shown_output = Shown()
    limit = OutputLimit(shown_output, limit=10)
    limit.take(b"no end")
    limit.end()
    assert shown_output.data == b"no end\n"


PRINTS = """
import os, sys
for fd in (1, 2):
    for n in range(100):
        os.write(fd, b"%099d\\n" % n * 1000)
os.write(1, b"\\xff" * 1_000_000)
print("last words")
"""


def read_all(reader: OutputReader, program: str) -> int:
    """Let a program print to a reader; return its exit status."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=reader.fd, stderr=reader.fd)
    reader.start()
    code = process.wait()
    reader.finish()
    return code


def test_all_output_of_both_streams_is_read_and_little_is_passed_on():
    shown_output, lines = Shown(), []
    reader = OutputReader(OutputLimit(shown_output, limit=100_000), lines.append)

    assert read_all(reader, PRINTS) == 0

    everything = b"".join(lines)
    assert len(everything) == 2 * 100 * 1000 * 100 + 1_000_000 + len("last words\n")
    assert everything.endswith(b"last words\n")
    assert 100_000 <= len(shown_output.data) < 101_000


def test_process_continues_when_its_output_is_closed():
    def closed(data: bytes) -> None:
        raise BrokenPipeError

    assert read_all(OutputReader(OutputLimit(closed), closed), PRINTS) == 0
