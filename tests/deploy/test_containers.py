"""deploy/: the options, paths and settings that its files name exist."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any

import pytest
import yaml

from tests.runtime.web_command import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
PAGE = (ROOT / "docs/team.md").read_text()
OURS = ("web", "worker")


def instructions(name: str) -> list[str]:
    """Return what follows an instruction of the Dockerfile, for each use."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def commands() -> list[list[str]]:
    """Return the commands of the page that call Docker, as lists of words."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [
        shlex.split(line.partition(" > ")[0].partition(" < ")[0])
        for line in lines
        if "docker compose" in line
    ]


@pytest.mark.parametrize(
    "command", [json.loads(instructions("CMD")[0]), SERVICES["worker"]["command"]], ids=OURS
)
def test_command_of_a_container_has_these_options(command):
    module = import_module(f"devui.management.commands.{command[0]}")
    options = module.Command().create_parser("devui", command[0]).parse_args(command[1:])
    assert options.agents_dir == "/agents"


def test_image_is_built_from_files_that_are_sent_to_docker():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    sent_files = {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules[0] == "*"
    assert [name for name in sent_files if not (ROOT / name).exists()] == []
    copied = [line.split()[0] for line in instructions("COPY") if not line.startswith(". ")]
    assert set(copied) <= sent_files
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {project["readme"], *project["license-files"], "pyproject.toml", "templates", "static"}
    assert needed | {"devui", "sessions_app", "evals_app"} <= sent_files
    extras = re.search(r"\.whl\)\[([\w,]+)\]", DOCKERFILE)
    assert extras
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])


def test_image_runs_as_a_user_without_rights():
    assert instructions("USER") == ["devui"]
    assert not any("SECRET" in line or "PASSWORD" in line for line in DOCKERFILE.splitlines())
    for name in OURS:
        assert (SERVICES[name]["cap_drop"], SERVICES[name]["init"]) == (["ALL"], True)
        assert any(volume.endswith(":/agents:ro") for volume in SERVICES[name]["volumes"])


def test_variables_of_containers_are_settings():
    variable_names = {name for service in OURS for name in SERVICES[service]["environment"]}
    variable_names |= set(re.findall(r"(DEVUI_[A-Z_]+)=", " ".join(instructions("ENV"))))
    table = (ROOT / "README.md").read_text().replace("`…_DRAIN_S`", "`DEVUI_RUNTIME_DRAIN_S`")
    assert {name for name in variable_names if f"`{name}`" not in table} == set()


def test_example_of_settings_names_every_variable_that_compose_needs():
    example = re.findall(r"^([A-Z_]+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE)
    used = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    assert used - {"DEVUI_IMAGE"} == set(example)


def test_settings_with_secrets_are_ignored_by_git():
    files = [".env", *(file["path"] for name in OURS for file in SERVICES[name].get("env_file", []))]
    assert len(files) == 3
    for file in files:
        ignored = subprocess.run(["git", "check-ignore", "-q", f"deploy/{file}"], cwd=ROOT)
        assert ignored.returncode == 0, file
    ignore_rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert not any(
        fnmatch.fnmatch(f"deploy/{file}", rule[1:])
        for file in files
        for rule in ignore_rules
        if rule[:1] == "!"
    )


def test_files_that_containers_mount_exist():
    mounted = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert [path for path in mounted if path.startswith("./") and not (DEPLOY / path).is_file()] == []
    volume_names = {path for path in mounted if path.isidentifier()}
    assert volume_names == set(COMPOSE["volumes"])


def test_web_processes_trust_the_proxy_and_nobody_else():
    proxy = SERVICES["proxy"]["networks"]["front"]["ipv4_address"]
    assert SERVICES["web"]["environment"]["DEVUI_TRUSTED_PROXIES"] == proxy
    assert [name for name, service in SERVICES.items() if "front" in service["networks"]] == ["proxy", "web"]
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    caddyfile = (DEPLOY / "Caddyfile").read_text()
    assert re.search(r"dynamic a web (\d+)", caddyfile)[1] == json.loads(instructions("CMD")[0])[-1]  # type: ignore[index]


def test_worker_has_time_to_finish_its_runs():
    worker = SERVICES["worker"]
    drain_s = int(worker["environment"]["DEVUI_RUNTIME_DRAIN_S"])
    assert drain_s < int(worker["stop_grace_period"].removesuffix("s"))
    assert worker["healthcheck"]["test"][-1] == worker["command"][-1].rpartition(":")[2]


def test_documented_commands_name_services_and_commands_that_exist():
    management = {path.stem for path in (ROOT / "devui/management/commands").glob("*.py")} | {"migrate"}
    run = [words for words in commands() if words[2] == "run" and "--entrypoint" not in words]
    assert {words[words.index("web") + 1] for words in run} == {"createuser", "migrate"}
    assert {words[words.index("web") + 1] for words in run} <= management
    for words in commands():
        if words[2] == "stop":
            assert set(words[3:]) <= set(SERVICES)
        scaled = [word.partition("=")[0] for word in words if re.fullmatch(r"\w+=\d+", word)]
        assert set(scaled) <= set(OURS)


@pytest.fixture
def port(request) -> Iterator[int]:
    """The port of a server that answers with a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(request.param)
            self.end_headers()

        def log_message(self, *values: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def health(port: int) -> int:
    """Return the exit status of the health check."""
    command = [sys.executable, str(DEPLOY / "healthcheck.py"), str(port)]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode


@pytest.mark.parametrize(("port", "status"), [(200, 0), (401, 0), (500, 1), (503, 1)], indirect=["port"])
def test_container_is_healthy_if_its_process_answers(port, status):
    assert health(port) == status


def test_container_whose_process_does_not_listen_is_unhealthy():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_port
    assert health(port) == 1
