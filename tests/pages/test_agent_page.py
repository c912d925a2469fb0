"""Agent page, and agents loaded in the background."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sessions_app.agents import cards, folder
from sessions_app.runs import runtime_client as runtimes
from sessions_app.store.errors import NotFound, RuntimeUnavailable
from sessions_app.store.models import RuntimeProcess
from tests.pages.client import Get
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store", "agents_dir")

TREE = {
    "name": "root",
    "type": "LlmAgent",
    "description": "Hands over.",
    "model": "gemini",
    "instruction": "Say <b>{name}</b>",
    "global_instruction": "",
    "global_instruction_provider": "tone_of_day",
    "output_key": "answer",
    "callbacks": {"before_tool_callback": ["check", "log"]},
    "tools": [
        {
            "name": "get_weather",
            "description": "Look up.",
            "long_running": True,
            "schema": {"properties": {"city": {"type": "string"}}},
        }
    ],
    "sub_agents": [{"name": "helper", "type": "LoopAgent", "max_iterations": 3, "sub_agents": []}],
    "app": {"name": "weather", "is_app": True, "plugins": ["Recorder"], "resumable": True},
}


class Process:
    """A runtime that answers as far as loading needs it: the second look finds the agent loaded."""

    def __init__(self, app_name: str, folder: Path) -> None:
        self.app_name = app_name
        self.folder = folder
        self.looks = 0

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        assert (method, path) == ("GET", "/devui/health")
        self.looks += 1
        if self.looks == 1:
            return {"state": "loading"}
        version = folder.open_folder(self.folder).code_version(self.app_name)
        from sessions_app.store.database import units_of_work

        await units_of_work.write(cards.save_loaded, self.app_name, version, TREE)
        return {"state": "ready"}


class Processes:
    """A provider of such runtimes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[str] = []

    def apps(self) -> list[str]:
        return folder.open_folder(self.folder).names()

    async def client(self, app_name: str) -> Any:
        if app_name not in self.apps():
            raise NotFound(f"No agent {app_name!r}.")
        if app_name == "writer":
            raise RuntimeUnavailable("The process ended.", hint="Look at the log.")
        self.started.append(app_name)
        return Process(app_name, self.folder)


@pytest.fixture
def processes(agents_dir: Path) -> Iterator[Processes]:
    """Agents can be loaded."""
    provider = Processes(agents_dir)
    runtimes.register(provider)
    yield provider
    runtimes.register(None)


def load(agents_dir: Path, tree: dict[str, Any] = TREE) -> None:
    cards.save_loaded("weather", folder.open_folder(agents_dir).code_version("weather"), tree)


def test_agent_tree_shows_instructions_and_tools(get: Get, agents_dir: Path):
    load(agents_dir)
    page = get("/agents/weather/")
    assert [node.one("bdi").text for node in page.all("h2") if node.all("bdi")] == ["root", "helper"]
    facts = page.all("div", css="agent-facts")[0].text
    for text in ("Say <b>{name}</b>", "Given at run time by tone_of_day", "get_weather", "long-running"):
        assert text in facts
    assert "at most 3 iterations" in page.text
    assert "check, log" in page.text


def test_the_settings_of_the_app_are_shown(get: Get, agents_dir: Path):
    load(agents_dir)
    settings = get("/agents/weather/").one("dl", css="panel-body")
    settings_texts = dict(
        zip([t.text for t in settings.all("dt")], [d.text for d in settings.all("dd")], strict=True)
    )
    assert settings_texts == {
        "Plug-ins": "Recorder",
        "Resumable": "yes",
        "Context cache": "off",
        "Compaction": "off",
    }


def test_page_shows_what_adk_marks_and_what_skills_say(get: Get, agents_dir: Path):
    skill = {
        "name": "bake",
        "description": "Bakes.",
        "instructions": "Mix <b>flour</b>.",
        "files": [
            {"kind": "script", "path": "knead.sh", "text": "echo 1"},
            {"kind": "asset", "path": "a.png", "text": ""},
        ],
    }
    tools = [
        {"name": "Skills", "type": "toolset", "description": "", "skills": [skill], "confirmation": "is_far"},
        {
            "name": "order",
            "type": "FunctionTool",
            "description": "",
            "context": "",
            "confirmation": "always",
            "schema": {},
        },
    ]
    cautions = [{"stage": "deprecated", "text": "LoopAgent is deprecated in favor of Workflow."}]
    changed = {
        "mode": "task",
        "fallbacks": ["first", "second"],
        "schemas": {"output_schema": {"type": "array"}},
    }
    load(agents_dir, {**TREE, **changed, "cautions": cautions, "tools": tools, "nodes": [], "sub_agents": []})
    text = get("/agents/weather/").one("div", css="agent-facts").text
    assert "deprecated LoopAgent is deprecated in favor of Workflow." in text
    assert "Schema of its output" in text
    for part in (
        "Mix <b>flour</b>.",
        "knead.sh",
        "echo 1",
        "a.png",
        "waits for a confirmation if is_far says so",
    ):
        assert part in text
    assert "its function cannot change the session. A call waits for a confirmation." in text
    summary = get("/agents/weather/").one("details", css="agent-node").all("summary")[0].text
    assert "task" in summary
    assert "if it fails, in this order: second" in summary


