"""The deployment of docs/team.md, whose containers are processes of this machine."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.postgres import Cluster
from tests.runtime.web_command import ROOT

PAGE = (ROOT / "docs/team.md").read_text()
CONTENT = os.urandom(200_000)
"""An artifact that is too large for its row."""

DOCKER = f"""#!{sys.executable}
import os, sys

words = sys.argv[1:]
if words[:4] == ["compose", "exec", "-T", "postgres"]:
    os.execvp(words[4], words[4:])
if words[:6] == ["compose", "run", "--rm", "--no-deps", "-T", "--entrypoint"]:
    program, service, *arguments = words[6:]
    assert service == "web", words
    os.execvp(program, [program, *(os.environ["DATA"] if word == "/data" else word for word in arguments)])
assert words[:2] in (["compose", "stop"], ["compose", "up"]), words
"""
"""Stands in for Docker: runs the commands of containers on this machine."""

Rows = dict[str, list[dict[str, str]]]
"""Table -> its rows, each as column -> what the value looks like."""


def documented_commands(heading: str) -> list[list[str]]:
    """Return the lines of each block of commands in a section of docs/team.md."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    return [[line.strip() for line in block.splitlines()] for block in blocks]


class Deployment:
    """A database and a data folder, on which documented commands run."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        with psycopg.connect(cluster.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE devui LOGIN CREATEDB")
            admin.execute("CREATE DATABASE devui OWNER devui")
            port = admin.info.port
        self.url = f"postgresql://devui@127.0.0.1:{port}/devui"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DEVUI_")},
            "DATABASE_URL": self.url,
            "DEVUI_DATA_DIR": str(self.data),
            "DATA": str(self.data),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(port),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }
        (folder / "bin").mkdir()
        docker = folder / "bin/docker"
        docker.write_text(DOCKER)
        docker.chmod(0o755)

    def run(self, command: str) -> None:
        """Run a documented command."""
        ended = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert ended.returncode == 0, f"{command}\n{ended.stderr}"

    def has_active_runs(self) -> bool:
        """Return whether a run of a session is queued or running."""
        with psycopg.connect(self.url) as connection:
            active_runs = connection.execute(
                "SELECT id FROM sessions_app_run WHERE status IN ('queued', 'running')"
            )
            return active_runs.fetchone() is not None

    def rows(self) -> Rows:
        """Return every row of every table."""
        with psycopg.connect(self.url) as connection:
            names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            return {name: self._rows_of(connection, name) for (name,) in names.fetchall()}

    @staticmethod
    def _rows_of(connection: psycopg.Connection[Any], table: str) -> list[dict[str, str]]:
        cursor = connection.execute(f'SELECT * FROM "{table}" ORDER BY 1')
        columns = [column.name for column in cursor.description or ()]
        return [dict(zip(columns, map(repr, row), strict=True)) for row in cursor.fetchall()]


def store_artifact(client: httpx.Client) -> str:
    """Create a session with an artifact and return the artifact's address."""
    session = client.post("/apps/weather/users/ann/sessions").raise_for_status().json()["id"]
    artifacts = f"/apps/weather/users/ann/sessions/{session}/artifacts"
    data = {"mimeType": "application/octet-stream", "data": base64.b64encode(CONTENT).decode()}
    body = {"filename": "large.bin", "artifact": {"inlineData": data}}
    client.post(artifacts, json=body).raise_for_status()
    return f"{artifacts}/large.bin"


def read_artifact(client: httpx.Client, address: str) -> bytes:
    """Return the content of an artifact."""
    data = client.get(address).raise_for_status().json()["inlineData"]["data"]
    return base64.urlsafe_b64decode(data + "==")


def list_sessions(client: httpx.Client) -> list[dict[str, Any]]:
    """Return the sessions that the server lists."""
    listed: list[dict[str, Any]] = client.get("/api/v1/sessions").raise_for_status().json()["sessions"]
    return listed
