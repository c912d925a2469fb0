"""`manage.py createuser` and `changeuser`."""

from __future__ import annotations

import io
import os
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from devui.accounts import users
from devui.accounts.models import AuditEntry
from devui.management.commands.web import Command as Web
from devui.serving.server import open_listener
from sessions_app.store.errors import BadInput
from tests.accounts.conftest import PASSWORD

pytestmark = pytest.mark.usefixtures("people")


def run(*arguments: str) -> str:
    """Run a command and return its output."""
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


@pytest.fixture
def give_input(monkeypatch: pytest.MonkeyPatch):
    """Return what gives the command a line on its standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_created_user_has_password_and_role(give_input):
    give_input(f"{PASSWORD}\n")
    assert PASSWORD not in run("createuser", "ann", "--role", "runner")
    user = users.find_user("ann")
    assert user.check_password(PASSWORD)
    assert [(row.app, row.get_role_display()) for row in user.memberships.all()] == [("", "runner")]


def test_empty_password_is_generated_and_shown_once(give_input):
    give_input("\n")
    password = run("createuser", "ann", "--role", "reader").partition("Password: ")[2].partition("\n")[0]
    assert users.find_user("ann").check_password(password)


@pytest.mark.parametrize(
    ("name", "password", "message"),
    [
        ("reader", PASSWORD, "There is a user 'reader' already"),
        ("READER", PASSWORD, "There is a user 'READER' already"),
        ("a b", PASSWORD, "'a b' is not a name for a user"),
        ("..", PASSWORD, "'..' is not a name for a user"),
        ("ann", "short", "too weak"),
        ("annabella1", "annabella12", "too similar to the username"),
        ("ann", "12345678901234", "entirely numeric"),
        ("ann", " " * 20, "5 different characters"),
        ("ann", "annannannann", "5 different characters"),
        ("benjamin", "BenjaminBenjaminBenjamin", "5 different characters"),
        ("\u0430nn", PASSWORD, "mixes letters of several scripts"),
        ("nicol\u03bfs", PASSWORD, "mixes letters of several scripts"),
        ("ann\u0661", PASSWORD, "mixes letters of several scripts"),
        ("\u0561nn@example.com", PASSWORD, "mixes letters of several scripts"),
    ],
)
def test_unusable_name_or_password_is_refused_in_one_line(give_input, name, password, message):
    give_input(f"{password}\n")
    with pytest.raises(CommandError, match=message) as refused:
        run("createuser", name, "--role", "reader")
    assert refused.value.returncode == 2
    assert User.objects.count() == 3


@pytest.mark.parametrize(
    "name", ["Анна", "Zoë.2", "山田たろう", "김민수", "tanaka田中", "أحمد١", "李@example.com"]
)
def test_names_of_one_script_and_of_east_asia_are_accepted(give_input, name):
    give_input(f"{PASSWORD}\n")
    run("createuser", name, "--role", "reader")
    assert users.find_user(name).username == name


def test_changeuser_changes_role_password_and_access(give_input):
    give_input("another long password\n")
    output = run("changeuser", "reader", "--role", "runner", "--password", "--disable")
    user = users.find_user("reader")
    assert user.memberships.get().get_role_display() == "runner"
    assert user.check_password("another long password")
    assert not user.is_active
    assert "reader is disabled" in output
    run("changeuser", "reader", "--enable")
    assert users.find_user("reader").is_active


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["admin", "--disable"], "'admin' is the only admin"),
        (["admin", "--role", "runner"], "'admin' is the only admin"),
        (["nobody", "--disable"], "There is no user 'nobody'. Users: admin, reader, runner"),
        (["reader"], "Nothing to change"),
    ],
)
def test_change_that_cannot_be_made_is_refused(arguments, message):
    with pytest.raises(CommandError, match=message):
        run("changeuser", *arguments)


def test_network_server_needs_an_admin():
    assert Web()._has_login()
    User.objects.all().delete()
    command = Web(stderr=io.StringIO())
    assert not command._has_login()
    assert "createuser NAME --role admin" in command.stderr.getvalue()


def test_network_server_without_an_admin_is_refused_with_the_command_that_creates_one():
    with pytest.raises(BadInput) as refused:
        open_listener("0.0.0.0", 0, has_login=False)
    assert refused.value.hint.startswith(
        "Create an admin with `python manage.py createuser NAME --role admin`."
    )


def test_system_user_without_a_name_is_audited_by_number(monkeypatch, give_input):
    monkeypatch.setattr("getpass.getuser", Mock(side_effect=KeyError("uid not found")))
    give_input("\n")
    run("createuser", "ann", "--role", "runner")
    assert AuditEntry.objects.get().person == f"{os.getuid()} (command line)"


def test_migrations_match_the_models():
    call_command("makemigrations", "accounts", check=True, dry_run=True, verbosity=0)
