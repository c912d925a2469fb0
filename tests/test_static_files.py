"""Static files while the server runs: an edited file is whole, a new one is found, a deleted one is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.http import HttpResponse
from django.test import AsyncRequestFactory

from devui.web.middleware import StaticFiles


@pytest.fixture
def folder(tmp_path: Path, settings) -> Iterator[Path]:
    """A folder of static files that the server knows from its start."""
    settings.STATICFILES_DIRS = [str(tmp_path)]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    (tmp_path / "app.js").write_text("// old")
    finders.get_finder.cache_clear()
    yield tmp_path
    finders.get_finder.cache_clear()


@pytest.fixture
def ask(folder: Path):
    """Ask for a file; 404 is what the views behind answer."""

    async def nothing(request):
        return HttpResponse(status=404)

    server = StaticFiles(nothing)

    async def get(path: str = "/static/app.js", method: str = "GET", **headers: str) -> HttpResponse:
        return await server(AsyncRequestFactory().generic(method, path, headers=headers))

    return get


async def test_a_file_is_served_with_its_length(ask):
    answer = await ask()
    assert (answer.content, answer.headers["Content-Length"]) == (b"// old", "6")
    assert answer.headers["Content-Type"].startswith("text/javascript")


@pytest.mark.parametrize("text", ["// new and longer", "//", "// NEW"])
async def test_an_edited_file_is_whole(ask, folder: Path, text: str):
    before = await ask()
    (folder / "app.js").write_text(text)
    answer = await ask()
    assert answer.content.decode() == text
    assert answer.headers["Content-Length"] == str(len(text))
    assert answer.headers["ETag"] != before.headers["ETag"]
    assert (await ask(method="HEAD")).headers["Content-Length"] == str(len(text))


async def test_unchanged_file_is_304_until_edited(ask, folder: Path):
    tag = (await ask()).headers["ETag"]
    assert (await ask(**{"If-None-Match": tag})).status_code == 304
    (folder / "app.js").write_text("// NEW")
    os.utime(folder / "app.js", ns=(0, 1))
    assert (await ask(**{"If-None-Match": tag})).content == b"// NEW"


async def test_range_of_an_edited_file_is_from_the_new_one(ask, folder: Path):
    (folder / "app.js").write_text("0123456789abcdef")
    answer = await ask(Range="bytes=10-12")
    assert (answer.status_code, answer.content) == (206, b"abc")
    assert answer.headers["Content-Range"] == "bytes 10-12/16"


async def test_new_file_is_served_and_deleted_one_is_404(ask, folder: Path):
    (folder / "new.js").write_text("// new")
    assert (await ask("/static/new.js")).content == b"// new"
    (folder / "app.js").unlink()
    assert (await ask()).status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/static/none.js", "/static/", "/static/../app.js", "/static//etc/passwd", "/static/%2e%2e/x", "/other"],
)
async def test_other_paths_are_passed_on(ask, folder: Path, path: str):
    (folder.parent / "x").write_text("secret")
    assert (await ask(path)).status_code == 404
