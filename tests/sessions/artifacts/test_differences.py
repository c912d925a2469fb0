"""Intended differences of DevUI's artifact service from ADK's services."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from hashlib import sha256
from tempfile import TemporaryDirectory

import pytest
from google.adk.artifacts.artifact_util import parse_artifact_uri
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.adk import DjangoArtifactService
from sessions_app.store.artifacts.artifact_versions import (
    VersionMetadata,
    file_key,
    refuse_path,
    save,
)
from sessions_app.store.artifacts.content_files import Payload
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import Artifact
from tests.sessions.artifacts.files import SESSION, USER, data, link, text

pytestmark = pytest.mark.django_db(transaction=True)


async def test_file_without_session_is_the_users_like_in_the_base_class(
    artifacts: DjangoArtifactService, tmp_path
):
    """ADK's file service agrees; its in-memory service refuses."""
    for service in (artifacts, FileArtifactService(tmp_path)):
        await service.save_artifact(**USER, filename="a", artifact=text())
        assert await service.load_artifact(**SESSION, filename="user:a") == text()
    with pytest.raises(InputValidationError):
        await InMemoryArtifactService().save_artifact(**USER, filename="a", artifact=text())


async def test_a_users_file_is_listed_by_a_name_that_loads_it(artifacts: DjangoArtifactService, tmp_path):
    """ADK's file service lists the bare name it was saved by, which loads nothing in a session."""
    files = FileArtifactService(tmp_path)
    for service, name in ((artifacts, "user:a"), (files, "a")):
        await service.save_artifact(**USER, filename="a", artifact=text())
        assert await service.list_artifact_keys(**SESSION) == [name]
    assert await artifacts.load_artifact(**SESSION, filename="user:a") == text()
    assert await files.load_artifact(**SESSION, filename="a") is None


ODD = [
    "versions",
    "a/metadata.json",
    "%2F",
    "..a/b..",
    ".",
    "a\nb",
    "",
    " pad ",
    "'; DROP TABLE x",
    "é" * 3000,
]


@pytest.mark.parametrize("name", ODD)
async def test_a_name_is_a_value_and_never_a_path(artifacts: DjangoArtifactService, name: str):
    """ADK's services turn names into paths, and refuse or change those that would leave their folder."""
    await artifacts.save_artifact(**SESSION, filename=name, artifact=text(name))
    assert await artifacts.list_artifact_keys(**SESSION) == [name]
    assert await artifacts.load_artifact(**SESSION, filename=name) == text(name)


PATHS = ["../../etc/passwd", "/abs", "C:\\x", "c:x", "a/../b", "a\\..\\b", "\\\\host\\share", " ../a ", ".."]


@pytest.mark.parametrize("owner", ["", "user:"])
@pytest.mark.parametrize("name", PATHS)
async def test_artifact_name_that_leaves_its_folder_is_refused(
    artifacts: DjangoArtifactService, tmp_path, name: str, owner: str
):
    for service in (artifacts, FileArtifactService(tmp_path)):
        with pytest.raises(
            InputValidationError, match=r"path out of its folder|not permitted|parent traversal"
        ):
            await service.save_artifact(**SESSION, filename=owner + name, artifact=text())
    assert await artifacts.list_artifact_keys(**SESSION) == []
    assert await artifacts.load_artifact(**SESSION, filename=owner + name) is None


@given(name=st.text(st.sampled_from("./\\:aZ9é -\t"), max_size=8))
def test_slashes_in_names_are_allowed_like_in_adk(name: str):
    with TemporaryDirectory() as folder:
        saving = FileArtifactService(folder).save_artifact(**SESSION, filename=name, artifact=text())
        try:
            asyncio.run(saving)
        except InputValidationError as error:
            is_path = any(words in str(error) for words in ("not permitted", "parent traversal"))
        else:
            is_path = False
    with pytest.raises(BadInput) if is_path else nullcontext():
        refuse_path(name)


