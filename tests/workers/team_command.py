"""The command `team` with its database and its people."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.patience import PATIENCE_S
from tests.ports import find_free_port
from tests.runtime.web_command import ROOT
from tests.workers.conftest import agents_of_team
from tests.workers.team import Member, postgres_server, read_rows, team_environment

PASSWORD = "correct horse battery"


class OwnTeam:
    """The command `team` with its database and its people."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        name: str = "",
        port: int = 0,
        agents: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name or f"test_team_{uuid.uuid4().hex[:12]}"
        self.port = port or find_free_port()
        self.database = f"{postgres_server()}/{self.name}"
        self.environment = {**team_environment(self.database, folder), **(environment or {})}
        log = folder / "team.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                command("team", str(agents or agents_of_team(folder)), "--port", str(self.port), *arguments),
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=ROOT,
            )
        self.member = Member(process, log)

    @property
    def urls(self) -> list[str]:
        """The addresses of the web processes."""
        return re.findall(r"http://[\d.:]+(?=/)", self.member.first_line("The team serves on"))

    @property
    def admin_password(self) -> str:
        return self.member.first_line("Sign in as admin").split()[7]

    def create_user(self, name: str, role: str) -> None:
        subprocess.run(
            command("createuser", name, "--role", role),
            input=f"{PASSWORD}\n{PASSWORD}\n",
            env={**self.environment, "DEVUI_USERS": "1"},
            cwd=ROOT,
            text=True,
            check=True,
            capture_output=True,
        )

    def pid_of(self, words: str) -> int:
        """Return the pid of the command's child with these words in its command line."""
        children = Path(f"/proc/{self.member.process.pid}/task/{self.member.process.pid}/children")
        for task in children.parents[1].iterdir():
            for pid in (task / "children").read_text().split():
                if words in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "):
                    return int(pid)
        raise AssertionError(f"no child {words!r}")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return read_rows(self.database, statement)

    def drop(self) -> None:
        if self.member.process.poll() is None:
            self.member.end()
        print(self.member.log.read_text())
        with psycopg.connect(f"{postgres_server()}/postgres", autocommit=True) as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), *arguments]


def browser(url: str, name: str, password: str = PASSWORD) -> httpx.Client:
    """Return a client that has signed in."""
    client = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False, headers={"Origin": url})
    answer = client.post("/login/", data={"name": name, "password": password})
    assert answer.status_code == 303, answer.text
    return client
