"""`manage.py web` on the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.core.management.base import CommandError
from google.adk.cli.cli_tools_click import cli_web

from devui.management.commands.web import Command
from devui.serving import flags
from devui.serving.demo import read_demo as read_demo
from sessions_app.agent_processes import processes
from sessions_app.store.errors import BadInput
from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.runtime.conftest import STAGE_APPS
from tests.runtime.web_command import ROOT, refusal_of, start_web


class Web:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=PATIENCE_S, trust_env=False)

    def post(self, path: str, **fields) -> httpx.Response:
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        return httpx.post(self.url + path, timeout=PATIENCE_S, trust_env=False, headers=headers, **fields)

    def runtime_pids(self) -> list[int]:
        """Return the pids of the processes whose parent is the server."""
        listed = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def end(self, number: int = signal.SIGTERM) -> str:
        self.process.send_signal(number)
        return self.process.communicate(timeout=PATIENCE_S)[0]


@pytest.fixture
def file(tmp_path) -> Path:
    """Where a store may be. There is none yet."""
    return tmp_path / "store" / "devui.sqlite3"


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory) -> Path:
    """An empty store. Its tables take longer than the start of a server."""
    store = tmp_path_factory.mktemp("made") / "devui.sqlite3"
    script = f"import devui; devui.setup('sqlite:///{store}')"
    done = forked_processes.run([sys.executable, "-c", script], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return store


@pytest.fixture
def serve(agents_dir, file, empty_store) -> Iterator[Callable[..., Web]]:
    """Starts servers, on an empty store unless they are to make a new one."""
    started: list[Web] = []

    def start(
        *arguments: str,
        folder: Path = agents_dir,
        popen: type[subprocess.Popen[str]] = subprocess.Popen,
        is_new: bool = False,
    ) -> Web:
        if not is_new and not file.exists():
            file.parent.mkdir(mode=0o700)
            shutil.copy(empty_store, file)
        process = start_web(str(folder), "--port", "0", *arguments, store=file, popen=popen)
        lines: list[str] = []
        assert process.stdout is not None
        while not (match := re.search(r"on (http://\S+?)/ ", "".join(lines))):
            line = process.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
        web = Web(process, match.group(1))
        web.lines = lines
        started.append(web)
        return web

    yield start
    for web in started:
        if web.process.poll() is None:
            web.process.kill()
            web.process.communicate()


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_server_serves_and_runs_the_agents_of_a_folder(serve):
    web = serve(is_new=True)

    assert web.get("/list-apps").json() == STAGE_APPS
    session = web.post("/apps/talker/users/ann/sessions", json={}).json()
    body = {
        "appName": "talker",
        "userId": "ann",
        "sessionId": session["id"],
        "newMessage": {"role": "user", "parts": [{"text": "say it works"}]},
    }
    events = web.post("/run", json=body).json()
    assert events[-1]["content"]["parts"][0]["text"] == "it works"
    assert web.get("/").status_code == 200


def test_recently_used_agent_is_loaded_after_the_first_page(serve, monkeypatch):
    monkeypatch.setenv("DEVUI_RUNTIME_PRELOAD", "1")
    web = serve()
    web.post("/apps/talker/users/ann/sessions", json={})

    assert web.get("/").status_code == 200

    wait_until(lambda: len(web.runtime_pids()) == 1)
    web.end()
    assert web.process.returncode == 0


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_no_process(serve, number):
    web = serve()
    web.post("/apps/talker/users/ann/sessions", json={})
    web.post("/run", json={"appName": "talker", "userId": "ann", "sessionId": "none", "newMessage": None})
    pids = web.runtime_pids()
    assert pids

    output = web.end(number)

    assert web.process.returncode == 0
    assert "Traceback" not in output
    assert not any(processes.identity(pid) for pid in pids)


@pytest.mark.soak
def test_processes_end_when_the_server_is_killed(serve):
    web = serve()
    web.post("/run", json={"appName": "talker", "userId": "ann", "sessionId": "none", "newMessage": None})
    pids = web.runtime_pids()
    assert pids

    web.process.kill()

    wait_until(lambda: not any(processes.identity(pid) for pid in pids))


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_runs_waiting_at_server_end_are_executed_by_the_next(serve, number):
    web = serve()
    web.post("/apps/talker/users/ann/sessions", json={"sessionId": "s1"})
    key = web.get("/api/v1/sessions").json()["sessions"][0]["key"]
    requests = [{"session": key, "message": f"say {words}"} for words in ("word " * 600, "it works")]
    first_id, waiting = [web.post("/api/v1/runs", json=body).json()["id"] for body in requests]
    wait_until(lambda: web.get(f"/api/v1/runs/{first_id}").json()["status"] == "running")
    web.end(number)

    web = serve()

    def runs() -> dict[str, str]:
        return {run["id"]: run["status"] for run in web.get("/api/v1/runs").json()["runs"]}

    wait_until(lambda: runs()[waiting] == "done")
    assert runs()[first_id] in {"cancelled", "crashed"}
    events = web.get("/apps/talker/users/ann/sessions/s1").json()["events"]
    assert events[-1]["content"]["parts"][0]["text"] == "it works"


@pytest.mark.soak
def test_demo_sessions_are_created_once_by_running_agents(serve, tmp_path, file):
    demo = tmp_path / "demo.json"
    demo.write_text(
        json.dumps([{"app": "talker", "user": "ann", "session_id": "a/b", "turns": ["say one", "say two"]}])
    )

    def texts() -> list[str]:
        with sqlite3.connect(file) as store:
            rows = store.execute("SELECT data FROM sessions_app_event ORDER BY seq").fetchall()
        return [json.loads(data)["content"]["parts"][0]["text"] for (data,) in rows]

    web = serve("--demo", str(demo))
    wait_until(lambda: len(texts()) == 4)
    assert texts() == ["say one", "one", "say two", "two"]
    web.end()

    again = serve("--demo", str(demo))
    assert again.get("/api/v1/runs").status_code == 200
    again.end()
    assert len(texts()) == 4


def test_in_memory_store_ends_with_the_server(serve, file):
    web = serve("--session_service_uri", "memory://", popen=forked_processes.Popen, is_new=True)
    assert "removed when the server ends" in "".join(web.lines)
    web.post("/apps/talker/users/ann/sessions", json={})
    web.end()
    assert not file.exists()


def test_folder_of_one_agent_can_be_served(serve, agents_dir):
    assert serve(folder=agents_dir / "talker", popen=forked_processes.Popen).get("/list-apps").json() == [
        "talker"
    ]


def test_a_limit_that_is_no_number_is_refused(file, agents_dir):
    line = refusal_of(str(agents_dir), "--port", "0", store=file, DEVUI_RUNTIME_IDLE_S="soon")
    assert "DEVUI_RUNTIME_IDLE_S='soon'" in line


def test_origins_that_cannot_be_read_are_refused_before_it_serves(file, agents_dir):
    line = refusal_of(str(agents_dir), "--allow_origins", "regex:[", store=file)
    assert "'regex:[' is not a valid regular expression" in line


def test_a_missing_folder_is_refused(file, tmp_path):
    assert "does not exist" in refusal_of(str(tmp_path / "nowhere"), store=file)


def test_a_port_in_use_is_refused(file, agents_dir):
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        line = refusal_of(str(agents_dir), "--port", str(occupied.getsockname()[1]), store=file)
    assert "is in use" in line
    assert "--port" in line


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        *(pytest.param(host, marks=pytest.mark.soak) for host in ("::", "192.168.1.7", "example.com")),
    ],
)
def test_a_host_that_others_can_reach_is_refused(file, agents_dir, host):
    assert "anybody on the network" in refusal_of(str(agents_dir), "--host", host, store=file)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://root@localhost/x", "is not a supported store URL"),
        ("sqlite:///", "names no file"),
        ("sqlite:///x.sqlite3?mode=ro", "options after `?` are not supported"),
        ("postgresql://nobody:pw@127.0.0.1:1/x", "cannot be used"),
    ],
)
def test_a_store_that_cannot_be_is_refused(file, agents_dir, url, words):
    assert words in refusal_of(str(agents_dir), "--port", "0", store=file, DATABASE_URL=url)


def test_a_store_that_cannot_be_written_is_refused(file, agents_dir):
    file.parent.mkdir()
    file.mkdir()
    assert "cannot be used" in refusal_of(str(agents_dir), "--port", "0", store=file)


def test_a_store_of_a_newer_version_is_refused(empty_store, file, agents_dir):
    file.parent.mkdir()
    shutil.copy(empty_store, file)
    with sqlite3.connect(file) as store:
        store.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('sessions_app', '9999_later', '2099-01-01')"
        )
    assert "newer DevUI" in refusal_of(str(agents_dir), "--port", "0", store=file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not json", "Invalid JSON"),
        ('{"a": "ü"}'.encode("latin-1"), "is not UTF-8 text (byte 7)"),
        (b'{"a": 1}', "Input should be a valid array"),
        (b'[{"app": "talker", "user": "ann", "turns": []}]', "0: session_id: Field required"),
        (
            b'[{"app": "a", "user": "b", "session_id": "c", "turns": ["x", 1]}]',
            "0: turns: 1: Input should be",
        ),
    ],
)
def test_a_demo_file_that_is_none_is_refused(tmp_path, content, words):
    demo = tmp_path / "demo.json"
    demo.write_bytes(content)
    with pytest.raises(BadInput) as refusal:
        read_demo(demo)
    assert words in refusal.value.message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_demo_file_of_windows_is_read(tmp_path, encoding):
    demo = tmp_path / "demo.json"
    demo.write_text('[{"app": "a", "user": "b", "session_id": "c", "turns": ["ü"]}]', encoding=encoding)
    assert read_demo(demo)[0].turns == ["ü"]


def test_unreadable_demo_file_is_refused_in_one_line(file, agents_dir, tmp_path):
    demo = tmp_path / "demo.json"
    assert "cannot be read" in refusal_of(str(agents_dir), "--port", "0", "--demo", str(demo), store=file)
    demo.write_text("{}")
    line = refusal_of(str(agents_dir), "--port", "0", "--demo", str(demo), store=file)
    assert "Input should be a valid array" in line


def test_every_flag_of_adk_web_exists_with_the_same_name():
    ours = {
        option
        for action in Command().create_parser("manage.py", "web")._actions
        for option in action.option_strings
    }
    for parameter in cli_web.params:
        for option in [*parameter.opts, *parameter.secondary_opts]:
            if option.startswith("--"):
                assert {option, option.replace("_", "-")} <= ours, option


def test_readme_names_every_effective_flag_and_variable():
    readme = (ROOT / "README.md").read_text()
    assert [flag.name for flag in flags.FLAGS if not flag.unused and f"`--{flag.name}`" not in readme] == []
    settings = (ROOT / "devui/settings.py").read_text()
    set_by_hand = set(re.findall(r'environment\.\w+\("(\w+)"', settings)) - {"DEVUI_TEMPORARY_STORE"}
    assert "DEVUI_DATA_DIR" in set_by_hand
    assert {name for name in set_by_hand if f"`{name}`" not in readme} == set()


def test_flags_may_be_spelled_with_hyphens_and_underscores():
    parser = Command().create_parser("manage.py", "web")
    for spelling in ("--max_llm_calls", "--max-llm-calls"):
        assert parser.parse_args([spelling, "3"]).max_llm_calls == 3
    assert (
        parser.parse_args(["--logo_text", "x"]).logo_text == parser.parse_args(["--logo-text", "x"]).logo_text
    )


def parse_arguments(*arguments: str) -> dict:
    return vars(Command().create_parser("manage.py", "web").parse_args(list(arguments)))


def test_log_level_is_case_insensitive_like_in_adk():
    assert parse_arguments("--log_level", "DEBUG")["log_level"] == "debug"


def test_a_log_level_that_does_not_exist_is_refused():
    with pytest.raises(CommandError, match="invalid choice: 'loud'"):
        parse_arguments("--log_level", "loud")


def test_agent_options_are_passed_to_runtimes():
    options = flags.runtime_options(
        parse_arguments("--extra_plugins", "a.B,c.D", "--extra_plugins", "e.F", "--max_llm_calls", "7", "-v")
    )
    assert options.extra_plugins == ["a.B", "c.D", "e.F"]
    assert (options.max_llm_calls, options.log_level) == (7, "DEBUG")


@pytest.mark.parametrize("flag", [flag for flag in flags.FLAGS if flag.unused], ids=lambda flag: flag.name)
def test_meaningless_flag_is_accepted_with_a_note(flag):
    arguments = [f"--{flag.name}"] if flag.kind == "switch" else [f"--{flag.name}", "x"]
    assert flags.unused_flag_notes(parse_arguments(*arguments)) == [f"--{flag.name}: {flag.unused}"]
    assert flags.unused_flag_notes(parse_arguments()) == []


def test_other_session_service_is_passed_to_runtimes():
    uri = "postgresql+asyncpg://ann:secret@db/adk"
    assert flags.runtime_options(parse_arguments("--session_service_uri", uri)).session_service_uri == uri
    assert flags.runtime_options(parse_arguments()).session_service_uri == ""


@pytest.mark.parametrize("uri", ["memory://", "sqlite://"])
def test_adks_in_memory_services_map_to_a_temporary_store(uri, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("DATABASE_URL", "DEVUI_TEMPORARY_STORE"):
        monkeypatch.setenv(name, "")
    assert flags.runtime_options(parse_arguments("--session_service_uri", uri)).session_service_uri == ""
    flags.export_to_environment(["--session_service_uri", uri])
    assert os.environ["DEVUI_TEMPORARY_STORE"]


def test_flags_are_another_spelling_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a worker of xdist ends without cleaning up
    for name in (
        "DEVUI_ALLOW_ORIGINS",
        "DEVUI_URL_PREFIX",
        "DEVUI_LOG_LEVEL",
        "ADK_ENABLE_X",
        "DATABASE_URL",
        "DEVUI_TEMPORARY_STORE",
    ):
        monkeypatch.setenv(name, "")

    origins = ["--allow_origins", "https://a", "--allow-origins", "https://b"]
    features = ["--enable_features", "X", "--session_service_uri", "memory://"]

    flags.export_to_environment(["folder", *origins, *features, "--url_prefix", "/x", "-v"])

    assert os.environ["DEVUI_ALLOW_ORIGINS"] == "https://a,https://b"
    assert (os.environ["DEVUI_URL_PREFIX"], os.environ["DEVUI_LOG_LEVEL"]) == ("/x", "debug")
    assert os.environ["ADK_ENABLE_X"] == "1"
    assert os.environ["DATABASE_URL"].startswith("sqlite:////")


def test_server_does_not_import_the_agent_runtime(tmp_path):
    script = (
        "import sys, devui; devui.setup(migrate=False)\n"
        "import devui.management.commands.web, devui.serving.server, devui.serving.demo, devui.supervisor, devui.asgi\n"
        "sys.exit('google.adk' in sys.modules or 'google.genai' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert result.returncode == 0, result.stderr
