"""The store is lost between a write and the read for its response: the response comes when the store is back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction

from sessions_app.sessions import labels
from sessions_app.store.database import units_of_work
from sessions_app.store.sessions import writes
from tests.api.builders import create

pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="moves the file of an SQLite store")


@pytest.fixture
def lose_after(
    store: None, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> Iterator[Callable[[Any, str], None]]:
    """Return what moves the store's folder away when a write of a function has committed, until a retry is logged."""
    folder = Path(str(connection.settings_dict["NAME"])).parent
    away = folder.with_name(f"{folder.name}-away")

    def come_back() -> None:
        while not any("Retrying" in record.message for record in caplog.records):
            if ended.wait(0.01):
                break
        away.rename(folder)

    def lose() -> None:
        connections.close_all()
        for key in list(units_of_work._pools):  # so that the read after the write opens a connection
            units_of_work._pools.pop(key).close()
        folder.rename(away)
        returns.start()

    def lose_after(module: Any, name: str) -> None:
        work = getattr(module, name)

        def write(*args: Any, **kwargs: Any) -> Any:
            result = work(*args, **kwargs)
            transaction.on_commit(lose)
            return result

        monkeypatch.setattr(module, name, write)

    ended = threading.Event()
    returns = threading.Thread(target=come_back)
    yield lose_after
    ended.set()
    returns.join()


@pytest.mark.parametrize(
    ("module", "function", "method", "path", "body", "name"),
    [
        (writes, "create_session", "POST", "/apps/weather/users/ann/sessions", {"session_id": "new"}, "id"),
        (labels, "rename", "PATCH", "/api/v1/sessions/{pk}", {"title": "new"}, "title"),
    ],
)
async def test_stored_change_is_acknowledged_when_the_store_is_back(
    web, lose_after, caplog, module, function, method, path, body, name
):
    session = await create("s1")
    lose_after(module, function)
    response = await web.request(method, path.format(pk=session.pk), json=body)
    assert response.status_code == 200, response.text
    assert response.json()[name] == "new"
    assert any("Retrying" in record.message for record in caplog.records)
