"""Changed code is what the next run uses, and pages say which code ran."""

from __future__ import annotations

import subprocess
from pathlib import Path

from asgiref.sync import sync_to_async
from django.test import Client

from sessions_app.models import Run
from tests.pages.page import Element, parse, table
from tests.runtime.conftest import Stage, read_events


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it says."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    told = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return told.stdout.strip()


async def page(address: str) -> Element:
    return parse((await sync_to_async(Client().get)(address)).content)


async def test_the_next_run_uses_what_was_saved_and_pages_name_both_versions(supervise, agents_dir: Path):
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

    assert [(each.status, each.git_revision) for each in (old, new)] == [
        (Run.Status.DONE, commit),
        (Run.Status.DONE, f"{commit}+"),
    ]
    assert old.code_version != new.code_version
    assert [event.author for event in await read_events(session)] == ["user", "talker", "user", "renamed"]
    heads = (await page(f"/sessions/id/{session.pk}/")).all("h3", css="invocation-head")
    assert [head.one("code", css="ran").attrs["title"] for head in heads] == [
        f"Code {old.code_version}, commit {commit}",
        f"Code {new.code_version}, commit {commit}+",
    ]
    assert [row["Code"] for row in table(await page("/runs/"))] == [
        new.code_version[:7],
        old.code_version[:7],
    ]
