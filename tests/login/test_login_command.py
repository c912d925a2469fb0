"""`manage.py login` and its file."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from devui.accounts import owner, personal_tokens, users
from devui.accounts.models import Token
from devui.management import passwords
from devui.management.commands.web import Command as Web
from devui.serving import server
from sessions_app.roles import Role
from sessions_app.store.database import schema
from sessions_app.store.errors import BadInput
from tests.login.conftest import PASSWORD

on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no file of the store.")


def run(*arguments: str) -> str:
    """Run the command and return what it says."""
    output = io.StringIO()
    call_command("login", *arguments, stdout=output)
    return output.getvalue()


@pytest.fixture
def give_input(monkeypatch: pytest.MonkeyPatch):
    """Return what gives the command a line on its standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def stored_password() -> str:
    """Return the hash of the password."""
    return User.objects.get(username=owner.OWNER).password


def test_password_is_stored_as_hash(data, give_input):
    give_input(f"{PASSWORD}\n")
    assert PASSWORD not in run()
    assert PASSWORD not in stored_password()
    assert check_password(PASSWORD, stored_password())


def test_empty_password_is_generated_and_shown(data, give_input):
    give_input("\n")
    password = run().partition("Password: ")[2].partition("\n")[0]
    assert len(password) >= 16
    assert check_password(password, stored_password())


def test_terminal_prompts_twice(data, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # a terminal for this test
    monkeypatch.setattr("sys.stdin", terminal)
    typed = iter([PASSWORD, "something else", PASSWORD, PASSWORD])
    monkeypatch.setattr(passwords.getpass, "getpass", lambda prompt: next(typed))
    with pytest.raises(CommandError, match="two passwords differ"):
        run()
    assert not owner.exists()
    run()
    assert owner.exists()


def test_short_password_is_refused_and_old_one_remains(login, give_input):
    before = stored_password()
    give_input("short\n")
    with pytest.raises(CommandError, match="at least 10 characters") as refused:
        run()
    assert refused.value.returncode == 2
    assert stored_password() == before


def test_token_is_shown_once_and_stored_as_hash(login):
    before = stored_password()
    secret = run("--token").split("Bearer ")[1].split()[0]
    token = personal_tokens.find_token(secret)
    assert token
    assert secret not in token.digest
    assert stored_password() == before
    run("--token")
    assert personal_tokens.find_token(secret) is None


def test_a_token_needs_a_password_first(data):
    with pytest.raises(CommandError, match=r"manage\.py login"):
        run("--token")


def test_login_is_removed(login):
    run("--token")
    assert "no longer requires a login" in run("--remove")
    assert not owner.exists()
    assert not Token.objects.exists()
    assert "no login" in run("--remove")


def test_command_for_users_names_the_switch(data):
    with pytest.raises(CommandError, match="set DEVUI_USERS=1") as refused:
        call_command("createuser", "ann", "--role", "admin")
    assert refused.value.returncode == 2


def test_owner_is_no_user_of_a_server_with_users(login, settings):
    settings.DEVUI_USERS = True
    assert users.list_names() == []
    assert not users.has_admin()
    with pytest.raises(CommandError, match="There is no user 'the owner'"):
        call_command("changeuser", owner.OWNER, "--disable")
    with pytest.raises(BadInput, match="not a name for a user"):
        users.create_user(owner.OWNER, Role.ADMIN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_network_host_without_login_names_the_command(host):
    with pytest.raises(BadInput, match="anybody on the network") as refused:
        server.open_listener(host, 8000)
    assert "python manage.py login" in refused.value.hint
    assert "ssh -L 8000:127.0.0.1:8000" in refused.value.hint


def test_network_host_is_allowed_with_a_login(login):
    with server.open_listener("0.0.0.0", 0, has_login=Web()._has_login()) as listening:
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


@on_sqlite
def test_store_file_with_the_password_is_private(login, settings):
    file = schema.sqlite_file()
    assert file
    settings.DATA_DIR = file.parent
    file.chmod(0o644)
    owner.set_password("another long password")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@on_sqlite
def test_temporary_store_has_no_login(data, settings, give_input):
    settings.DEVUI_TEMPORARY_STORE = str(connection.settings_dict["NAME"])
    give_input(f"{PASSWORD}\n")
    with pytest.raises(CommandError, match="The store is temporary") as refused:
        run()
    assert refused.value.returncode == 2
    with pytest.raises(BadInput) as unsafe:
        server.open_listener("0.0.0.0", 0)
    assert unsafe.value.hint.startswith(
        "A temporary store has no login: select another one with DATABASE_URL."
    )


def test_database_of_a_project_with_its_own_user_model_keeps_no_login(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owner, "_table_exists", False)
    monkeypatch.setattr(connection.introspection, "table_names", lambda: ["people_person"])
    assert not owner.exists()
    with pytest.raises(BadInput, match="user model of its own"):
        owner.set_password("a long enough password")
