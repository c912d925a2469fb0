"""The commands of docs/team.md back up a store and restore it into a new database."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.postgres import Cluster, cluster
from tests.runtime.web_command import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.anywhere]

__all__ = ["cluster"]

SECTION = (ROOT / "docs/team.md").read_text().partition("## Back up and restore\n")[2].partition("\n## ")[0]
BACKUP, RESTORE = (
    block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
)
CONTENT = os.urandom(200_000)
"""An artifact that is too large for its row."""

PATIENCE_S = 120

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


class Deployment:
    """A server on a database of its own, whose containers are processes of this machine."""

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

    @contextmanager
    def serve(self, *options: str) -> Iterator[httpx.Client]:
        """Serve and yield a client."""
        command = [sys.executable, "-m", "devui", "web", "examples/agents", "--port", "0", *options]
        log = self.folder / "log"
        with log.open("w") as output:
            process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=output, stderr=output)
        try:
            url = wait_for(lambda: re.search(r"on (http://\S+)", log.read_text()), log)[1]
            with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
                yield client
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

    def counts(self) -> dict[str, int]:
        """Return the number of rows by table."""
        with psycopg.connect(self.url) as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
            return {
                name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # type: ignore[index]
                for (name,) in names
            }


def wait_for(find: Any, log: Path) -> Any:
    """Return the first true result."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if found := find():
            return found
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def sessions(client: httpx.Client) -> list[dict[str, Any]]:
    """Return the sessions that the server lists."""
    listed: list[dict[str, Any]] = client.get("/api/v1/sessions").raise_for_status().json()["sessions"]
    return listed


def store_artifact(client: httpx.Client) -> str:
    """Create a session with an artifact and return the artifact's address."""
    session = client.post("/apps/weather/users/ann/sessions").raise_for_status().json()["id"]
    artifacts = f"/apps/weather/users/ann/sessions/{session}/artifacts"
    data = {"mimeType": "application/octet-stream", "data": base64.b64encode(CONTENT).decode()}
    body = {"filename": "large.bin", "artifact": {"inlineData": data}}
    client.post(artifacts, json=body).raise_for_status()
    return f"{artifacts}/large.bin"


def content(client: httpx.Client, address: str) -> bytes:
    """Return the content of an artifact."""
    data = client.get(address).raise_for_status().json()["inlineData"]["data"]
    return base64.urlsafe_b64decode(data + "==")


def test_documented_commands_restore_everything(cluster: Cluster, tmp_path: Path):
    deployment = Deployment(cluster, tmp_path)
    subprocess.run(
        [sys.executable, "-m", "devui", "createuser", "ann", "--role", "admin"],
        env={**deployment.environment, "DEVUI_USERS": "1"},
        cwd=ROOT,
        input="\n",
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with deployment.serve("--demo", "examples/demo.json") as client:
        artifact = store_artifact(client)
        demo = len(re.findall(r'"app"', (ROOT / "examples/demo.json").read_text()))
        wait_for(lambda: len(sessions(client)) > demo / 2, tmp_path / "log")
    with deployment.serve() as client:  # nothing is written any more
        sessions_before, content_before = sessions(client), content(client, artifact)
        for command in BACKUP:
            deployment.run(command)
    counts = deployment.counts()
    assert counts["accounts_auditentry"] == 1
    assert sum(counts.values()) > 500

    subprocess.run(["rm", "-r", *map(str, deployment.data.iterdir())], check=True)
    *commands, start = RESTORE
    for command in commands:
        deployment.run(command)
    restored = deployment.counts()
    assert {name: restored[name] - count for name, count in counts.items() if restored[name] != count} == {}
    assert shlex.split(start)[:3] == ["docker", "compose", "up"]
    with deployment.serve() as client:
        assert client.get("/ready").json()["status"] == "ready"
        assert [row["key"] for row in sessions(client)] == [row["key"] for row in sessions_before]
        assert content(client, artifact) == content_before == CONTENT
    with psycopg.connect(deployment.url) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute("DELETE FROM accounts_auditentry")