async def test_a_path_that_was_saved_before_can_be_read_and_deleted(artifacts: DjangoArtifactService):
    key = file_key("", **SESSION, filename="../old")
    draft = VersionMetadata(Artifact.Holding.TEXT, "{}", "text/plain", "{}", "s1")
    await units_of_work.write(save, key, draft, Payload(sha256(b"kept").hexdigest(), 4, b"kept"))
    assert await artifacts.list_artifact_keys(**SESSION) == ["../old"]
    assert await artifacts.load_artifact(**SESSION, filename="../old") == text("kept")
    await artifacts.delete_artifact(**SESSION, filename="../old")
    assert await artifacts.list_artifact_keys(**SESSION) == []


@pytest.mark.parametrize("odd", ["..", "a/b", "user", "apps/x/users", "café ☕", "x" * 500, "'; DROP TABLE"])
async def test_ids_hold_any_character(artifacts: DjangoArtifactService, odd: str):
    where = {"app_name": odd, "user_id": odd, "session_id": odd}
    await artifacts.save_artifact(**where, filename="a", artifact=text())
    assert await artifacts.list_artifact_keys(**where) == ["a"]
    assert await artifacts.load_artifact(**where, filename="a") == text()
    assert await artifacts.load_artifact(**{**where, "session_id": odd + "."}, filename="a") is None


@pytest.mark.parametrize("bad", ["a\x00b", "\ud800", "x" * 513])
@pytest.mark.parametrize("part", ["app_name", "user_id", "session_id"])
async def test_unstorable_id_is_refused(artifacts: DjangoArtifactService, part: str, bad: str):
    where = {**SESSION, part: bad}
    with pytest.raises(InputValidationError, match=part.split("_")[0]):
        await artifacts.save_artifact(**where, filename="a", artifact=text())
    with pytest.raises(InputValidationError):
        await artifacts.list_artifact_keys(**where)


@pytest.mark.parametrize("bad", ["a\x00b", "\ud800"])
async def test_unstorable_filename_is_refused(artifacts: DjangoArtifactService, bad: str):
    with pytest.raises(InputValidationError, match="filename"):
        await artifacts.save_artifact(**SESSION, filename=bad, artifact=text())


async def test_a_blank_session_id_is_refused(artifacts: DjangoArtifactService):
    for call in (
        artifacts.list_artifact_keys(**USER, session_id=" "),
        artifacts.save_artifact(**USER, session_id="", filename="a", artifact=text()),
    ):
        with pytest.raises(InputValidationError, match="blank"):
            await call


async def test_a_session_id_is_trimmed_as_the_session_service_trims_it(artifacts: DjangoArtifactService):
    await artifacts.save_artifact(**USER, session_id="  s1 ", filename="a", artifact=text())
    assert await artifacts.load_artifact(**SESSION, filename="a") == text()


async def test_every_field_of_a_part_is_stored(artifacts: DjangoArtifactService):
    """As in memory; ADK's file service keeps the content, its type and its name."""
    part = data(b"\x00\x01", "video/mp4", display_name="\ud800.mp4")
    part.thought_signature = b"\xff\xfe"
    part.video_metadata = types.VideoMetadata(fps=2, start_offset="1s")
    part.part_metadata = {"from": "camera", "deep": {"n": [1, None]}}
    await artifacts.save_artifact(**SESSION, filename="a", artifact=part)
    assert await artifacts.load_artifact(**SESSION, filename="a") == part


async def test_lone_surrogate_in_text_is_stored(artifacts: DjangoArtifactService):
    await artifacts.save_artifact(**SESSION, filename="a", artifact=text("\ud800"))
    assert await artifacts.load_artifact(**SESSION, filename="a") == text("\ud800")


async def test_bytes_without_data_are_refused_as_by_adks_file_service(artifacts: DjangoArtifactService):
    with pytest.raises(InputValidationError, match="data"):
        await artifacts.save_artifact(
            **SESSION, filename="a", artifact={"inlineData": {"mimeType": "image/png"}}
        )