def test_readme_of_the_folder_is_shown_as_safe_text(get: Get, agents_dir: Path):
    load(agents_dir)
    assert "README" not in get("/agents/weather/").text
    (agents_dir / "weather" / "README.md").write_text(
        "# Weather\n<script>alert(1)</script> uses sk-123456789012345"
    )
    load(agents_dir)
    page = get("/agents/weather/")
    assert "Weather" in page.one("div", css="prose").text
    assert "sk-123456789012345" not in page.text


def test_readme_that_is_a_link_out_of_the_folder_is_not_read(get: Get, agents_dir: Path, tmp_path: Path):
    secret = tmp_path / "secret.md"
    secret.write_text("not for you")
    (agents_dir / "weather" / "README.md").symlink_to(secret)
    load(agents_dir)
    assert "not for you" not in get("/agents/weather/").text


def test_unloadable_agent_shows_error_location_and_help(get: Get, agents_dir: Path):
    version = folder.open_folder(agents_dir).code_version("weather")
    cards.save_failure("weather", version, {"type": "E", "message": "m", "file": "/f.py", "line": 7})
    notice = get("/agents/weather/").one("div", css="notice-danger")
    assert "/f.py:7" in notice.text
    assert "After a correction, reload this page" in notice.text


def test_an_agent_that_broke_is_still_shown_as_it_was(get: Get, agents_dir: Path):
    load(agents_dir)
    version = folder.open_folder(agents_dir).code_version("weather")
    cards.save_failure("weather", version, {"type": "E", "message": "m"})
    card = get("/agents/weather/").one("div", id="agent-card")
    assert "The last version that loaded" in card.text
    assert "get_weather" in card.text


def test_sessions_of_the_agent_are_listed(get: Get):
    Story("s1").asks("Hello")
    Story("s2", app="writer").asks("Other")
    assert [link.text for link in get("/agents/weather/").one("ul", css="session-links").all("a")] == [
        "Hello"
    ]


def test_unknown_app_is_404(get: Get):
    assert "No agent 'nobody'" in get("/agents/nobody/", status=404).one("h1").text


def test_an_app_with_sessions_only_has_a_page(get: Get):
    Story("s1", app="gone")
    page = get("/agents/gone/")
    assert "not in the agents folder" in page.one("div", css="notice").text


def test_a_page_of_an_unknown_agent_asks_for_it_and_does_not_wait(get: Get, processes: Processes):
    card = get("/agents/weather/").one("div", id="agent-card")
    assert (card.attrs["hx-get"], card.attrs["hx-trigger"]) == ("/agents/weather/", "load")
    assert processes.started == []


def test_the_card_waits_until_the_agent_is_loaded(get: Get, processes: Processes):
    part = get("/agents/weather/", target="agent-card")
    assert processes.started == ["weather"]
    assert part.all("h2")[0].text == "root"
    assert not part.all("main")


def test_process_start_failure_is_shown_on_the_card(get: Get, processes: Processes):
    notice = get("/agents/writer/", target="agent-card").one("div", css="notice")
    assert notice.one("strong").text == "The process ended."
    assert notice.one("span").text == "Look at the log."


def test_server_without_runtimes_explains_how_to_start_one(get: Get):
    notice = get("/agents/weather/", target="agent-card").one("div", css="notice")
    assert "manage.py web" in notice.text


def test_first_page_loads_agents_one_after_the_other(get: Get, processes: Processes):
    part = get("/agent-check/?app=weather")
    status = part.one("div", css="agent-status")
    assert (status.attrs["hx-swap-oob"], status.one("span", css="badge").text) == ("true", "ready")
    assert part.one("div", id="agent-check").attrs["hx-get"] == "/agent-check/?app=writer"


def test_an_agent_that_cannot_be_started_does_not_stop_the_others(get: Get, processes: Processes):
    part = get("/agent-check/?app=writer")
    assert "The process ended." in part.one("div", css="agent-status").text
    assert "hx-get" not in part.one("div", id="agent-check").attrs


def test_request_for_removed_agent_is_skipped(get: Get, processes: Processes):
    part = get("/agent-check/?app=nobody")
    assert not part.all("div", css="agent-status")
    assert part.one("div", id="agent-check").attrs["hx-get"] == "/agent-check/?app=weather"


def test_evalsets_of_the_agent_are_listed(get: Get, agents_dir: Path):
    (agents_dir / "weather" / "smoke.evalset.json").write_text('{"eval_set_id": "smoke", "eval_cases": []}')
    link = get("/agents/weather/").one("ul", css="evalset-links").one("a")
    assert link.attrs["href"] == "/evals/weather/smoke/"


class EndedProcesses:
    """The provider of all processes, which notes those that it is to end."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []

    async def end_process(self, runtime_id: str, why: str) -> bool:
        self.ended.append((runtime_id, why))
        return True


def test_restart_ends_the_processes_of_the_agent_only(client, get: Get):
    for pk, app, stopped_at in (("p1", "weather", None), ("p2", "weather", 1.0), ("p3", "writer", None)):
        RuntimeProcess.objects.create(
            id=pk, app_name=app, host="here", pid=1, started_at=1.0, heartbeat_at=1.0, stopped_at=stopped_at
        )
    assert get("/agents/weather/").one("form", action="/agents/weather/restart/")
    processes = EndedProcesses()
    runtimes.register(processes)
    answer = client.post("/agents/weather/restart/")
    runtimes.register(None)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/agents/weather/")
    assert processes.ended == [("p1", "Its process was ended: a person restarted the agent.")]
    assert client.post("/agents/nowhere/restart/").status_code == 404
