"""`--follow` imports the changes of a store that its own program goes on writing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from evals_app.models import EvalRun
from sessions_app.management.commands import import_sessions as command
from sessions_app.store.models import Event
from tests.importers.stores import T0, add_events, an_event, delta, sqlite_store


def run_between_checks(monkeypatch: Any, steps: list[Callable[[], None]]) -> None:
    """Run a step at each pause of the command; after the last one, press Ctrl-C."""
    remaining: Iterator[Callable[[], None]] = iter(steps)

    def pause() -> None:
        step = next(remaining, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(command, "pause", pause)


def test_followed_store_is_imported_as_it_grows(store, tmp_path: Path, monkeypatch, capsys):
    path = sqlite_store(tmp_path / "live.db", an_event(1))
    counts = []

    def add(n: int) -> Callable[[], None]:
        def step() -> None:
            counts.append(Event.objects.count())
            with sqlite3.connect(path) as connection:
                add_events(connection, an_event(n, **delta(n=n)))
                connection.execute("UPDATE sessions SET update_time = ?, state = ?", [T0 + n, f'{{"n":{n}}}'])
            connection.close()

        return step

    run_between_checks(monkeypatch, [add(2), add(3), lambda: counts.append(Event.objects.count())])

    with pytest.raises(SystemExit):
        call_command("import_sessions", str(path), "--follow")

    assert counts == [1, 2, 3]
    assert capsys.readouterr().out.count("1 extended") == 2


def test_a_store_that_does_not_change_is_not_opened_again(store, tmp_path: Path, monkeypatch):
    path = sqlite_store(tmp_path / "quiet.db", an_event(1))
    opened = []
    original = command.import_location
    monkeypatch.setattr(
        command, "import_location", lambda *args, **options: opened.append(1) or original(*args, **options)
    )
    run_between_checks(monkeypatch, [lambda: None] * 5)

    with pytest.raises(SystemExit):
        call_command("import_sessions", str(path), "--follow")

    assert len(opened) == 2


def test_new_eval_results_are_imported_while_sessions_stay_the_same(store, tmp_path: Path, monkeypatch):
    folder = tmp_path / "weather"
    history = folder / ".adk" / "eval_history"
    history.mkdir(parents=True)
    sqlite_store(folder / ".adk" / "session.db", an_event(1))
    result = {"eval_set_result_id": "r1", "eval_set_id": "manners", "eval_case_results": []}

    def add_result() -> None:
        (history / "r1.evalset_result.json").write_text(json.dumps(result))

    run_between_checks(monkeypatch, [lambda: None, add_result, lambda: None])

    with pytest.raises(SystemExit):
        call_command("import_sessions", str(folder), "--follow")

    assert EvalRun.objects.count() == 1
