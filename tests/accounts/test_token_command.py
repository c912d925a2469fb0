"""`manage.py token`."""

from __future__ import annotations

import io
import time

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from devui.accounts import personal_tokens, users
from devui.accounts.models import AuditEntry, Token
from sessions_app.roles import Role

pytestmark = pytest.mark.usefixtures("people")


def run(*arguments: str) -> str:
    """Run the command and return its output."""
    output = io.StringIO()
    call_command("token", *arguments, stdout=output)
    return output.getvalue()


def test_created_token_is_shown_once_and_valid():
    text = (
        run("runner", "--create", "ci", "--role", "reader", "--days", "7").partition("Token: ")[2].split()[0]
    )
    token = personal_tokens.find_token(text)
    assert (token.user.username, token.name, token.role) == ("runner", "ci", Role.READER)
    assert token.expires_at == pytest.approx(time.time() + 7 * 86_400, abs=60)
    assert text not in run("runner")


def test_token_has_the_role_of_its_user_and_90_days_by_default():
    run("runner", "--create", "ci")
    run("runner", "--create", "forever", "--days", "0")
    assert Token.objects.get(name="ci").role == Role.RUNNER
    assert Token.objects.get(name="ci").expires_at == pytest.approx(time.time() + 90 * 86_400, abs=60)
    assert Token.objects.get(name="forever").expires_at is None


def test_list_shows_role_expiry_and_last_use():
    assert run("runner") == "runner has no tokens.\n"
    personal_tokens.create_token(users.find_user("runner"), "old", Role.READER, None)
    Token.objects.update(expires_at=1.0, last_used_at=0.0)
    run("runner", "--create", "ci", "--days", "0")
    assert run("runner") == (
        "ci: runner, never expires, never used\nold: reader, expired 1970-01-01, last used 1970-01-01\n"
    )


def test_revoked_token_ends():
    text = run("runner", "--create", "ci").partition("Token: ")[2].split()[0]
    assert "ci is revoked" in run("runner", "--revoke", "ci")
    assert personal_tokens.find_token(text) is None
    entries = list(AuditEntry.objects.order_by("pk").values_list("action", "kind", "object_id"))
    assert entries == [("create", "token", "runner: ci, role runner"), ("revoke", "token", "runner: ci")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "There is no user 'nobody'"),
        (("reader", "--create", "ci", "--role", "admin"), "The role of reader is reader"),
        (("reader", "--create", "ci", "--days", "-1"), "--days is -1"),
        (("reader", "--revoke", "ci"), "reader has no token 'ci'"),
        (("reader", "--create", "x" * 101), "at most 100 characters"),
    ],
)
def test_refusals_are_one_line(arguments, message):
    with pytest.raises(CommandError, match=message) as refused:
        run(*arguments)
    assert refused.value.returncode == 2
    assert not AuditEntry.objects.exists()


def test_second_token_of_a_name_is_refused():
    run("reader", "--create", "ci")
    with pytest.raises(CommandError, match="has a token 'ci' already"):
        run("reader", "--create", "ci")
