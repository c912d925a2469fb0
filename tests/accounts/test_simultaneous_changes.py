"""Simultaneous changes of users by two processes: here two threads, each with a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from devui.accounts import users
from sessions_app.roles import Role
from sessions_app.store.errors import AlreadyExists, BadInput, DevUIError
from tests.accounts.conftest import PASSWORD

pytestmark = pytest.mark.usefixtures("people")


def demote(name: str) -> None:
    users.set_role(users.find_user(name), Role.READER)


def disable(name: str) -> None:
    users.set_active(users.find_user(name), is_active=False)


@contextmanager
def beginning_before_commit(change: Callable[[], object]) -> Iterator[list[object]]:
    """Run the block in a transaction that commits only when `change` waits for it, or has ended.

    Yields:
        What `change` has returned, or the error that it has raised.
    """
    results: list[object] = []

    def run() -> None:
        try:
            results.append(change())
        except DevUIError as error:
            results.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    with transaction.atomic():
        yield results
        thread.start()
        thread.join(
            0.5
        )  # on a slow machine this proves less; it fails for no other reason than a wrong result
    thread.join()


@pytest.mark.parametrize("first", [demote, disable])
@pytest.mark.parametrize("second", [demote, disable])
def test_admins_who_remove_each_other_leave_one(
    first: Callable[[str], None], second: Callable[[str], None]
) -> None:
    users.create_user("ann", Role.ADMIN, PASSWORD)
    with beginning_before_commit(partial(second, "admin")) as results:
        first("ann")
    assert [str(error) for error in results] == [str(BadInput("'admin' is the only admin."))]
    assert users.has_admin()


def test_user_that_is_created_twice_at_once_exists_already() -> None:
    create = partial(users.create_user, "ann", Role.READER, PASSWORD)
    with beginning_before_commit(create) as results:
        create()
    assert [type(error) for error in results] == [AlreadyExists]
    assert User.objects.filter(username="ann").count() == 1
