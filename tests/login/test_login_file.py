"""The file in which earlier versions kept the login is taken over at the next start."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from devui.accounts import login_file, owner
from devui.management.commands.web import Command as Web
from devui.web.login.digests import digest
from tests.login.conftest import PASSWORD, sign_in

INSIDE = "/version"
TOKEN = "devui_a-token-of-an-earlier-version"


def write_file(data: Path, **fields: str) -> Path:
    """Write the file as an earlier version did, and return the path."""
    data.mkdir()
    file = login_file.login_file()
    content = {"password": make_password(PASSWORD), "key": "k", "token": digest(TOKEN)}
    file.write_text(json.dumps({**content, **fields}))
    (data / login_file.ENDED_FOLDER).mkdir()
    return file


@pytest.fixture
def file(data: Path) -> Path:
    """The file of a login with `PASSWORD` and `TOKEN`."""
    return write_file(data)


@pytest.fixture
def started(file: Path) -> Path:
    """The same, after a server has started."""
    assert Web()._has_login()
    return file


async def test_password_and_token_of_the_file_stay_valid(web, started):
    assert (await web.get(INSIDE)).status_code == 401
    assert (await web.get(INSIDE, headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 200
    assert (await sign_in(web, "wrong")).status_code == 422
    assert (await sign_in(web)).status_code == 303
    assert (await web.get(INSIDE)).status_code == 200


def test_file_stays_for_other_stores_but_changes_nothing_here(started):
    owner.set_password("another long password")
    before = User.objects.get().password
    assert Web()._has_login()
    assert started.exists()
    assert User.objects.get().password == before


def test_file_without_a_token_brings_none(data):
    write_file(data, token="")
    assert Web()._has_login()
    assert not User.objects.get().tokens.exists()


@pytest.mark.parametrize("arguments", [[], ["--token"], ["--remove"]])
def test_command_removes_the_file(file, data, arguments, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("another long password\n"))
    call_command("login", *arguments, stdout=io.StringIO())
    assert list(data.iterdir()) == []
    assert Web()._has_login() is (arguments != ["--remove"])


def test_new_password_keeps_the_token_of_the_file(file, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("another long password\n"))
    call_command("login", stdout=io.StringIO())
    assert User.objects.get().tokens.get().digest == digest(TOKEN)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"password": "pbkdf2_sha256$x", "token": ""}',
        '{"password": "\\ud800", "token": ""}',
        '{"password": "", "token": ""}',
        '{"password": "md5$a$b"}',
        "\x00",
        '{"password": 1}',
    ],
)
def test_server_does_not_start_with_a_malformed_file(data, content, tmp_path):
    data.mkdir()
    login_file.login_file().write_text(content)
    with pytest.raises(CommandError, match=r"cannot be read.*manage\.py login") as refused:
        call_command("web", str(tmp_path), "--port", "0")
    assert refused.value.returncode == 2
    assert not owner.exists()


def test_unreadable_file_can_be_replaced(file, monkeypatch):
    file.write_text("{")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    call_command("login", stdout=io.StringIO())
    assert Web()._has_login()


def test_file_that_cannot_be_removed_is_named(file, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    file.unlink()
    file.mkdir()
    with pytest.raises(CommandError, match=r"login\.json' cannot be removed") as refused:
        call_command("login", stdout=io.StringIO())
    assert refused.value.returncode == 2
    assert owner.exists()
