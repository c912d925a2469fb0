"""Error details of agents that cannot be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devui.runtime.agent_loading import AgentSource, describe_failure
from sessions_app.errors import AgentNotLoaded


def app_of(folder: Path) -> str:
    """Return a name that no other test of the process has imported."""
    return f"app_{folder.name}"


def failure(folder: Path, code: str, name: str = "agent.py") -> dict[str, Any]:
    """Return what is told of an agent with this code."""
    app = app_of(folder)
    (folder / app).mkdir()
    (folder / app / name).write_text(code)
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - whatever a module raises
        AgentSource(str(folder), app).load()
    return describe_failure(raised.value, folder)


def test_code_around_the_failing_line_is_shown(tmp_path: Path):
    told = failure(tmp_path, "".join(f"x{n} = {n}\n" for n in range(1, 10)) + "raise ValueError('no')\n")
    assert (told["line"], told["file"]) == (10, str(tmp_path / app_of(tmp_path) / "agent.py"))
    assert [line["number"] for line in told["source"]] == [5, 6, 7, 8, 9, 10]
    assert told["source"][-1]["text"] == "raise ValueError('no')"


def test_syntax_error_has_its_line(tmp_path: Path):
    told = failure(tmp_path, "x = 1\ndef (\n")
    assert (told["type"], told["line"]) == ("SyntaxError", 2)
    assert told["source"] == [{"number": 1, "text": "x = 1"}, {"number": 2, "text": "def ("}]


def test_yaml_error_has_its_line(tmp_path: Path):
    told = failure(tmp_path, "name: x\nmodel: [\n", "root_agent.yaml")
    assert told["file"] == str(tmp_path / app_of(tmp_path) / "root_agent.yaml")
    assert told["source"][0] == {"number": 1, "text": "name: x"}


def test_files_outside_the_agents_folder_are_not_read(tmp_path: Path):
    error = SyntaxError("no")
    error.filename, error.lineno = __file__, 3
    assert describe_failure(error, tmp_path)["source"] == []


def test_lines_without_end_are_cut(tmp_path: Path):
    told = failure(tmp_path, f"x = '{'y' * 5000}'\nraise ValueError\n")
    assert max(len(line["text"]) for line in told["source"]) == 300


def test_exception_text_of_a_module_is_sendable(tmp_path: Path):
    told = failure(tmp_path, "raise ValueError('half \\ud83d')\n")
    assert told["message"].encode().decode() == "half \ufffd"
    assert "half \ufffd" in told["traceback"].encode().decode()


def test_error_without_message_is_named_by_its_type(tmp_path: Path):
    code = "class Mute(Exception):\n    def __str__(self):\n        raise KeyError\nraise Mute\n"
    assert failure(tmp_path, code)["message"] == "Mute"


@pytest.mark.parametrize(
    "code", ["raise KeyboardInterrupt", "raise BaseException('odd')", "import sys; sys.exit(3)"]
)
def test_request_after_a_base_exception_in_a_module_is_refused(tmp_path: Path, code: str):
    app = app_of(tmp_path)
    (tmp_path / app).mkdir()
    (tmp_path / app / "agent.py").write_text(code)
    source = AgentSource(str(tmp_path), app)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever a module raises
        source.load_first()
    with pytest.raises(AgentNotLoaded, match="could not be loaded"):
        source.loader.load_agent(app)
