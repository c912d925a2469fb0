"""`manage.py login` and its file."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest
from django.contrib.auth.hashers import check_password
from django.core.management import call_command
from django.core.management.base import CommandError

from devui.management import passwords
from devui.management.commands.web import Command as Web
from devui.serving import server
from devui.web.login import credentials_file
from sessions_app.store.errors import BadInput
from tests.login.conftest import PASSWORD


def run(*arguments: str) -> str:
    """Run the command and return what it says."""
    output = io.StringIO()
    call_command("login", *arguments, stdout=output)
    return output.getvalue()


@pytest.fixture
def give_input(monkeypatch: pytest.MonkeyPatch):
    """Return what gives the command a line on its standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_password_is_stored_as_hash_in_a_private_file(data, give_input):
    give_input(f"{PASSWORD}\n")
    assert PASSWORD not in run()
    assert stat.S_IMODE(credentials_file.login_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(credentials_file.login_file().parent.stat().st_mode) == 0o700
    assert PASSWORD not in credentials_file.login_file().read_text()
    login = credentials_file.read_credentials()
    assert login
    assert check_password(PASSWORD, login.password)
    assert [file.name for file in data.iterdir()] == ["login.json"]


def test_empty_password_is_generated_and_shown(data, give_input):
    give_input("\n")
    password = run().partition("Password: ")[2].partition("\n")[0]
    assert len(password) >= 16
    login = credentials_file.read_credentials()
    assert login
    assert check_password(password, login.password)


def test_terminal_prompts_twice(data, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # a terminal for this test
    monkeypatch.setattr("sys.stdin", terminal)
    typed = iter([PASSWORD, "something else", PASSWORD, PASSWORD])
    monkeypatch.setattr(passwords.getpass, "getpass", lambda prompt: next(typed))
    with pytest.raises(CommandError, match="two passwords differ"):
        run()
    assert credentials_file.read_credentials() is None
    run()
    assert credentials_file.read_credentials() is not None


def test_short_password_is_refused_and_old_one_remains(login, give_input):
    give_input("short\n")
    with pytest.raises(CommandError, match="at least 10 characters") as refused:
        run()
    assert refused.value.returncode == 2
    assert credentials_file.read_credentials() == login


def test_token_is_shown_once_and_stored_as_hash(login):
    token = run("--token").split("Bearer ")[1].split()[0]
    assert token not in credentials_file.login_file().read_text()
    now = credentials_file.read_credentials()
    assert now
    assert now.has_token(token)
    assert (now.password, now.key) == (login.password, login.key)
    run("--token")
    newer = credentials_file.read_credentials()
    assert newer
    assert not newer.has_token(token)


def test_a_token_needs_a_password_first(data):
    with pytest.raises(CommandError, match=r"manage\.py login"):
        run("--token")


def test_login_is_removed(login):
    assert "no longer requires a login" in run("--remove")
    assert credentials_file.read_credentials() is None
    assert "no login" in run("--remove")


def test_unreadable_login_can_be_replaced(login, give_input):
    credentials_file.login_file().write_text("{")
    give_input(f"{PASSWORD}\n")
    run()
    assert credentials_file.read_credentials() is not None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"password": "", "key": "", "token": ""}', "\x00"])
def test_malformed_login_file_refuses_everyone(data, content):
    data.mkdir()
    credentials_file.login_file().write_text(content)
    with pytest.raises(credentials_file.LoginUnreadable):
        credentials_file.read_credentials()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_network_host_without_login_names_the_command(host):
    with pytest.raises(BadInput, match="anybody on the network") as refused:
        server.open_listener(host, 8000)
    assert "python manage.py login" in refused.value.hint
    assert "ssh -L 8000:127.0.0.1:8000" in refused.value.hint


def test_network_host_is_allowed_with_a_login(login):
    with server.open_listener("0.0.0.0", 0, has_login=True) as listening:
        assert listening.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize(
    ("host", "expected"), [("192.0.2.1", "192.0.2.1"), ("fd00::1", "[fd00::1]"), ("0.0.0.0", None)]
)
def test_network_server_requires_login_and_allows_its_host(settings, host, expected):
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    output = io.StringIO()
    Web(stderr=output)._open_to_network(host)
    assert settings.DEVUI_LOGIN_REQUIRED
    assert settings.ALLOWED_HOSTS[1:] == ([expected] if expected else [])
    assert "TLS" in output.getvalue()


def test_unwritable_data_folder_is_explained(tmp_path: Path, settings, give_input):
    (tmp_path / "file").write_text("")
    settings.DATA_DIR = tmp_path / "file"
    give_input(f"{PASSWORD}\n")
    with pytest.raises(CommandError) as refused:
        run()
    assert refused.value.returncode == 2
