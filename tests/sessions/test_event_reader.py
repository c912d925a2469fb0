"""Events read from rows equal those that ADK's class reads, in values, types, fields set and private attributes."""

from __future__ import annotations

import copy
import gzip
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pydantic_core
import pytest
from google.adk.events.event import Event
from google.genai import types
from hypothesis import given
from pydantic import BaseModel, ValidationError

from sessions_app.adk import event_mapping, event_reader
from sessions_app.adk.event_reader import read_event
from tests.sessions.full_event import full_event
from tests.sessions.strategies import events

STORES = Path(__file__).parents[1] / "data" / "stores"
ODD_VALUES = [
    None,
    True,
    10**400,
    1.5,
    -(2**70),
    "1",
    "AA==",
    {},
    {"value": "x"},
    {"text": None},
    [None, 1.0],
]
KEYS = [
    "message",
    "state",
    "route",
    "node_path",
    "value",
    "self",
    "text",
    "videoMetadata",
    "citations",
    "other",
]


def written(event: Event) -> Any:
    """Return the body of an event's row."""
    record = event_mapping.to_record(event)
    return json.loads(record.private or record.data)


def texts_in(path: Path, folder: Path) -> Iterator[str]:
    """Return the texts in the tables of events of a stored database, or the text of a JSON file.

    `folder` gets a copy of the database, since SQLite writes beside it.
    """
    if path.suffix == ".json":
        yield path.read_text(encoding="utf-8")
        return
    content = path.read_bytes()
    (folder / path.name).write_bytes(gzip.decompress(content) if path.suffix == ".gz" else content)
    database = sqlite3.connect(folder / path.name)
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if table in ("events", "sessions_app_event"):
            for row in database.execute(f"SELECT * FROM {table}"):
                yield from (cell for cell in row if isinstance(cell, str) and cell.startswith("{"))


def bodies_in(value: Any) -> Iterator[Any]:
    """Return the events in JSON, at any depth."""
    if isinstance(value, dict) and {"content", "author", "actions", "invocationId"} & value.keys():
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from bodies_in(item)


def places_in(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Return (holder, key, value) of every value in JSON."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key, item
        if isinstance(item, dict | list):
            yield from places_in(item)


def assert_same(read: Any, expected: Any) -> None:
    """Compare values with all that pydantic knows of them."""
    assert type(read) is type(expected)
    if isinstance(read, BaseModel):
        assert read.model_fields_set == expected.model_fields_set
        assert_same(read.__dict__, expected.__dict__)
        assert_same(read.model_extra, expected.model_extra)
        assert_same(read.__pydantic_private__, expected.__pydantic_private__)
    elif isinstance(read, dict):
        assert list(read) == list(expected)
        for key, value in read.items():
            assert_same(value, expected[key])
    elif isinstance(read, list | tuple):
        assert len(read) == len(expected)
        for value, other in zip(read, expected, strict=True):
            assert_same(value, other)
    else:
        assert read == expected or read != read, (read, expected)


def assert_read_as_adk_reads(body: Any) -> None:
    """Read a body in both ways, and compare the event or the refusal."""
    text = json.dumps({"id": "e1", "timestamp": 1.5} | body)
    expected = read_or_refusal(Event.model_validate_json, text)
    assert_same(read_or_refusal(read_event, text), expected)


def read_or_refusal(read: Callable[[str], Event], text: str) -> Any:
    """Return the event, or the errors that refuse it."""
    try:
        return read(text)
    except ValidationError as error:
        return error.errors(include_url=False, include_context=False)
    except (AttributeError, TypeError) as error:  # code of genai and ADK fails so on some odd values
        return str(error)


def test_every_event_in_the_stored_test_data_is_read_as_adk_reads_it(tmp_path):
    bodies = [
        body
        for path in STORES.iterdir()
        if path.name.endswith((".json", ".db", ".gz"))
        for text in texts_in(path, tmp_path)
        for body in bodies_in(json.loads(text))
    ]
    assert len(bodies) > 80
    for body in bodies:
        assert_read_as_adk_reads(body)


def test_event_with_every_field_is_read_as_adk_reads_it():
    body = written(full_event())
    assert_read_as_adk_reads(body)
    for name in body:
        assert_read_as_adk_reads({name: body[name]})


@given(events)
def test_written_events_are_read_as_adk_reads_them(new_event):
    assert_read_as_adk_reads(written(new_event))


@pytest.mark.filterwarnings("ignore:.*is not a valid")
@pytest.mark.parametrize("odd", ODD_VALUES, ids=lambda odd: str(odd)[:12])
def test_odd_value_in_any_place_is_read_as_adk_reads_it(odd):
    body = written(full_event())
    for holder, key, value in list(places_in(body)):
        holder[key] = odd
        assert_read_as_adk_reads(body)
        holder[key] = value


@pytest.mark.parametrize("key", KEYS)
def test_unexpected_key_in_any_object_is_read_as_adk_reads_it(key):
    body = written(full_event())
    for holder in [body, *(value for *_, value in places_in(body) if isinstance(value, dict))]:
        for odd in (None, "x"):
            before = dict(holder)
            holder[key] = odd
            assert_read_as_adk_reads(body)
            holder.clear()
            holder.update(before)


def test_convenience_keys_of_adk_keep_their_meaning():
    event = read_event('{"message": "hello", "state": {"a": 1}, "route": "left", "node_path": "wf@1"}')
    assert event.content.parts[0].text == "hello"
    assert (event.actions.state_delta, event.actions.route, event.node_info.path) == (
        {"a": 1},
        "left",
        "wf@1",
    )


def test_event_that_was_read_can_be_copied_and_changed():
    text = json.dumps(written(full_event()))
    event, expected = read_event(text), Event.model_validate_json(text)
    assert_same(copy.deepcopy(event), expected)
    assert_same(event.model_copy(deep=True), expected)
    assert event.model_dump_json(by_alias=True) == expected.model_dump_json(by_alias=True)
    for changed in (event, expected):
        changed.content.parts.append(types.Part.from_text(text="more"))
        changed.content.parts[0].text = "less"
        changed.actions.state_delta["a"] = 2
        changed.custom_metadata = None
        changed.message = "new"
    assert_same(event, expected)
    assert_same(event.model_copy(update={"author": "other"}), expected.model_copy(update={"author": "other"}))
    with pytest.raises(ValidationError):
        Event(**{**event.model_dump(), "timestamp": "never"})


@pytest.fixture
def unbuilt_validator():
    """Let the validator be built anew, in the test and after it."""
    caches = (event_reader._lean_validator, event_reader._is_known)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def refuse_option(*_, **options):
    """Refuse what earlier releases of pydantic do not know."""
    raise TypeError(f"unexpected keyword argument {min(options)!r}")


def take_validators_of_classes(schema, **_):
    """Build a validator as releases would that ignore the option."""
    return pydantic_core.SchemaValidator(Event.__pydantic_core_schema__)


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("SchemaValidator", refuse_option),
        ("SchemaValidator", take_validators_of_classes),
        ("_KNOWN_SOURCES", frozenset()),
        ("_read_source", lambda function: Path("/nowhere/source.py").read_text()),
        ("_refuse_null", lambda field: None),
        ("_trim_schema", lambda schema: {"type": "unknown"}),
    ],
)
def test_events_are_read_by_adks_class_where_internals_differ(
    monkeypatch, unbuilt_validator, name, replacement
):
    monkeypatch.setattr(event_reader, name, replacement)
    assert event_reader._lean_validator() is None
    assert_read_as_adk_reads(written(full_event()))
