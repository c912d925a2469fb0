"""Artifacts that ADK's file service left in an agent's folder come with numbers, types, times and content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from google.adk.cli.utils.local_storage import PerAgentFileArtifactService
from google.genai import types

from sessions_app.adk import DjangoArtifactService
from sessions_app.store.models import Artifact
from sessions_app.transfer.writers import ImportReport, import_location

PNG = types.Part(
    inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG" * 40_000, display_name="chart")
)
SESSION = {"app_name": "weather", "user_id": "ann", "session_id": "s1"}
USER = {"app_name": "weather", "user_id": "ann"}


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """The folder of the agent `weather`, in which ADK has saved files."""
    files = PerAgentFileArtifactService(agents_root=tmp_path)
    save = async_to_sync(files.save_artifact)
    save(**SESSION, filename="notes/a.txt", artifact=types.Part(text="first"))
    save(**SESSION, filename="notes/a.txt", artifact=types.Part(text="second ✓"), custom_metadata={"n": 1})
    save(**SESSION, filename="notes", artifact=types.Part(text="a file's folder is a file too"))
    save(**SESSION, filename="chart.png", artifact=PNG)
    save(**SESSION, filename="user:profile.txt", artifact=types.Part(text="Ann"))
    save(**USER, filename="bare.txt", artifact=types.Part(text="saved without a session"))
    return tmp_path / "weather"


def versions_of(agent: Path, name: str) -> Path:
    return next(path for path in agent.rglob("versions") if path.parent.name == name)


def unread(report: ImportReport) -> list[str]:
    return list(report.unread)


def test_every_version_loads_like_at_its_source(store, agent):
    there, here = PerAgentFileArtifactService(agents_root=agent.parent), DjangoArtifactService()

    report = import_location(str(agent))

    assert (report.artifacts, report.is_complete) == (6, True)
    assert async_to_sync(here.list_artifact_keys)(**SESSION) == [
        "chart.png",
        "notes",
        "notes/a.txt",
        "user:bare.txt",
        "user:profile.txt",
    ]
    for name, version in [
        ("notes/a.txt", 0),
        ("notes/a.txt", 1),
        ("notes", 0),
        ("chart.png", 0),
        ("user:profile.txt", 0),
    ]:
        which: dict[str, Any] = {**SESSION, "filename": name, "version": version}
        assert async_to_sync(here.load_artifact)(**which) == async_to_sync(there.load_artifact)(**which)
        ours = async_to_sync(here.get_artifact_version)(**which)
        theirs = async_to_sync(there.get_artifact_version)(**which)
        assert (ours.custom_metadata, ours.create_time) == (theirs.custom_metadata, theirs.create_time)


def test_a_second_import_changes_nothing_and_a_new_version_comes(store, agent):
    import_location(str(agent))
    assert import_location(str(agent)).artifacts == 0

    files = PerAgentFileArtifactService(agents_root=agent.parent)
    async_to_sync(files.save_artifact)(**SESSION, filename="notes/a.txt", artifact=types.Part(text="third"))

    assert import_location(str(agent)).artifacts == 1
    assert Artifact.objects.filter(filename="notes/a.txt").count() == 3


def test_existing_version_with_other_content_is_kept(store, agent):
    async_to_sync(DjangoArtifactService().save_artifact)(
        **SESSION, filename="chart.png", artifact=types.Part(text="mine")
    )

    report = import_location(str(agent))

    assert list(report.conflicts) == [
        "artifact 'chart.png' version 0 of weather/ann/s1: that version is stored with other content"
    ]
    assert Artifact.objects.get(filename="chart.png").content == b"mine"


def test_a_dry_run_counts_and_writes_nothing(store, agent):
    assert import_location(str(agent), dry_run=True).artifacts == 6
    assert not Artifact.objects.exists()


def test_links_out_of_the_folder_are_not_followed(store, agent, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    payload = versions_of(agent, "profile.txt") / "0" / "profile.txt"
    payload.unlink()
    payload.symlink_to(secret)

    report = import_location(str(agent))

    assert [line.endswith("it is a link, and links are not followed") for line in unread(report)] == [True]
    assert not Artifact.objects.filter(filename="profile.txt").exists()


def test_metadata_cannot_name_another_file_or_scope(store, agent, tmp_path):
    (tmp_path / "secret").write_text("secret")
    metadata = versions_of(agent, "chart.png") / "0" / "metadata.json"
    metadata_json = json.loads(metadata.read_text())
    metadata_json |= {
        "canonicalUri": (tmp_path / "secret").as_uri(),
        "version": 7,
        "fileName": "../../up.png",
    }
    metadata.write_text(json.dumps(metadata_json))

    import_location(str(agent))

    row = Artifact.objects.get(filename="../../up.png")
    assert (row.session_id, row.version, row.size) == ("s1", 0, 160_000)


@pytest.mark.parametrize(("damage", "why"), [("{", "cannot be read"), ("[]", "is no JSON object")])
def test_a_damaged_description_is_named_and_the_rest_comes(store, agent, damage, why):
    (versions_of(agent, "chart.png") / "0" / "metadata.json").write_text(damage)

    report = import_location(str(agent))

    assert why in unread(report)[0]
    assert report.artifacts == 5


def test_a_version_without_its_content_is_named(store, agent):
    (versions_of(agent, "chart.png") / "0" / "chart.png").unlink()
    assert "its content is missing" in unread(import_location(str(agent)))[0]


def test_a_save_that_was_killed_is_no_version(store, agent):
    (versions_of(agent, "chart.png") / ".1.pending").mkdir()
    assert import_location(str(agent)).is_complete


def test_command_reports_count(store, agent, capsys):
    call_command("import_sessions", str(agent))

    assert "0 event(s) and 6 artifact version(s) imported." in capsys.readouterr().out


def test_a_folder_with_neither_is_refused(store, tmp_path):
    with pytest.raises(CommandError, match=r"holds neither \.adk/session\.db nor artifacts"):
        call_command("import_sessions", str(tmp_path))
