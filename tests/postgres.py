"""A PostgreSQL server of a single test, which it can stop and start."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.ports import find_free_port
from tests.required_programs import missing

PATIENCE_S = 240
"""Seconds that a program of PostgreSQL may take. A virtual machine can stand still for a minute."""


class Cluster:
    """A PostgreSQL server of the test's own."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries, self._data = binaries, folder / "data"
        self._port = find_free_port()
        self._run("initdb", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        self._options = (
            f"-p {self._port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=400"
        )
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def restart(self, mode: str) -> None:
        """Restart as an update does ("fast"), or as after a crash ("immediate"); return when it answers."""
        self._control("-m", mode, "-l", str(self._data.parent / "log"), "restart")

    def stop(self, mode: str = "immediate") -> None:
        self._control("-m", mode, "stop")

    def pause(self, number: signal.Signals = signal.SIGSTOP) -> None:
        """Let it hang: connections stay open, and nobody answers. SIGCONT lets it go on."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        for pid in (postmaster, *list_child_processes(postmaster)):
            with suppress(ProcessLookupError):  # a child may have ended since it was listed
                os.kill(pid, number)

    def start(self) -> None:
        """Start it again; return when it answers."""
        self._control("-l", str(self._data.parent / "log"), "-o", self._options, "start")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-w", "-t", str(PATIENCE_S), *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self._data), *arguments]
        user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        subprocess.run(
            command,
            user=user,
            cwd=self._data.parent,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )


def list_child_processes(parent: int) -> list[int]:
    """Return the ids of a process's children."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's newest server programs, or None when there is none to be run."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("pg_ctl")
    server = programs[-1] if programs else Path(on_path).resolve() if on_path else None
    if server is None or (os.geteuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}):
        return None
    return server.parent


@contextmanager
def private_cluster() -> Iterator[Cluster]:
    """Create and start a server; remove it afterwards."""
    programs = binaries()
    if programs is None:
        missing("no PostgreSQL server programs (initdb, pg_ctl) are installed to start a private server")
    folder = Path(tempfile.mkdtemp(prefix="devui-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    started = Cluster(programs, folder)
    try:
        yield started
    finally:
        started.stop()
        shutil.rmtree(folder)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with private_cluster() as started:
        yield started
