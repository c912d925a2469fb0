"""The file with the newest output of an app's processes, and its rotation."""

from __future__ import annotations

import asyncio
import sys

import pytest

from devui.supervisor.output import OutputFile, ProcessOutput
from sessions_app.agent_processes.process_output import older_file, output_file, read_output


def test_output_file_is_rotated_and_counts_dropped_bytes(tmp_path):
    file = OutputFile(tmp_path / "output" / "talker.log", max_bytes=1_000)
    for number in range(100):
        file.append(f"{number:099}\n".encode())

    texts = {path.name: path.read_text() for path in (tmp_path / "output").iterdir()}

    assert set(texts) == {"talker.log", "talker.log.1"}
    assert all(len(text) <= 1_200 for text in texts.values())
    newest = [line for line in (texts["talker.log.1"] + texts["talker.log"]).splitlines() if line[0] != "["]
    assert [int(line) for line in newest] == list(range(100 - len(newest), 100))
    assert "before talker.log.1 were dropped." in texts["talker.log"].splitlines()[0]
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


async def read_all(reading: ProcessOutput, program: str) -> None:
    """Let a program print, to its end."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=reading.fd)
    reading.read()
    await process.wait()
    await reading.finish()


async def test_output_is_shown_when_its_file_cannot_be_written(tmp_path):
    (tmp_path / "output").touch()
    lines: list[str] = []

    await read_all(
        ProcessOutput("talker", lambda app, line: lines.append(f"{app} | {line}"), tmp_path / "output"),
        "print(1)",
    )

    assert lines == ["talker | 1"]


async def test_control_characters_do_not_reach_the_terminal(tmp_path):
    lines: list[str] = []
    program = r"print('\x1b]0;title\x07', 'a\rb', '\x1b[31mred\x1b[0m', '\u202e', sep='\t')"

    await read_all(ProcessOutput("talker", lambda app, line: lines.append(line), tmp_path), program)

    assert lines == [r"\u001b]0;title\u0007" "\t" r"a\rb" "\t" r"\u001b[31mred\u001b[0m" "\t" r"\u202e"]


async def test_newest_lines_are_known_even_if_not_shown(tmp_path):
    lines: list[str] = []
    reading = ProcessOutput("talker", lambda app, line: lines.append(line), tmp_path)

    await read_all(reading, "for n in range(200_000): print(f'{n:099}')")

    assert reading.last_lines == [f"{n:099}" for n in range(199_960, 200_000)]
    assert f"The newest output is in {tmp_path / 'talker.log'}." in lines[-2]
    assert "19.0 MB of output" in lines[-1]
    assert (tmp_path / "talker.log").read_text().endswith(f"{199_999:099}\n")


def test_output_of_a_period_is_read_without_credentials(tmp_path, settings):
    settings.DATA_DIR = tmp_path
    now = [1_000.0]
    file = OutputFile(output_file(tmp_path / "output", "talker"), max_bytes=120, clock=lambda: now[0])
    for at, text in [
        (1_000, "before\n"),
        (1_010, "during, "),
        (1_011, "key=sk-abcdefghijklmnop\n"),
        (1_020, "after\n"),
    ]:
        now[0] = at
        file.append(text.encode())

    assert older_file(file.path).is_file()  # the period lies in both files
    assert read_output("talker", 1_009.5, 1_012) == "during, key=[redacted]\n"
    assert read_output("talker", 1_013, 1_014) == ""
    assert read_output("talker", 1_000, 1_030) == "before\nduring, key=[redacted]\nafter\n"


@pytest.mark.parametrize("app_name", ["nobody", "../output/talker", "/etc/passwd"])
def test_output_of_an_unknown_app_is_not_read(tmp_path, settings, app_name):
    settings.DATA_DIR = tmp_path
    OutputFile(output_file(tmp_path / "output", "talker")).append(b"hello\n")

    assert read_output(app_name, 0, 2e9) is None
    assert read_output("talker", 0, 2e9) == "hello\n"
