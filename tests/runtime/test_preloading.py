"""Preloading: which processes are started before their first message, and when."""

from __future__ import annotations

import asyncio

import pytest
from django.core.exceptions import ImproperlyConfigured

from devui.management.commands import web
from devui.serving import preloading
from devui.serving.preloading import preload_after_responses, preload_agents
from devui.supervisor import Supervisor
from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import RuntimeUnavailable
from sessions_app.store.models import Run, RuntimeProcess
from tests.runtime.conftest import Stage, is_running, pid_of, until, wait_until_gone

STARTED = RuntimeProcess.objects.exclude(server=None).order_by("started_at")


@pytest.fixture(autouse=True)
def short_pause(monkeypatch) -> None:
    """Check often whether the machine is idle."""
    monkeypatch.setattr(preloading, "PAUSE_S", 0.02)


async def started_apps() -> list[str]:
    """Return the apps of all processes that were started, oldest first."""
    return await units_of_work.read(lambda: list(STARTED.values_list("app_name", flat=True)))


async def end_process(stage: Stage, app: str) -> None:
    """End the living process of an app."""
    row = await units_of_work.read(STARTED.filter(stopped_at=None).get, app_name=app)
    await stage.supervisor.end_process(row.pk, "The test ends it.")


def note_check(checks: list[bool], result: bool) -> bool:
    """Add the result of a check to a list, and return it."""
    checks.append(result)
    return result


async def wait_for_checks(checks: list[bool]) -> None:
    """Wait until a check was repeated."""

    async def count_checks() -> int:
        return len(checks)

    await until(count_checks, lambda count: count > 2)


async def test_most_recently_used_agents_are_preloaded_first(supervise):
    async with supervise() as stage:
        for app in ("napper", "talker", "patient", "napper", "removed"):
            await stage.session(app)

        await preload_agents(stage.supervisor)

        assert await started_apps() == ["napper", "patient", "talker"]


async def test_broken_agents_do_not_stop_preloading(supervise, agents_dir, caplog):
    (agents_dir / "patient" / "agent.py").write_text("import os\nos._exit(7)\n")
    async with supervise() as stage:
        for app in ("talker", "patient", "broken", "napper"):
            await stage.session(app)
        usual_start = stage.supervisor._start_child

        async def start_child(app_name, *details):
            if app_name == "napper":
                raise RuntimeUnavailable("There are no more processes.")
            return await usual_start(app_name, *details)

        stage.supervisor._start_child = start_child
        await preload_agents(stage.supervisor)

        assert await started_apps() == ["broken", "patient", "talker"]
        assert "Agent 'napper' was not preloaded: There are no more processes." in caplog.text


async def test_preloading_leaves_a_kept_process_for_another_app(supervise):
    async with supervise(max_idle=3) as stage:
        for app in ("talker", "patient", "napper"):
            await stage.session(app)
        await pid_of(stage, "written")

        await preload_agents(stage.supervisor)

        assert await started_apps() == ["written", "napper"]


async def test_agents_are_not_preloaded_during_a_run(supervise, monkeypatch):
    checks: list[bool] = []
    has_active_runs = preloading._has_active_runs
    monkeypatch.setattr(preloading, "_has_active_runs", lambda: note_check(checks, has_active_runs()))
    async with supervise() as stage:
        run = await stage.queue(await stage.session("talker"), "say hi")
        preloads = asyncio.create_task(preload_agents(stage.supervisor))
        await wait_for_checks(checks)
        assert await started_apps() == []

        await units_of_work.write(lifecycle.finish, run.pk, Run.Status.CANCELLED)
        await preloads

        assert checks[-2:] == [True, False]
        assert await started_apps() == ["talker"]


async def test_agents_are_not_preloaded_while_another_starts(supervise, agents_dir, monkeypatch):
    checks: list[bool] = []
    is_starting = Supervisor.is_starting.fget
    monkeypatch.setattr(
        Supervisor, "is_starting", property(lambda supervisor: note_check(checks, is_starting(supervisor)))
    )
    gate = agents_dir / "gate.txt"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists():\n    time.sleep(0.02)\n"
    source = agents_dir / "napper" / "agent.py"
    source.write_text(wait + source.read_text())
    async with supervise() as stage:
        await stage.session("talker")
        napper = await stage.supervisor.child("napper")
        preloads = asyncio.create_task(preload_agents(stage.supervisor))
        await wait_for_checks(checks)
        assert await started_apps() == ["napper"]

        gate.touch()
        await preloads

        assert napper.ready.is_set()
        assert await started_apps() == ["napper", "talker"]


async def test_unused_agent_is_preloaded_once_for_each_version_of_its_code(supervise, agents_dir):
    async with supervise() as stage:
        await stage.session("talker")
        await preload_agents(stage.supervisor)
        await end_process(stage, "talker")
        await preload_agents(stage.supervisor)
        assert await started_apps() == ["talker"]

        (agents_dir / "talker" / "extra.py").write_text("")
        await preload_agents(stage.supervisor)

        assert await started_apps() == ["talker"] * 2


async def test_agent_is_preloaded_again_after_its_use(supervise):
    async with supervise() as stage:
        await stage.session("talker")
        await preload_agents(stage.supervisor)
        await pid_of(stage, "talker")
        await end_process(stage, "talker")

        await preload_agents(stage.supervisor)

        assert await started_apps() == ["talker"] * 2


async def test_unused_process_is_ended_before_a_used_one(supervise):
    async with supervise(max_idle=3, sweep=0.2) as stage:
        await stage.session("napper")
        talker = await pid_of(stage, "talker")
        await preload_agents(stage.supervisor)
        napper = await units_of_work.read(STARTED.get, app_name="napper")
        assert is_running(napper.pid)

        for app in ("patient", "written"):
            await pid_of(stage, app)

        await wait_until_gone(napper.pid)
        assert is_running(talker)


async def test_supervisor_that_closes_ends_preloading(supervise, agents_dir):
    (agents_dir / "talker" / "agent.py").write_text("import time\ntime.sleep(60)\n")
    async with supervise() as stage:
        for app in ("patient", "talker"):
            await stage.session(app)
        stage.supervisor.spawn(preload_after_responses(stage.supervisor))
        row = await until(lambda: units_of_work.read(STARTED.first), lambda row: row is not None)

    assert not is_running(row.pid)
    assert await started_apps() == ["talker"]


@pytest.mark.parametrize(("value", "is_preloading"), [("", True), ("1", True), ("0", False)])
def test_setting_switches_preloading_off(agents_dir, monkeypatch, value, is_preloading):
    monkeypatch.setenv("DEVUI_RUNTIME_PRELOAD", value)
    assert (read_sources(agents_dir).after_first_page is not None) == is_preloading


def test_invalid_setting_is_refused(agents_dir, monkeypatch):
    monkeypatch.setenv("DEVUI_RUNTIME_PRELOAD", "often")
    with pytest.raises(ImproperlyConfigured, match="DEVUI_RUNTIME_PRELOAD='often' is neither 1 nor 0"):
        read_sources(agents_dir)


def read_sources(agents_dir) -> web.AgentSources:
    """Return the agents of the command `web` without further arguments."""
    parser = web.Command().create_parser("manage.py", "web")
    return web._own_agents(vars(parser.parse_args([str(agents_dir)])))
