"""Teams of web processes and workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evals.builders import case, evalset, turn, write
from tests.postgres import binaries, private_cluster
from tests.runtime.conftest import copy_of_stage
from tests.workers.team import Team, Web, own_database

CASES = 16
WORDS = " ".join(f"w{number}" for number in range(20))
"""A talker takes a second for these words."""


@pytest.fixture(scope="session", autouse=True)
def server_of_teams() -> Iterator[None]:
    """A PostgreSQL server for the teams: two of them would need all connections that a server allows by default."""
    if binaries() is None:
        yield
        return
    with private_cluster() as cluster, pytest.MonkeyPatch.context() as environment:
        environment.setenv("DEVUI_TEST_POSTGRES", cluster.url)
        yield


def agents_of_team(folder: Path) -> Path:
    """Copy the stage's agents to a folder, with an evalset of the talker."""
    agents = copy_of_stage(folder)
    cases = [case(f"c{number}", turn(f"say {WORDS}", WORDS)) for number in range(CASES)]
    write(agents / "talker", "talk.evalset.json", evalset(*cases))
    return agents


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A team without members."""
    with own_database() as database:
        team = Team(tmp_path, database, agents_of_team(tmp_path))
        try:
            yield team
        finally:
            team.end()


@pytest.fixture(scope="module")
def shared_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, Web, Web]]:
    """A team of two web processes and a worker, which the module's tests share."""
    folder = tmp_path_factory.mktemp("team")
    with own_database() as database:
        team = Team(folder, database, agents_of_team(folder))
        try:
            webs = team.start_web(), team.start_web()
            team.start_worker()
            team.await_workers(1)
            yield team, *webs
        finally:
            team.end()
