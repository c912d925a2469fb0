"""Commands with a wrong set-up end with one line; the default installs nothing of the engine."""

from __future__ import annotations

import socket
import subprocess
import sys

import psycopg
import pytest

from tests import forked_processes
from tests.runtime.web_command import ROOT
from tests.workers.conftest import agents_of_team
from tests.workers.team import own_database, postgres_server, team_environment

UNSET_UP = """
import django, sys
django.setup()
from django.conf import settings
from django.core.management import call_command
import devui.management.commands.web, devui.serving.server, devui.remote
assert not [name for name in sys.modules if name.startswith(("procrastinate", "devui.workers"))]
assert not {"devui.workers", "procrastinate.contrib.django"} & set(settings.INSTALLED_APPS)
"""

COLLECTS = """
import asyncio, gc, sys
from devui.__main__ import main

def run(server):
    server.close()
    print("The collector is enabled:", gc.isenabled())

asyncio.run = run
main()
"""


def devui(database: str, folder, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return forked_processes.run(
        [sys.executable, "-m", "devui", *command],
        env={**team_environment(database, folder), **environment},
        cwd=ROOT,
    )


def test_without_engine_nothing_of_it_is_imported(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", UNSET_UP],
        env={
            **team_environment(f"sqlite:///{tmp_path}/d.sqlite3", tmp_path),
            "DEVUI_ENGINE": "",
            "DJANGO_SETTINGS_MODULE": "devui.settings",
        },
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert ended.returncode == 0, ended.stderr


def test_worker_without_engine_is_refused(tmp_path):
    ended = devui(f"sqlite:///{tmp_path}/d.sqlite3", tmp_path, "worker", str(tmp_path), DEVUI_ENGINE="")
    assert ended.returncode == 2
    assert ended.stderr.startswith("CommandError: A worker needs DEVUI_ENGINE=procrastinate")
    assert ended.stderr.count("\n") == 1


def test_engine_without_shared_secret_is_refused(tmp_path):
    ended = devui("postgresql://x@127.0.0.1/x", tmp_path, "check", DEVUI_SECRET_KEY="")
    assert ended.returncode == 2
    assert "needs DEVUI_SECRET_KEY, with the same value for all web processes and workers" in ended.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("worker", "{empty}"), "has no agents"),
        (("worker", "{agents}", "--queues", "mail"), "there is no queue 'mail'"),
        (("worker", "{agents}", "--concurrency", "0"), "--concurrency 0 is not a positive number"),
        (("worker", "{agents}", "--listen", "8000"), "--listen '8000' is not HOST:PORT"),
        (("worker", "{agents}", "--advertise", "worker-1"), "--advertise 'worker-1' is not HOST:PORT"),
        (("worker", "{agents}", "--advertise", "0.0.0.0:8100"), "no address that web processes can use"),
        (("worker", "{agents}", "--advertise", "worker-1:0"), "no address that web processes can use"),
        (("web", "{agents}", "--demo", "f.json"), "--demo needs a server with runtimes of its own"),
        (("team", "{empty}"), "has no agents"),
        (("team", "{agents}", "--workers", "0"), "--workers 0 is not a positive number"),
        (("team", "{agents}", "--port", "65535"), "65536 is not a port number"),
        (("web", "--runtime", "go=http://127.0.0.1:1"), "--runtime needs a server with runtimes of its own"),
    ],
)
def test_wrong_option_is_refused_in_one_line(tmp_path, command, words):
    (tmp_path / "empty").mkdir()
    paths = {"empty": str(tmp_path / "empty"), "agents": str(agents_of_team(tmp_path))}
    arguments = [part.format(**paths) for part in command]
    ended = devui("postgresql://postgres@127.0.0.1:1/none", tmp_path, *arguments)
    assert ended.returncode == 2, ended.stderr
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_worker_on_a_port_that_is_taken_names_its_option(tmp_path):
    agents = agents_of_team(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        address = f"127.0.0.1:{occupied.getsockname()[1]}"
        ended = devui(
            "postgresql://postgres@127.0.0.1:1/none", tmp_path, "worker", str(agents), "--listen", address
        )
    assert ended.returncode == 2
    assert "is in use. Stop the process that uses it, or select another --listen." in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["web", "worker"])
def test_server_collects_garbage(tmp_path, command):
    """The collector is off while a command is imported; each forwarded request leaves cycles."""
    with own_database() as database:
        ended = forked_processes.run(
            [sys.executable, "-c", COLLECTS, command, str(agents_of_team(tmp_path))],
            env=team_environment(database, tmp_path),
            cwd=ROOT,
        )
    assert "The collector is enabled: True" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.soak
def test_worker_refuses_a_store_that_a_newer_version_wrote(tmp_path):
    with own_database() as database:
        assert devui(database, tmp_path, "migrate").returncode == 0
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO django_migrations VALUES (DEFAULT, 'devui_workers', '9999_new', now())"
            )
        ended = devui(database, tmp_path, "worker", str(agents_of_team(tmp_path)))
    assert ended.returncode == 2
    assert "written by a newer DevUI: it has the unknown migration devui_workers.9999_new." in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_worker_with_an_unknown_database_says_so_in_one_line(tmp_path):
    ended = devui(f"{postgres_server()}/none_of_these", tmp_path, "worker", str(agents_of_team(tmp_path)))
    assert ended.returncode == 2
    assert 'database "none_of_these" does not exist. Set DATABASE_URL to a store' in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_migrations_of_workers_are_complete(tmp_path):
    with own_database() as database:
        ended = devui(database, tmp_path, "makemigrations", "--check", "--dry-run", "devui_workers")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_make_team_starts_the_command_with_the_example_agents():
    make_output = subprocess.run(["make", "-n", "team"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "manage.py team examples/agents --port 8000" in make_output.stdout


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "postgresql://postgres@127.0.0.1:1/devui",
            "PostgreSQL cannot be used at postgresql://postgres@127.0.0.1:1/devui",
        ),
        ("sqlite:///d.sqlite3", "DEVUI_ENGINE='procrastinate' needs PostgreSQL: set DATABASE_URL="),
    ],
)
def test_team_without_postgresql_says_what_to_do_in_one_line(tmp_path, url, words):
    ended = devui(url, tmp_path, "team", str(agents_of_team(tmp_path)))
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "DATABASE_URL=postgresql://user:password@host:5432/name" in ended.stderr
    assert ended.stderr.count("\n") == 1
