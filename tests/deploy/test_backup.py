"""The commands of docs/team.md back up a store and restore it into a new database."""

from __future__ import annotations

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

from tests.deploy.deployment import (
    CONTENT,
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

pytestmark = pytest.mark.soak

BACKUP, RESTORE = documented_commands("Back up and restore")


class Server(Deployment):
    """A deployment of one web process."""

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


def wait_for(find: Any, log: Path) -> Any:
    """Return the first true result."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if result := find():
            return result
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def back_up(deployment: Deployment) -> Rows:
    """Run the documented commands, again if rows were added meanwhile: indexing goes on after the last run."""
    while True:
        before = deployment.rows()
        for command in BACKUP:
            deployment.run(command)
        after = deployment.rows()
        if count_rows(before) == count_rows(after):
            return after


def count_rows(rows: Rows) -> dict[str, int]:
    """Return the number of rows by table."""
    return {name: len(table) for name, table in rows.items()}


def test_documented_commands_restore_everything(cluster: Cluster, tmp_path: Path):
    deployment = Server(cluster, tmp_path)
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
        wait_for(lambda: len(list_sessions(client)) > demo / 2, tmp_path / "log")
    with deployment.serve() as client:
        # it carries out what was queued when the first one stopped; then nothing is written any more
        wait_for(lambda: not deployment.has_active_runs(), tmp_path / "log")
        sessions_before, content_before = list_sessions(client), read_artifact(client, artifact)
        rows = back_up(deployment)
    assert len(rows["accounts_auditentry"]) == 1
    assert sum(map(len, rows.values())) > 500

    subprocess.run(["rm", "-r", *map(str, deployment.data.iterdir())], check=True)
    *commands, start = RESTORE
    for command in commands:
        deployment.run(command)
    restored = deployment.rows()
    assert count_rows(restored) == count_rows(rows)
    assert shlex.split(start)[:3] == ["docker", "compose", "up"]
    with deployment.serve() as client:
        assert client.get("/ready").json()["status"] == "ready"
        assert [row["key"] for row in list_sessions(client)] == [row["key"] for row in sessions_before]
        assert read_artifact(client, artifact) == content_before == CONTENT
    with psycopg.connect(deployment.url) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute("DELETE FROM accounts_auditentry")
