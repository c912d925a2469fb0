"""The commands of docs/team.md upgrade a team to a version with other tables and roll it back."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from typing_extensions import override

from devui.workers import migrations
from tests import forked_processes
from tests.deploy.deployment import (
    CONTENT,
    PAGE,
    Deployment,
    Rows,
    documented_commands,
    list_sessions,
    read_artifact,
    store_artifact,
)
from tests.patience import PATIENCE_S
from tests.postgres import Cluster
from tests.runtime.web_command import ROOT
from tests.workers.team import ACTIVE, Member, Web, wait_for

pytestmark = pytest.mark.soak

BACKUP, RESTORE = documented_commands("Back up and restore")
STOP, START = documented_commands("Upgrade and roll back")
PASSWORD = "correct horse battery"
LACKED = "0003_imports"
"""The migration of workers that the earlier version does not have. It runs without the table."""

TABLE = "devui_workers_agentimport"
EARLIER_SETTINGS = f"""
from devui.settings import *
MIGRATION_MODULES = {{"devui_workers": "migrations_without_{LACKED}"}}
"""
VARIABLES: dict[str, dict[str, str]] = {
    "earlier": {"DJANGO_SETTINGS_MODULE": "earlier_settings"},
    "later": {},
}
"""Version -> the variables with which its processes start."""


class Containers(Deployment):
    """A web process and a worker, whose image is a version of DevUI: "earlier" until the first build, then "later"."""

    web: Web
    worker: Member

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self.environment |= {
            "DEVUI_ENGINE": "procrastinate",
            "DEVUI_USERS": "1",
            "DEVUI_SECRET_KEY": "a secret of the tests",
            "PYTHONPATH": str(folder),
        }
        self.image = "devui"
        self._versions = {"devui": "earlier"}
        self._members: list[Member] = []
        (folder / "earlier_settings.py").write_text(EARLIER_SETTINGS)
        shutil.copytree(
            Path(migrations.__file__ or "").parent,
            folder / f"migrations_without_{LACKED}",
            ignore=shutil.ignore_patterns("__pycache__", f"{LACKED}.py"),
        )

    @override
    def run(self, command: str) -> None:
        match shlex.split(command):
            case ["git", "pull"]:
                pass
            case ["docker", "tag", name, copy]:
                self._versions[copy] = self._versions[name]
            case ["docker", "compose", "build"]:
                self._versions["devui"] = "later"
            case ["docker", "compose", "stop", *services]:
                self.stop(*services)
            case ["docker", "compose", "run", "--rm", "web", *arguments]:
                self.manage(*arguments)
            case ["docker", "compose", "up", "--detach", "--scale", "web=2", "--scale", "worker=3"]:
                self.start()
            case _:
                super().run(command)

    def manage(self, *arguments: str, typed: str = "") -> None:
        """Run a management command of the current image."""
        ended = subprocess.run(
            [sys.executable, "-m", "devui", *arguments],
            env=self._variables,
            cwd=ROOT,
            input=typed,
            text=True,
            capture_output=True,
        )
        assert ended.returncode == 0, ended.stderr

    def start(self) -> None:
        """Start the processes and wait until they serve: one of each kind is enough."""
        self.web = Web(*self.start_process("web", "--port", "0"))
        self.worker = Member(*self.start_process("worker"))
        self._members += self.web, self.worker
        self.web.first_line("DevUI serves")
        count = "SELECT count(*) FROM devui_workers_worker WHERE engine_id IS NOT NULL AND removed_at IS NULL"
        with psycopg.connect(self.url, autocommit=True) as connection:
            wait_for(lambda: connection.execute(count).fetchone(), lambda row: row == (1,))

    def stop(self, *services: str) -> None:
        """End services in order."""
        for name, member in (("worker", self.worker), ("web", self.web)):
            if name in services and member.process.poll() is None:
                assert member.end() == 0

    def start_process(self, command: str, *options: str) -> tuple[subprocess.Popen[str], Path]:
        """Start a process of the current image; return it with its log."""
        log = self.folder / f"{len(self._members)}-{self.image.replace(':', '-')}-{command}.log"
        with log.open("w") as output:
            process = forked_processes.Popen(
                [sys.executable, "-m", "devui", command, "examples/agents", *options],
                env=self._variables,
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return process, log

    def kill(self) -> None:
        """Kill what still runs and show all logs."""
        for member in self._members:
            if member.process.poll() is None:
                member.end(signal.SIGKILL)
            print(f"== {member.log.name}\n{member.log.read_text()}")

    def sign_in(self) -> httpx.Client:
        """Return a browser of the admin."""
        headers = {"Origin": self.web.url, "Sec-Fetch-Site": "same-origin"}
        client = httpx.Client(base_url=self.web.url, timeout=PATIENCE_S, trust_env=False, headers=headers)
        assert client.post("/login/", data={"name": "ann", "password": PASSWORD}).status_code == 303
        return client

    @property
    def _variables(self) -> dict[str, str]:
        return {**self.environment, **VARIABLES[self._versions[self.image]]}


@pytest.fixture
def containers(cluster: Cluster, tmp_path: Path) -> Iterator[Containers]:
    """A team of the earlier version, with an admin."""
    containers = Containers(cluster, tmp_path)
    containers.manage("createuser", "ann", "--role", "admin", typed=f"{PASSWORD}\n")
    try:
        yield containers
    finally:
        containers.kill()


def start_run(client: httpx.Client, session: int) -> str:
    """Start a run of the weather agent and return its address."""
    order = {"session": session, "message": "weather in Paris?"}
    return f"/api/v1/runs/{client.post('/api/v1/runs', json=order).raise_for_status().json()['id']}"


def await_done(client: httpx.Client, address: str) -> None:
    """Wait until a run or eval run has ended well."""
    run = wait_for(lambda: client.get(address).json(), lambda run: run["status"] not in ACTIVE)
    assert run["status"] == "done", run


def actions(client: httpx.Client) -> list[str]:
    """Return the actions of the audit log, oldest first."""
    exported = client.get("/audit/export/?format=jsonl").raise_for_status().text
    return re.findall(r'"action": "([^"]+)"', exported)


def is_refused(process: subprocess.Popen[str], log: Path) -> bool:
    """Tell whether a process does not start and says in one line that the store is newer."""
    status = process.wait(PATIENCE_S)
    text = log.read_text()
    names_migration = f"it has the unknown migration devui_workers.{LACKED}." in text
    return status == 2 and text.count("\n") == 1 and names_migration and "Update DevUI" in text


def find_lost_rows(before: Rows, after: Rows) -> list[str]:
    """Return the rows that are not there any more with every value that they had."""
    return [
        f"{table}: {row}"
        for table, rows in before.items()
        for row in rows
        if not any(row.items() <= new.items() for new in after[table])
    ]


def test_upgrade_loses_nothing_and_rollback_restores_the_earlier_version(containers: Containers):
    containers.start()
    client = containers.sign_in()
    artifact = store_artifact(client)
    session = list_sessions(client)[0]["key"]
    await_done(client, start_run(client, session))
    order = {"app": "weather", "evalset": "lookups"}
    evals = (
        f"/api/v1/evals/runs/{client.post('/api/v1/evals/runs', json=order).raise_for_status().json()['id']}"
    )
    await_done(client, evals)
    late = start_run(client, session)
    done_before = actions(client)
    for command in STOP:
        containers.run(command)
    before = containers.rows()
    assert TABLE not in before
    for command in BACKUP:
        containers.run(command)
    migrate, start = START
    containers.run(migrate)
    migrated = containers.rows()
    assert TABLE in migrated
    assert find_lost_rows(before, migrated) == []

    containers.image = "devui:before"
    refused = [containers.start_process(*words) for words in (("web", "--port", "0"), ("worker",))]
    assert all(is_refused(*process) for process in refused), [log.read_text() for _, log in refused]
    containers.image = "devui"

    containers.run(start)
    client = containers.sign_in()
    await_done(client, late)
    await_done(client, evals)
    assert actions(client)[: len(done_before)] == done_before
    assert read_artifact(client, artifact) == CONTENT
    await_done(client, start_run(client, session))
    audited_later = actions(client)

    assert "Set `DEVUI_IMAGE=devui:before` in `.env`" in PAGE
    containers.image = "devui:before"
    *restore, start = RESTORE
    for command in restore:
        containers.run(command)
    assert containers.rows() == before
    containers.run(start)
    client = containers.sign_in()
    await_done(client, late)
    await_done(client, evals)
    assert read_artifact(client, artifact) == CONTENT
    await_done(client, start_run(client, session))
    audited = actions(client)
    assert audited[: len(done_before)] == done_before
    assert len(audited) < len(audited_later)
