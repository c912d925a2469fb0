"""Behavior that all artifact services of ADK share. `test_differences.py` has the cases in which they differ."""

from __future__ import annotations

import asyncio
import time

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.genai import types

from tests.sessions.artifacts.files import SESSION, USER, data, text

pytestmark = pytest.mark.django_db(transaction=True)


async def test_first_version_is_0_and_each_save_adds_one(service: BaseArtifactService):
    saved = [
        await service.save_artifact(**SESSION, filename="a.txt", artifact=text(str(n))) for n in range(3)
    ]
    assert saved == [0, 1, 2]
    assert await service.list_versions(**SESSION, filename="a.txt") == [0, 1, 2]


@pytest.mark.parametrize(
    "part",
    [
        text(),
        text(""),
        text("日本語 🎉 \x00 end"),
        data(),
        data(b""),
        data(bytes(range(256)) * 2000, "application/pdf"),
        data(display_name="holiday.png"),
    ],
    ids=["text", "empty text", "unicode and NUL", "bytes", "no bytes", "many bytes", "display name"],
)
async def test_loaded_artifact_equals_saved_one(service: BaseArtifactService, part: types.Part):
    await service.save_artifact(**SESSION, filename="a", artifact=part)
    assert await service.load_artifact(**SESSION, filename="a") == part


@pytest.mark.parametrize("spelling", ["inlineData", "inline_data"])
async def test_dict_is_accepted_as_a_part(service: BaseArtifactService, spelling: str):
    mime = "mimeType" if spelling == "inlineData" else "mime_type"
    await service.save_artifact(
        **SESSION, filename="a", artifact={spelling: {mime: "image/png", "data": "iVBORw=="}}
    )
    assert await service.load_artifact(**SESSION, filename="a") == data()


async def test_newest_version_is_loaded_by_default(service: BaseArtifactService):
    for words in ("old", "new"):
        await service.save_artifact(**SESSION, filename="a", artifact=text(words))
    assert await service.load_artifact(**SESSION, filename="a") == text("new")
    assert await service.load_artifact(**SESSION, filename="a", version=0) == text("old")


@pytest.mark.parametrize("version", [1, 99, -1, 2**70])
async def test_a_version_that_does_not_exist_is_none(service: BaseArtifactService, version: int):
    await service.save_artifact(**SESSION, filename="a", artifact=text())
    assert await service.load_artifact(**SESSION, filename="a", version=version) is None
    assert await service.get_artifact_version(**SESSION, filename="a", version=version) is None


async def test_a_file_that_does_not_exist_is_none_and_has_no_versions(service: BaseArtifactService):
    assert await service.load_artifact(**SESSION, filename="a") is None
    assert await service.get_artifact_version(**SESSION, filename="a") is None
    assert await service.list_versions(**SESSION, filename="a") == []
    assert await service.list_artifact_versions(**SESSION, filename="a") == []
    assert await service.list_artifact_keys(**SESSION) == []


async def test_a_session_lists_its_own_files_and_the_users(service: BaseArtifactService):
    await service.save_artifact(**SESSION, filename="b.txt", artifact=text())
    await service.save_artifact(**SESSION, filename="user:a.txt", artifact=text())
    await service.save_artifact(**{**SESSION, "session_id": "s2"}, filename="c.txt", artifact=text())
    assert await service.list_artifact_keys(**SESSION) == ["b.txt", "user:a.txt"]
    assert await service.list_artifact_keys(**USER) == ["user:a.txt"]


async def test_every_listed_name_loads_as_it_is_listed(service: BaseArtifactService):
    for name in ("b.txt", "user:a.txt", "dir/c.txt", "user:dir/d.txt"):
        await service.save_artifact(**SESSION, filename=name, artifact=text(name))
    for name in await service.list_artifact_keys(**SESSION):
        assert await service.load_artifact(**SESSION, filename=name) == text(name)


async def test_a_users_file_is_the_same_in_every_session(service: BaseArtifactService):
    await service.save_artifact(**SESSION, filename="user:a", artifact=text("one"))
    other = {**SESSION, "session_id": "s2"}
    assert await service.save_artifact(**other, filename="user:a", artifact=text("two")) == 1
    assert await service.load_artifact(**SESSION, filename="user:a") == text("two")
    assert await service.load_artifact(**USER, filename="user:a") == text("two")


