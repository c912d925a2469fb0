"""Fixtures of all tests: a store per test, and skips with a reason."""

from __future__ import annotations

import gc
import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.browser",
    "tests.emptied_store",
    "tests.pages.client",
    "tests.plugin_packages",
    "tests.postgres",
    "tests.runnable_app",
]

TEAMS = "tests/workers/"
"""Tests that start teams of web processes and workers."""

SECOND_TEAMS = f"{TEAMS}test_endp"
"""First file of the second half: both halves take about the same time."""

FIRST = (TEAMS, "tests/test_with_")
"""Tests that run one after the other and take longer than any file: begun last, they would leave two workers idle."""

ALL_SOAK = re.compile(r"^pytestmark = .*\bmark\.soak\b", re.MULTILINE)
"""Line of a module of which every test takes long."""

SEED = os.environ.get("DEVUI_TEST_SEED", "")
"""Modules come in an order of this seed; without one, as in `make test`, in that of their names."""

HALF = os.environ.get("DEVUI_TEST_HALF", "")
"""Half of the modules that are run, 0 or 1; empty: all. CI runs one half of the long tests with each commit."""

settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak", settings.get_profile("steady"), derandomize=False, max_examples=500, print_blob=True
)
settings.load_profile("steady")  # the same examples in every run without a seed


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests' store apart from a developer's own, whatever DATABASE_URL says.

    Servers load no agents before they are used: that would slow down the other tests. Garbage is not collected until
    all tests are known: nearly all that is made until then stays. Until then nltk, which ADK imports, does not find
    scipy: users do not have it, and it takes a second.
    """
    os.environ.pop("DEVUI_AGENTS_DIR", None)
    os.environ["DEVUI_RUNTIME_PRELOAD"] = "0"
    gc.disable()
    sys.modules["scipy.stats"] = None


def pytest_report_header() -> str | None:
    """Say how to repeat the order of a run, and which half of the modules it has."""
    lines = [f"order of modules: DEVUI_TEST_SEED={SEED}"] if SEED else []
    return "; ".join([*lines, *([f"half of the modules: DEVUI_TEST_HALF={HALF}"] if HALF else [])]) or None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module whose tests would all be left out as `soak`: each of the workers would import it."""
    is_left_out = (
        "not soak" in config.option.markexpr
        and collection_path.suffix == ".py"
        and ALL_SOAK.search(collection_path.read_text())
    )
    return True if is_left_out else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let no collection of garbage look at the tests and the modules, which live to the end: an eighth of all time."""
    sys.modules.pop("scipy.stats", None)
    gc.collect()
    gc.freeze()
    gc.enable()


def module_order(seed: str) -> Callable[[str], float]:
    """Return the sort key of tests' names by which their modules come in an order of a seed."""
    return lambda name: random.Random(seed + name.partition("::")[0]).random()


def assign_half(name: str) -> int:
    """Return the half of the modules, 0 or 1, that the test of this name belongs to."""
    return crc32(name.partition("::")[0].encode()) % 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what touches the store; skip what takes long, and say so: `make soak` runs it.

    `FIRST` comes first. With a seed, the modules come in its order, each with its tests in theirs.
    """
    if HALF:
        left_out = [item for item in items if assign_half(item.nodeid) != int(HALF)]
        items[:] = [item for item in items if assign_half(item.nodeid) == int(HALF)]
        config.hook.pytest_deselected(items=left_out)
    if SEED:
        key = module_order(SEED)
        items.sort(key=lambda item: key(item.nodeid))
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    for item in items:
        if "django_db_setup" in getattr(item, "fixturenames", ()) or item.get_closest_marker("django_db"):
            item.add_marker("store")
        if "soak" in item.keywords and "soak" not in config.option.markexpr:
            item.add_marker(pytest.mark.skip(reason="takes long: run by `make soak`"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker whole files, whose tests share processes and browsers, and some folders in one piece.

    The tests of `tests/e2e` share a server. Those of `tests/workers` start teams, whose ends are timed: at
    most two teams run at once.

    xdist's own groups are not heard with pytest 9.2 (pytest-xdist issue 1386).
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/e2e/"):
                return "tests/e2e"
            if nodeid.startswith(TEAMS):
                return "first teams" if nodeid < SECOND_TEAMS else "second teams"
            return super()._split_scope(nodeid)

    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give the tests a data folder of their own: on PostgreSQL the files of a store are in it.

    Tests that name no agents have none: the default, the current folder, is the whole project, which pages would search
    for agents each time.
    """
    from django.conf import settings

    settings.DATA_DIR = tmp_path_factory.mktemp("data")
    settings.DEVUI_AGENTS_DIR = str(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="session", autouse=True)
