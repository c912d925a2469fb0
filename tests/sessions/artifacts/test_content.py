"""Storage of artifact content; no row is ever without its content."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing as closing_connection
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pytest
from django.core.management import call_command
from django.db import connection, connections

from sessions_app.adk import DjangoArtifactService
from sessions_app.store.artifacts import artifact_versions, content_files
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import ContentMissing, StoreFull
from sessions_app.store.models import Artifact
from tests import forked_processes
from tests.sessions.artifacts.files import SESSION, data, large, text

T = TypeVar("T")

pytestmark = pytest.mark.django_db(transaction=True)


def files() -> list[str]:
    return sorted(content_files.list_names())


def closing(work: Callable[..., T], *args: Any) -> T:
    """Use the store in a thread that ends with its connection."""
    try:
        return work(*args)
    finally:
        connections.close_all()


async def test_small_content_is_in_the_row_and_large_content_in_a_file(artifacts: DjangoArtifactService):
    edge = data(b"x" * content_files.MAX_INLINE_BYTES)
    await artifacts.save_artifact(**SESSION, filename="small", artifact=edge)
    assert files() == []
    await artifacts.save_artifact(**SESSION, filename="large", artifact=large())
    row = await units_of_work.read(Artifact.objects.get, filename="large")
    assert (row.content, row.size, files()) == (None, 100_000, [row.sha256])
    assert await artifacts.load_artifact(**SESSION, filename="small") == edge
    assert await artifacts.load_artifact(**SESSION, filename="large") == large()


async def test_equal_content_is_stored_once(artifacts: DjangoArtifactService):
    for name in ("a", "a", "b"):
        await artifacts.save_artifact(**SESSION, filename=name, artifact=large())
    assert len(files()) == 1


async def test_content_is_deleted_with_its_last_reference(artifacts: DjangoArtifactService):
    for name in ("a", "b"):
        await artifacts.save_artifact(**SESSION, filename=name, artifact=large())
    await artifacts.delete_artifact(**SESSION, filename="a")
    assert await artifacts.load_artifact(**SESSION, filename="b") == large()
    await artifacts.delete_artifact(**SESSION, filename="b")
    assert files() == []


async def test_cleanup_removes_unreferenced_content(artifacts: DjangoArtifactService):
    await artifacts.save_artifact(**SESSION, filename="kept", artifact=large())
    with content_files.store_content(b"z" * 100_000) as orphan:
        half_written = content_files.folder() / "ab" / "abtmp123"
        half_written.parent.mkdir(exist_ok=True)
        half_written.write_bytes(b"half")
    assert orphan.sha256 in files()
    assert await asyncio.to_thread(closing, artifact_versions.remove_orphaned_content) == 2
    assert await artifacts.load_artifact(**SESSION, filename="kept") == large()
    assert len(files()) == 1


def test_clean_up_waits_for_a_save_that_has_its_file_and_not_yet_its_row(artifacts: DjangoArtifactService):
    key = artifact_versions.file_key("", "office", "ann", "s1", "a")
    draft = artifact_versions.VersionMetadata(Artifact.Holding.DATA, "{}", None, "{}", "s1")
    with ThreadPoolExecutor(1) as pool:
        with content_files.store_content(b"z" * 100_000) as payload:
            cleaning = pool.submit(closing, artifact_versions.remove_orphaned_content)
            saved = artifact_versions.save(key, draft, payload)
            assert not cleaning.done()
        assert cleaning.result() == 0
    assert artifact_versions.read_content(saved) == b"z" * 100_000


async def test_without_room_for_the_file_nothing_is_saved(artifacts: DjangoArtifactService, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull, match="No space"):
        await artifacts.save_artifact(**SESSION, filename="a", artifact=large())
    assert files() == []
    assert await artifacts.list_versions(**SESSION, filename="a") == []


async def test_lost_content_is_an_error_that_names_the_file(artifacts: DjangoArtifactService):
    await artifacts.save_artifact(**SESSION, filename="a", artifact=large())
    row = await units_of_work.read(Artifact.objects.get)
    content_files.remove(row.sha256)
    with pytest.raises(ContentMissing, match=row.sha256) as raised:
        await artifacts.load_artifact(**SESSION, filename="a")
    assert "DEVUI_DATA_DIR" in raised.value.hint


async def test_a_cancelled_save_leaves_no_row_without_its_file(artifacts: DjangoArtifactService):
    for n in range(5):
        saving = asyncio.ensure_future(
            artifacts.save_artifact(**SESSION, filename="a", artifact=large(bytes([n])))
        )
        await asyncio.sleep(0.002 * n)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    saved = await artifacts.list_versions(**SESSION, filename="a")
    assert saved
    for version in saved:
        assert await artifacts.load_artifact(**SESSION, filename="a", version=version) is not None


def test_savers_in_several_threads_never_get_the_same_version(artifacts: DjangoArtifactService):
    key = artifact_versions.file_key("", "office", "ann", "s1", "a")
    draft = artifact_versions.VersionMetadata(Artifact.Holding.TEXT, "{}", "text/plain", "{}", "s1")

    def save_ten() -> list[int]:
        with content_files.store_content(b"x") as payload:
            return [artifact_versions.save(key, draft, payload).version for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        got = [version for versions in pool.map(closing, [save_ten] * 4) for version in versions]
    assert sorted(got) == list(range(40))


SAVER = """
import asyncio, sys
import devui
devui.setup(sys.argv[1])
from google.genai import types
from sessions_app.store.database import units_of_work as db
from sessions_app.adk import DjangoArtifactService

