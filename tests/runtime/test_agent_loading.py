"""Error details of agents that cannot be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devui.runtime.agent_loading import AgentCode, describe_failure
from evals_app.execution._adk import load_agent
from sessions_app.store.errors import AgentNotLoaded


def app_of(folder: Path) -> str:
    """Return a name that no other test of the process has imported."""
    return f"app_{folder.name}"


def failure(folder: Path, code: str, name: str = "agent.py") -> dict[str, Any]:
    """Return what is told of an agent with this code."""
    app = app_of(folder)
    (folder / app).mkdir()
    (folder / app / name).write_text(code)
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - whatever a module raises
        AgentCode(str(folder), app).load()
    return describe_failure(raised.value, folder)


def test_failing_line_of_the_agent_is_named(tmp_path: Path):
    error = failure(tmp_path, "x = 1\nraise ValueError('no')\n")
    assert (error["line"], error["file"]) == (2, str(tmp_path / app_of(tmp_path) / "agent.py"))
    assert "raise ValueError('no')" in error["traceback"]


def test_syntax_error_has_its_line(tmp_path: Path):
    error = failure(tmp_path, "x = 1\ndef (\n")
    assert (error["type"], error["line"]) == ("SyntaxError", 2)
    assert "def (" in error["traceback"]


def test_yaml_error_has_its_line(tmp_path: Path):
    error = failure(tmp_path, "name: x\nmodel: [\n", "root_agent.yaml")
    assert error["file"] == str(tmp_path / app_of(tmp_path) / "root_agent.yaml")


def test_exception_text_of_a_module_is_sendable(tmp_path: Path):
    error = failure(tmp_path, "raise ValueError('half \\ud83d')\n")
    assert error["message"].encode().decode() == "half \ufffd"
    assert "half \ufffd" in error["traceback"].encode().decode()


def name_failure(folder: Path, name: str, *, files: dict[str, str]) -> str:
    """Return why an agent folder of this name cannot be loaded, as its page and an eval run tell it."""
    for file, code in files.items():
        (folder / name / file).parent.mkdir(exist_ok=True)
        (folder / name / file).write_text(code)
    with pytest.raises(ValueError, match="Rename the folder") as raised:
        AgentCode(str(folder), name).load()
    with pytest.raises(ValueError, match="Rename the folder") as raised_in_eval:
        load_agent(folder, name)
    assert str(raised_in_eval.value) == str(raised.value)
    return str(describe_failure(raised.value, folder)["message"])


@pytest.mark.parametrize("name", ["json", "test", "logging", "time", "yaml", "django", "concurrent"])
def test_folder_named_like_another_module_is_told_to_be_renamed(tmp_path: Path, name: str):
    message = name_failure(tmp_path, name, files={"agent.py": "root_agent = None"})
    assert f"Python has another module {name!r}" in message


@pytest.mark.parametrize("name", ["weather.bak", "bot_v1.2", "a.b.c"])
def test_folder_with_a_dot_in_its_name_is_told_to_be_renamed(tmp_path: Path, name: str):
    message = name_failure(tmp_path, name, files={"agent.py": "root_agent = None"})
    assert "has a dot, which separates folders" in message


def test_module_of_a_folder_that_has_no_agent_is_not_blamed_on_its_name(tmp_path: Path):
    assert "No root_agent found" in failure(tmp_path, "x = 1")["message"]


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
    source = AgentCode(str(tmp_path), app)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever a module raises
        source.load_first()
    with pytest.raises(AgentNotLoaded, match="could not be loaded"):
        source.loader.load_agent(app)