def static_files() -> Iterator[None]:
    """List the static files once for all the clients of the tests, not once for each."""
    from django.conf import settings

    from devui.web.middleware import StaticFiles

    listed: dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]] = {}
    add = StaticFiles.add_files_from_finders

    def add_listed(self: Any) -> None:
        cache_key = (
            self.static_prefix,
            self.max_age,
            *settings.STATICFILES_FINDERS,
            *settings.STATICFILES_DIRS,
        )
        if cache_key not in listed:
            add(self)
            listed[cache_key] = dict(self.files), dict(self._known)
        files, known_files = listed[cache_key]
        self.files.update(files)
        self._known.update(known_files)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFiles, "add_files_from_finders", add_listed)
        yield


@pytest.fixture(autouse=True)
def files_of_the_store(request: pytest.FixtureRequest, data_dir: None) -> None:
    """Start each test of the store without the content that others left in files, as without their rows."""
    if request.node.get_closest_marker("store"):
        request.getfixturevalue("django_db_setup")  # from here on the store is the tests', not a developer's
        from sessions_app.store.artifacts import content_files

        shutil.rmtree(content_files.folder(), ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[None]:
    """SQLite tests use a file: the store is read from several threads, which an in-memory one is not for.

    The store is made whoever asks for it: pytest-django makes none when the tests that run share one by a fixture of
    their module alone, and these would write to a developer's own.
    """
    from django.conf import settings
    from pytest_django import fixtures

    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        folder: Path = tmp_path_factory.mktemp("store")
        database.setdefault("TEST", {})["NAME"] = str(folder / f"test-{worker_id}.sqlite3")
    elif worker_id != "master":
        database.setdefault("TEST", {})["NAME"] = f"test_{database['NAME']}_{worker_id}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixtures, "_get_databases_for_setup", lambda items: ({"default"}, set()))
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Empty the store after a test by deletes from the tables that have rows; on PostgreSQL wait for no disk.

    A test kills processes, never the machine. Django's `flush` deletes from every table, or truncates them on
    PostgreSQL, which makes and syncs new files: both take longer than most tests. On SQLite a test keeps the connection
    of the one before.
    """
    from django.db import connection, transaction
    from django.test import TransactionTestCase

    on_postgres = connection.vendor == "postgresql"
    with django_db_blocker.unblock():
        if on_postgres:
            with connection.cursor() as cursor:
                name = connection.ops.quote_name(connection.settings_dict["NAME"])
                cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
        if not on_postgres:  # full-text indexes, which are tables that Django does not know
            with connection.cursor() as cursor:
                cursor.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE %'")
                tables += [name for (name,) in cursor.fetchall()]
        connection.close()
    names_with_rows = " UNION ALL ".join(
        f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {connection.ops.quote_name(table)})"
        for table in tables
    )

    def delete_rows(case: TransactionTestCase) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(names_with_rows)
            for (table,) in cursor.fetchall():
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", delete_rows)
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda case: on_postgres)
        yield
    if not on_postgres:
        return
    with (
        django_db_blocker.unblock(),
        connection.cursor() as cursor,
    ):  # threads of clients may still be connected
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(scope="module")
def module_store(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The tests' store, emptied after the module's last test."""
    from django.test import TransactionTestCase

    from sessions_app.store.database import units_of_work

    with django_db_blocker.unblock():
        yield
        units_of_work.close_pools()
        TransactionTestCase()._fixture_teardown()