async def test_session_and_user_files_of_the_same_name_differ(service: BaseArtifactService):
    await service.save_artifact(**SESSION, filename="a", artifact=text("session"))
    await service.save_artifact(**SESSION, filename="user:a", artifact=text("user"))
    assert await service.load_artifact(**SESSION, filename="a") == text("session")
    assert await service.load_artifact(**SESSION, filename="user:a") == text("user")


@pytest.mark.parametrize("change", [{"app_name": "other"}, {"user_id": "bob"}, {"session_id": "s2"}])
async def test_a_file_is_seen_in_its_scope_only(service: BaseArtifactService, change: dict[str, str]):
    await service.save_artifact(**SESSION, filename="a", artifact=text())
    elsewhere = {**SESSION, **change}
    assert await service.load_artifact(**elsewhere, filename="a") is None
    assert await service.list_artifact_keys(**elsewhere) == []


async def test_deleting_removes_every_version_and_numbers_start_anew(service: BaseArtifactService):
    for _ in range(2):
        await service.save_artifact(**SESSION, filename="a", artifact=text())
    await service.save_artifact(**SESSION, filename="b", artifact=text())
    await service.delete_artifact(**SESSION, filename="a")
    assert await service.list_artifact_keys(**SESSION) == ["b"]
    assert await service.load_artifact(**SESSION, filename="a", version=0) is None
    assert await service.save_artifact(**SESSION, filename="a", artifact=text()) == 0


async def test_deleting_missing_artifact_is_no_error(service: BaseArtifactService):
    assert await service.delete_artifact(**SESSION, filename="a") is None


async def test_version_has_its_metadata(service: BaseArtifactService):
    before = time.time()
    values = {"source": "upload", "pages": 3, "tags": ["a", None]}
    await service.save_artifact(**SESSION, filename="a.png", artifact=data(), custom_metadata=values)
    version = await service.get_artifact_version(**SESSION, filename="a.png")
    assert version is not None
    assert version.version == 0
    assert version.mime_type == "image/png"
    assert version.custom_metadata == values
    assert before <= version.create_time <= time.time()
    assert version.canonical_uri


async def test_all_versions_have_metadata_oldest_first(service: BaseArtifactService):
    for n in range(3):
        await service.save_artifact(**SESSION, filename="a", artifact=data(), custom_metadata={"n": n})
    versions = await service.list_artifact_versions(**SESSION, filename="a")
    assert [(version.version, version.custom_metadata) for version in versions] == [
        (n, {"n": n}) for n in range(3)
    ]
    assert len({version.canonical_uri for version in versions}) == 3


async def test_without_metadata_there_is_none(service: BaseArtifactService):
    await service.save_artifact(**SESSION, filename="a", artifact=data())
    version = await service.get_artifact_version(**SESSION, filename="a", version=0)
    assert version is not None
    assert version.custom_metadata == {}


async def test_a_part_without_content_is_refused_and_nothing_is_saved(service: BaseArtifactService):
    with pytest.raises(ValueError, match=r"(?i)artifact"):
        await service.save_artifact(**SESSION, filename="a", artifact=types.Part())
    assert await service.list_versions(**SESSION, filename="a") == []


async def test_loaded_artifact_is_a_copy(service: BaseArtifactService):
    await service.save_artifact(**SESSION, filename="a", artifact=text("kept"))
    loaded = await service.load_artifact(**SESSION, filename="a")
    assert loaded is not None
    loaded.text = "changed"
    assert await service.load_artifact(**SESSION, filename="a") == text("kept")


async def test_rewind_hides_the_file_and_keeps_its_versions(service: BaseArtifactService):
    await service.save_artifact(**SESSION, filename="a", artifact=text("before"))
    await service.save_artifact(**SESSION, filename="a", artifact=data(b"", "application/octet-stream"))
    assert await service.load_artifact(**SESSION, filename="a") is None
    assert await service.load_artifact(**SESSION, filename="a", version=0) == text("before")
    assert await service.list_versions(**SESSION, filename="a") == [0, 1]


async def test_concurrent_saves_get_a_version_each(service: BaseArtifactService):
    saves = [service.save_artifact(**SESSION, filename="a", artifact=text(str(n))) for n in range(20)]
    assert sorted(await asyncio.gather(*saves)) == list(range(20))


def test_the_service_implements_every_method_of_the_base(service: BaseArtifactService):
    assert not type(service).__abstractmethods__
    assert isinstance(service, BaseArtifactService)