async def save():
    service = DjangoArtifactService()
    for n in range(10_000):
        part = types.Part(inline_data=types.Blob(data=bytes([n % 256]) * (100_000 + n), mime_type="x/y"))
        await service.save_artifact(app_name="a", user_id="u", session_id="s", filename="f", artifact=part)
        print(n, flush=True)

asyncio.run(save())
"""
KILLED = 3


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the file's own journal is what is tried here")
def test_a_killed_saver_leaves_no_row_without_its_file(artifacts: DjangoArtifactService, tmp_path: Path):
    store = f"sqlite:///{tmp_path / 'killed.sqlite3'}"
    chance, acknowledged = random.Random(3), 0
    for _ in range(KILLED):
        command = [sys.executable, "-c", SAVER, store]
        with forked_processes.Popen(command, stdout=subprocess.PIPE, text=True) as saver:
            assert saver.stdout is not None
            acknowledged += sum(1 for _ in islice(saver.stdout, chance.randint(1, 30)))
            saver.kill()
            acknowledged += sum(1 for _ in saver.stdout)
    with closing_connection(sqlite3.connect(tmp_path / "killed.sqlite3")) as reader:
        saved = reader.execute(
            "SELECT version, sha256, size FROM sessions_app_artifact ORDER BY 1"
        ).fetchall()
    assert [version for version, _, _ in saved] == list(range(len(saved)))
    assert len(saved) >= acknowledged > 0
    for _, digest, size in saved:
        assert (tmp_path / "killed.sqlite3-artifacts" / digest[:2] / digest).stat().st_size == size


def test_each_store_has_a_folder_of_its_own():
    if connection.vendor == "sqlite":
        file = Path(connection.settings_dict["NAME"])
        assert content_files.folder() == file.with_name(file.name + "-artifacts")
    else:
        assert connection.settings_dict["NAME"] in content_files.folder().name


async def test_realms_see_their_own_files_only(artifacts: DjangoArtifactService):
    attempt = DjangoArtifactService(realm="eval/1")
    await artifacts.save_artifact(**SESSION, filename="user:a", artifact=text("real"))
    assert await attempt.list_artifact_keys(**SESSION) == []
    assert await attempt.save_artifact(**SESSION, filename="user:a", artifact=text("tried")) == 0
    assert await artifacts.load_artifact(**SESSION, filename="user:a") == text("real")


def test_command_removes_orphans_and_reports_them(
    artifacts: DjangoArtifactService, capsys: pytest.CaptureFixture[str]
):
    with content_files.store_content(b"z" * 100_000):
        pass
    call_command("clean_artifacts")
    assert capsys.readouterr().out == f"Removed 1 orphaned file(s) from {content_files.folder()}.\n"
    assert files() == []


def test_links_of_agents_lead_to_no_file_of_the_server(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    content = b"z" * 100_000
    name = sha256(content).hexdigest()
    (outside / name).write_bytes(b"a secret")
    place = content_files.folder() / name[:2]
    with content_files.lock_exclusively():
        place.symlink_to(outside)
    with pytest.raises(FileNotFoundError):
        content_files.open_content(name)
    with content_files.lock_exclusively():
        content_files.remove(name)
    (outside / name).rename(outside / "secret")
    with pytest.raises(NotADirectoryError), content_files.store_content(content):
        pass
    assert [file.name for file in outside.iterdir()] == ["secret"]

    place.unlink()
    place.mkdir()
    (place / name).symlink_to(outside / "secret")
    with pytest.raises(FileNotFoundError):
        content_files.open_content(name)
    with content_files.store_content(content), content_files.open_content(name) as file:
        assert file.read() == content
    assert (outside / "secret").read_bytes() == b"a secret"


@pytest.mark.parametrize("name", ["{}/login.json", "/{}/login.json", "../login.json"])
def test_names_of_agents_lead_to_no_file_of_the_server(settings, tmp_path, name):
    settings.DATA_DIR = tmp_path  # on PostgreSQL the folder is there
    content_files.folder().mkdir(parents=True)
    for folder in (tmp_path, content_files.folder().parent):
        (folder / "login.json").write_bytes(b"a secret")
    name = name.format(tmp_path)
    with pytest.raises(FileNotFoundError):
        content_files.open_content(name)
    with content_files.lock_exclusively():
        content_files.remove(name)
    assert (tmp_path / "login.json").exists()


def test_lock_that_is_a_link_is_refused(tmp_path):
    with content_files.lock_exclusively():
        lock = content_files.folder() / content_files.LOCK_NAME
        lock.unlink()
        lock.symlink_to(tmp_path / "made-by-root")
    with pytest.raises(OSError, match="symbolic"), content_files.lock_exclusively():
        pass
    assert not (tmp_path / "made-by-root").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_root_gives_files_and_lock_to_the_owner_of_the_folder():
    folder = content_files.folder()
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)
    content = b"z" * 100_000
    with content_files.store_content(content) as payload:
        pass
    file = folder / payload.sha256[:2] / payload.sha256
    assert {path.stat().st_uid for path in (file, file.parent, folder / content_files.LOCK_NAME)} == {65534}
