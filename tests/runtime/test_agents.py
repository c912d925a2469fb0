"""The agents folder with ADK's rules."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from google.adk.cli.utils._nested_agent_loader import NestedAgentLoader
from google.adk.cli.utils.agent_loader import AgentLoader

from sessions_app.agents import remotes
from sessions_app.agents.folder import MAX_PROMPT_BYTES, explain_unloadable_name, is_code, open_folder
from sessions_app.store.errors import BadInput, NotFound


def write(root: Path, *names: str, text: str = "") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def folder(tmp_path) -> Path:
    write(
        tmp_path,
        "weather/__init__.py",
        "weather/agent.py",
        "weather/sub_agents/wind/agent.py",
        "no_code/root_agent.yaml",
        "group/east/agent.py",
        "group/west/root_agent.yaml",
        "group/nothing/notes.txt",
        "_private/agent.py",
        ".hidden/agent.py",
        "__pycache__/agent.py",
        "a/b/c/d/e/agent.py",
        "a/b/c/d/e/f/agent.py",
        "empty/readme.md",
        "shared.py",
        "v1.2/agent.py",
        "group/west.old/agent.py",
    )
    write(tmp_path, "only_package/__init__.py", text="from .core import root_agent")
    return tmp_path


def test_the_names_are_those_of_adk(folder):
    both = {*AgentLoader(str(folder)).list_agents(), *NestedAgentLoader(str(folder)).list_agents()}

    names = open_folder(folder).names()

    assert names == sorted(both)
    assert {"weather", "only_package", "no_code", "group.east", "group.west", "a.b.c.d.e"} <= set(names)


def test_folder_of_one_agent_contains_that_agent_only(folder):
    opened = open_folder(folder / "weather")

    assert opened.names() == AgentLoader(str(folder / "weather")).list_agents() == ["weather"]
    assert opened.root == folder
    assert opened.app_folder("weather") == folder / "weather"


def test_every_name_has_its_folder(folder):
    opened = open_folder(folder)
    dotted = {"v1.2": "v1.2", "group.west.old": "group/west.old"}
    assert dotted.keys() <= set(opened.names())
    for name in opened.names():
        assert opened.app_folder(name) == folder / dotted.get(name, name.replace(".", "/"))
        assert opened.code_version(name)


def test_folder_of_one_agent_may_have_a_dot_in_its_name(folder):
    opened = open_folder(folder / "v1.2")
    assert opened.names() == ["v1.2"]
    assert opened.app_folder("v1.2") == folder / "v1.2"


def test_name_of_two_folders_means_the_nested_one_which_can_be_loaded(folder):
    write(folder, "weather/bak/agent.py", "weather.bak/agent.py")
    assert open_folder(folder).app_folder("weather.bak") == folder / "weather" / "bak"


@pytest.mark.parametrize(
    "code",
    [
        "",
        '"""Helpers of all agents; the app is elsewhere."""',
        '"""Values that every root_agent shares.\n\napp = what it serves\n"""',
        "# root_agent is in ../weather; import app from there\nimport os\nfrom .http import fetch",
        'def app_name():\n    """Import the app\'s name."""',
        'COLORS = {"app": "blue"}  # from .agent import *',
    ],
)
def test_packages_without_an_agent_are_left_out(folder, code):
    write(folder, "tests/__init__.py", text=code)
    assert "tests" not in open_folder(folder).names()
    with pytest.raises(NotFound):
        open_folder(folder).app_folder("tests")


@pytest.mark.parametrize(
    "code",
    [
        "root_agent = Agent()",
        "from .agents import *",
        "from .core import (\n    app,\n)",
        "app: App = App()",
        "from . import my_app as app",
        'globals()["root_agent"] = make()',
        "def app(): ...",
        "from .core import base as root_agent",
        "root_agent = (",
        "def __getattr__(name):\n    if name == 'root_agent':\n        return make()",
    ],
)
def test_packages_that_may_have_an_agent_are_listed(folder, code):
    write(folder, "maybe/__init__.py", text=code)
    assert "maybe" in open_folder(folder).names()


def test_odd_entries_hide_no_agent(folder):
    names = open_folder(folder).names()
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dead").symlink_to(folder / "missing")
    (folder / "secret").mkdir(mode=0)
    for odd in ("no_yaml/root_agent.yaml", "no_init/__init__.py"):
        (folder / odd).parent.mkdir()
        os.mkfifo(folder / odd)
    assert open_folder(folder).names() == names


def test_folder_whose_name_is_not_utf_8_is_listed_with_a_replacement(folder):
    write(folder, os.fsdecode(b"k\xf6ln/agent.py"))
    opened = open_folder(folder)
    name = "k\N{REPLACEMENT CHARACTER}ln"
    assert name in opened.names()
    assert opened.code_version(name)
    with (
        pytest.raises(ValueError, match=r"is not UTF-8\. Rename the folder"),
        explain_unloadable_name(folder, name),
    ):
        raise ValueError


