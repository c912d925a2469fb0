"""Changed code is loaded for the next run, and pages show which code ran."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from devui.supervisor import supervisor
from devui.supervisor.client import AppClient
from devui.supervisor.runtime_process import RuntimeChild
from sessions_app.agents.folder import open_folder
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentCard, AgentSession, Run
from tests.pages.html import Element, parse, table
from tests.runtime.conftest import Stage, read_events, until, wait_until_gone


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it says."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    process = subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return process.stdout.strip()


async def page(address: str) -> Element:
    return parse((await sync_to_async(Client().get)(address)).content)


async def test_next_run_uses_saved_code_and_pages_name_both_versions(supervise, agents_dir: Path):
    source = agents_dir / "talker" / "agent.py"
    git(agents_dir, "init", "--quiet")
    git(agents_dir, "add", ".")
    git(agents_dir, "commit", "--quiet", "-m", "one")
    commit = git(agents_dir, "rev-parse", "HEAD")
    async with supervise() as stage:
        assert isinstance(stage, Stage)
        session = await stage.session("talker")
        old = await stage.run(session, "say one")
        source.write_text(source.read_text().replace('name="talker"', 'name="renamed"'))
        new = await stage.run(session, "say two")

    assert [each.status for each in (old, new)] == [Run.Status.DONE] * 2
    assert old.git_revision == commit
    assert new.git_revision.startswith(f"{commit}+"), "with a digest of the changes"
    assert old.code_version != new.code_version
    assert [event.author for event in await read_events(session)] == ["user", "talker", "user", "renamed"]
    heads = (await page(f"/sessions/id/{session.pk}/")).all("h2", css="invocation-head")
    assert [head.one("code", css="ran").attrs["title"] for head in heads] == [
        f"Code {old.code_version}, commit {commit}",
        f"Code {new.code_version}, commit {new.git_revision}",
    ]
    assert [row["Code"] for row in table(await page("/runs/"))] == [
        new.code_version[:7],
        old.code_version[:7],
    ]


async def ran_by(session: AgentSession) -> list[str]:
    """Return who spoke in a session, but the user."""
    return [event.author for event in await read_events(session) if event.author != "user"]


async def test_code_saved_during_a_start_is_loaded_and_recorded(supervise, agents_dir: Path):
    source, may_load = agents_dir / "talker" / "agent.py", agents_dir / "may_load"
    waiting = f"import time, pathlib\nwhile not pathlib.Path({str(may_load)!r}).exists(): time.sleep(0.01)\n"
    (agents_dir / "services.py").write_text(waiting)
    async with supervise() as stage:
        session = await stage.session("talker")
        starting = asyncio.create_task(stage.start(session, "say hi"))
        await until(lambda: units_of_work.read(Run.objects.filter(runtime__isnull=False).count), bool)
        source.write_text(source.read_text().replace('name="talker"', 'name="saved"'))
        may_load.touch()
        run = await stage.end_of(await starting)
        health = await stage.health("talker")

    present = open_folder(agents_dir).code_version("talker")
    assert (await ran_by(session), run.code_version, health["code_version"]) == (["saved"], present, present)
    card = await units_of_work.read(AgentCard.objects.get, app_name="talker")
    assert card.code_version == present


@pytest.mark.soak
async def test_process_that_hangs_while_loading_ends_on_newer_code(
    supervise, agents_dir: Path, tmp_path: Path
):
    source, pid = agents_dir / "talker" / "agent.py", tmp_path / "pid"
    good = source.read_text()
    source.write_text(
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nwhile True: time.sleep(0.01)\n"
    )
    async with supervise() as stage:
        session = await stage.session("talker")
        starting = asyncio.create_task(stage.start(session, "say hi"))
        await until(lambda: asyncio.to_thread(lambda: pid.exists() and pid.read_text()), bool)
        source.write_text(good)
        run = await stage.end_of(await starting)
        await wait_until_gone(int(pid.read_text()))

    assert (run.status, run.code_version) == (
        Run.Status.DONE,
        open_folder(agents_dir).code_version("talker"),
    )
    card = await units_of_work.read(AgentCard.objects.get, app_name="talker")
    assert card.status == AgentCard.Status.READY


@pytest.mark.soak
async def test_run_survives_the_replaced_process_that_ends_before_the_next_delivery(
    supervise, agents_dir: Path, tmp_path: Path, monkeypatch
):
    source, pid = agents_dir / "talker" / "agent.py", tmp_path / "pid"
    good = source.read_text()
    source.write_text(
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nwhile True: time.sleep(0.01)\n"
    )
    send = AppClient._send_run

    async def wait_for_the_end(self: AppClient, child: RuntimeChild, run_id: str) -> bool:
        if await send(self, child, run_id):
            return True
        await child.exited.wait()
        return False

    monkeypatch.setattr(AppClient, "_send_run", wait_for_the_end)
    async with supervise() as stage:
        session = await stage.session("talker")
        starting = asyncio.create_task(stage.start(session, "say hi"))
        await until(lambda: asyncio.to_thread(lambda: pid.exists() and pid.read_text()), bool)
        source.write_text(good)
        run = await stage.end_of(await starting)
    assert (run.status, run.error) == (Run.Status.DONE, "")


@pytest.mark.soak
async def test_code_that_is_saved_while_it_is_loaded_is_loaded_again(supervise, agents_dir: Path):
    source = agents_dir / "talker" / "agent.py"
    saved = source.read_text().replace('name="talker"', 'name="saved"')
    source.write_text(f"open(__file__, 'w').write({saved!r})\n{source.read_text()}")
    async with supervise() as stage:
        session = await stage.session("talker")
        run = await stage.run(session, "say hi")

    assert (await ran_by(session), run.code_version) == (
        ["saved"],
        open_folder(agents_dir).code_version("talker"),
    )


async def test_name_that_is_not_utf_8_ends_the_watch_for_code_with_a_warning(
    supervise, agents_dir: Path, monkeypatch
):
    warnings: list[str] = []
    monkeypatch.setattr(supervisor.log, "warning", lambda text, *values: warnings.append(text % values))
    counter = itertools.count()

    async def make_file() -> list[str]:
        (agents_dir / os.fsdecode(b"k\xf6ln%d.txt" % next(counter))).touch()
        return warnings

    async with supervise() as stage:
        await stage.health("talker")
        [warning] = await until(make_file, bool)
        assert warning.startswith("Code changes are detected when the next run starts: Unable to decode path")


@pytest.mark.soak
async def test_agent_that_writes_code_while_loading_runs(supervise, agents_dir: Path):
    source = agents_dir / "talker" / "agent.py"
    stamp = "import time\nopen(__file__ + '.stamp.py', 'w').write(f'AT = {time.time_ns()}')\n"
    source.write_text(stamp + source.read_text())
    async with supervise() as stage:
        runs = [await stage.run(await stage.session("talker"), "say hi") for _ in range(2)]
        version = (await stage.health("talker"))["code_version"]

    assert [(run.status, run.code_version) for run in runs] == [(Run.Status.DONE, version)] * 2


@pytest.mark.soak
async def test_a_run_that_waits_for_its_turn_begins_with_the_code_of_then(supervise, agents_dir: Path):
    source = agents_dir / "talker" / "agent.py"
    async with supervise() as stage:
        session = await stage.session("talker")
        first = await stage.start(session, "say " + "word " * 40, streaming=True)
        await stage.first_text(first, "talker")
        second = await stage.start(session, "say two", streaming=True)
        frames = asyncio.create_task(stage.frames(second, "talker"))
        source.write_text(source.read_text().replace('name="talker"', 'name="saved"'))
        ended = [await stage.end_of(run) for run in (first, second)]
        statuses = [frame["status"] for frame in await frames if frame["type"] == "status"]

    assert [run.status for run in ended] == [Run.Status.DONE] * 2
    assert await ran_by(session) == ["talker", "saved"]
    assert ended[1].code_version == open_folder(agents_dir).code_version("talker") != ended[0].code_version
    assert statuses == ["queued", "running", "done"]
