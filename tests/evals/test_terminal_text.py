"""Lines of `run_evals` fit the terminal's width and encoding, and survive a closed reader."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from evals_app.cli.terminal import Console
from evals_app.cli.terminal_text import LineWriter, pad_to_columns, shorten, truncate_to_columns
from evals_app.models import EvalAttempt, EvalRun
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import EXAMPLE_AGENTS, run_evals


class Terminal(io.StringIO):
    """A terminal that remembers what was written."""

    def isatty(self):
        return True


class Left(io.StringIO):
    """A pipe whose reader leaves after the first lines."""

    def __init__(self, lines, refusal):
        super().__init__()
        self.lines, self.refusal = lines, refusal

    def flush(self):
        self.lines -= 1
        if self.lines < 0:
            raise self.refusal


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "iso-8859-1"])
def test_encoding_without_symbols_gets_ascii_ones(store, encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    code, _ = run_evals(EXAMPLE_AGENTS / "weather", "lookups:one_city", out=stream)
    stream.seek(0)
    output = stream.read()
    assert code == 0
    assert "response_match_score 1 >= 0.8" in output


def test_unencodable_characters_are_escaped():
    output = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    LineWriter(output).line("é 東")
    output.seek(0)
    assert output.read() == "é \\u6771\n"


@pytest.mark.parametrize(
    "refusal", [BrokenPipeError(), OSError(9, "Bad file descriptor"), ValueError("closed")]
)
def test_run_continues_after_its_output_is_closed(store, tmp_path, refusal):
    code, _ = run_evals(
        EXAMPLE_AGENTS / "weather", "lookups", f"--json={tmp_path}/r.json", out=Left(3, refusal)
    )
    run = EvalRun.objects.get()
    assert (code, run.status, run.passed) == (0, "done", 7)
    assert (tmp_path / "r.json").is_file()


def test_buffered_output_is_dropped_after_its_reader_is_gone():
    read, wrote = os.pipe()
    os.close(read)
    with os.fdopen(wrote, "w") as pipe:
        LineWriter(pipe).line("nobody hears it")


def test_progress_line_is_cut_by_the_width_of_ideographs(monkeypatch):
    monkeypatch.setenv("COLUMNS", "11")
    terminal = Terminal()
    LineWriter(terminal).status("東京の天気 weather")
    assert terminal.getvalue() == "\r\x1b[2K東京の天気"


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [("abc", 2, "ab"), ("東京", 3, "東"), ("e\u0301x", 1, "e\u0301"), ("", 4, ""), ("東京", 4, "東京")],
)
def test_a_text_fits_into_columns(text, columns, cut):
    assert truncate_to_columns(text, columns) == cut


def test_names_are_padded_by_terminal_columns():
    assert pad_to_columns("東京", 6) == "東京  "


def test_too_long_names_are_cut():
    assert shorten("a" * 50 + "b" * 50, 10) == "aaaaaa…bbb"
    assert shorten("short", 10) == "short"


def test_long_ids_and_errors_make_no_endless_lines(store, echo, tmp_path):
    (echo / "agent.py").write_text(
        (echo / "agent.py").read_text().replace("ANSWERS.get(said, said)", "{}['k' * 9000]")
    )
    write(echo, "s.evalset.json", evalset(case("x" * 3200 + "end", turn("a", "a"))))
    code, output = run_evals(echo, "s")
    assert code == 1
    assert max(map(len, output.splitlines())) < 800
    assert "xxend " in output
    assert EvalRun.objects.get().attempts.get().error.count("k") >= 9000


@pytest.mark.parametrize(
    ("folder", "argument"), [("-rf", "./-rf"), ("my agents/one", "'my agents/one'"), ("one", "one")]
)
def test_resume_command_names_agent_folder_as_a_shell_takes_it(store, folder, argument):
    run_evals(EXAMPLE_AGENTS / "weather", "lookups:one_city")
    run = EvalRun.objects.get()
    run.status = EvalRun.Status.CANCELLED
    output = io.StringIO()

    Console(output).write_interruption(Path(folder), [run])

    assert f"run_evals {argument} --resume {run.id}" in output.getvalue()


def test_first_wait_for_a_model_is_a_line_where_output_is_no_terminal():
    out = io.StringIO()
    console = Console(out)
    for pk, reason in (
        (1, "m could not be asked: 429."),
        (2, "m could not be asked: 503."),
        (1, ""),
        (2, ""),
    ):
        console.attempt(EvalAttempt(pk=pk, case_id=f"case-{pk}", waits_for=reason), None)
    console.attempt(EvalAttempt(pk=2, case_id="case-2", waits_for="m could not be asked: 504."), None)
    assert [line.split(maxsplit=1)[1] for line in out.getvalue().splitlines()] == [
        "case-1: m could not be asked: 429.",
        "case-2: m could not be asked: 504.",
    ]