def test_package_with_an_agent_package_is_listed(folder):
    write(folder, "deep/__init__.py", "deep/agent/__init__.py")
    assert "deep" in open_folder(folder).names()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "empty", "weather.", ".weather", "/etc", "no"])
def test_a_name_without_an_agent_is_refused(folder, name):
    with pytest.raises(NotFound, match="No agent"):
        open_folder(folder).app_folder(name)


def test_agent_beside_single_agent_is_refused(folder):
    with pytest.raises(NotFound):
        open_folder(folder / "weather").app_folder("no_code")


def test_missing_folder_is_refused_with_hint(tmp_path):
    with pytest.raises(BadInput, match="does not exist") as refused:
        open_folder(tmp_path / "missing")
    assert "Name a folder" in refused.value.hint


def test_a_file_is_no_agents_folder(folder):
    with pytest.raises(BadInput, match="is not a folder"):
        open_folder(folder / "shared.py")


@pytest.mark.parametrize(
    "name",
    [
        "weather/agent.py",
        "weather/deep/tools.py",
        "weather/sub.yaml",
        "weather/.env",
        "weather/prompts/plan.md",
        "weather/System_Prompt.txt",
        "weather/instructions/plan.txt",
        "shared.py",
        "shared.jinja2",
        ".env",
    ],
)
def test_a_change_of_code_is_another_version(folder, name):
    opened = open_folder(folder)
    before = opened.code_version("weather")

    write(folder, name, text="changed = 1")

    assert opened.code_version("weather") != before
    write(folder, name, text="changed = 2")
    assert opened.code_version("weather") != before


def test_agent_opened_alone_has_the_version_of_its_folder(folder):
    """The command line opens the folder of one agent, the server that of all: both run the same code."""
    alone, among_all = open_folder(folder / "weather"), open_folder(folder)
    assert alone.code_version("weather") == among_all.code_version("weather")
    write(folder, "shared.py", text="changed = 1")
    assert alone.code_version("weather") == among_all.code_version("weather")


def test_files_beside_single_agent_are_not_its_code(tmp_path):
    write(tmp_path, "weather/agent.py", "unrelated/setup.py")
    before = open_folder(tmp_path / "weather").code_version("weather")
    write(tmp_path, "unrelated/setup.py", text="changed = 1")
    assert open_folder(tmp_path / "weather").code_version("weather") == before


@pytest.mark.parametrize(
    "name",
    [
        "weather/trip.evalset.json",
        "weather/trip.evalset.yaml",
        "weather/trip.test.json",
        "weather/test_config.json",
        "weather/.adk/session.py",
        "weather/.devui/x.py",
        "weather/__pycache__/x.py",
        "weather/data.csv",
        "weather/notes.md",
        "weather/said.txt",
        "no_code/tools.py",
    ],
)
def test_data_caches_and_other_agents_are_not_its_code(folder, name):
    opened = open_folder(folder)
    before = opened.code_version("weather")

    write(folder, name, text="changed")

    assert opened.code_version("weather") == before


def test_text_too_long_for_a_prompt_is_data(folder):
    opened = open_folder(folder)
    before = opened.code_version("weather")

    write(folder, "weather/prompts/corpus.txt", text="a" * (MAX_PROMPT_BYTES + 1))

    assert opened.code_version("weather") == before


def test_same_code_elsewhere_has_the_same_version(folder, tmp_path_factory):
    copy = shutil.copytree(folder, tmp_path_factory.mktemp("copy") / "agents")

    assert open_folder(copy).code_version("weather") == open_folder(folder).code_version("weather")


def test_a_renamed_file_is_another_version(folder):
    before = open_folder(folder).code_version("weather")

    (folder / "weather/agent.py").rename(folder / "weather/tools.py")
    (folder / "weather/root_agent.yaml").touch()

    assert open_folder(folder).code_version("weather") != before


def test_a_removed_file_is_another_version(folder):
    opened = open_folder(folder)
    before = opened.code_version("weather")

    (folder / "weather/__init__.py").unlink()

    assert opened.code_version("weather") != before


def test_a_virtual_environment_holds_no_agents(folder):
    write(folder, "venv/pyvenv.cfg", "venv/lib/some_package/agent.py")

    assert not [name for name in open_folder(folder).names() if name.startswith("venv")]


@pytest.mark.parametrize(
    ("name", "code"), [("agent.py", True), ("a.YAML", False), (".env", True), (".x.py", False)]
)
def test_code_files_are_recognized_by_name(name, code):
    assert is_code(name) is code


def test_remote_agent_has_no_local_folder(folder, monkeypatch):
    monkeypatch.setattr(remotes, "_registry", {})
    remotes.register(remotes.Remote("far", "http://far.example"))
    with pytest.raises(NotFound, match=r"on another server, http://far\.example"):
        open_folder(folder).app_folder("clerk@far")