async def test_metadata_is_stored_as_json(artifacts: DjangoArtifactService):
    values = {"at": {1, 2}, "bytes": b"x", 3: float("nan")}
    await artifacts.save_artifact(**SESSION, filename="a", artifact=text(), custom_metadata=values)
    version = await artifacts.get_artifact_version(**SESSION, filename="a")
    assert version is not None
    assert version.custom_metadata == {"at": [1, 2], "bytes": "eA==", "3": "NaN"}


async def test_a_text_has_a_mime_type_as_in_memory(artifacts: DjangoArtifactService):
    for service in (artifacts, InMemoryArtifactService()):
        await service.save_artifact(**SESSION, filename="a", artifact=text())
        version = await service.get_artifact_version(**SESSION, filename="a")
        assert version is not None
        assert version.mime_type == "text/plain"


async def test_the_canonical_uri_is_adks_own_and_leads_back_to_the_version(artifacts: DjangoArtifactService):
    for name in ("dir/a.txt", "user:b.txt"):
        await artifacts.save_artifact(**SESSION, filename=name, artifact=text())
        version = await artifacts.get_artifact_version(**SESSION, filename=name)
        assert version is not None
        target = parse_artifact_uri(version.canonical_uri)
        assert target is not None
        assert await artifacts.load_artifact(**target._asdict()) == text()


@pytest.fixture(params=["devui", "adk in memory"])
def linking(request: pytest.FixtureRequest) -> BaseArtifactService:
    """The services that keep links; ADK's file service refuses them."""
    return request.getfixturevalue("artifacts") if request.param == "devui" else InMemoryArtifactService()


async def test_external_link_is_stored_unchanged(linking: BaseArtifactService):
    part = link("gs://bucket/a.pdf", "application/pdf")
    await linking.save_artifact(**SESSION, filename="a", artifact=part)
    assert await linking.load_artifact(**SESSION, filename="a") == part
    version = await linking.get_artifact_version(**SESSION, filename="a")
    assert version is not None
    assert version.mime_type == "application/pdf"


PLACE = "artifact://apps/office/users/ann"


async def test_a_reference_is_followed(linking: BaseArtifactService):
    await linking.save_artifact(**SESSION, filename="a", artifact=text("target"))
    await linking.save_artifact(**SESSION, filename="user:u", artifact=text("of the user"))
    await linking.save_artifact(
        **SESSION, filename="r", artifact=link(f"{PLACE}/sessions/s1/artifacts/a/versions/0")
    )
    await linking.save_artifact(
        **SESSION, filename="q", artifact=link(f"{PLACE}/artifacts/user:u/versions/0")
    )
    assert await linking.load_artifact(**SESSION, filename="r") == text("target")
    assert await linking.load_artifact(**SESSION, filename="q") == text("of the user")


async def test_references_that_go_in_a_circle_are_refused(linking: BaseArtifactService):
    await linking.save_artifact(
        **SESSION, filename="r", artifact=link(f"{PLACE}/sessions/s1/artifacts/r/versions/0")
    )
    with pytest.raises(InputValidationError, match="depth"):
        await linking.load_artifact(**SESSION, filename="r")


@pytest.mark.parametrize(
    "uri",
    [
        "artifact://nonsense",
        "artifact://apps/other/users/ann/artifacts/user:u/versions/0",
        "artifact://apps/office/users/bob/artifacts/user:u/versions/0",
        f"{PLACE}/sessions/s2/artifacts/a/versions/0",
    ],
)
async def test_a_reference_out_of_its_scope_is_refused(linking: BaseArtifactService, uri: str):
    with pytest.raises(InputValidationError):
        await linking.save_artifact(**SESSION, filename="r", artifact=link(uri))
    assert await linking.list_versions(**SESSION, filename="r") == []
