"""Values of any kind are stored in the same form in event, state and ledger."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sessions_app.store import scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event as EventRow
from sessions_app.store.models import SessionState, StateChange
from tests.sessions.build import APP, OWNER, append, create, event, get
from tests.sessions.strategies import json_values, texts


class Colour(enum.Enum):
    RED = "red"


class Place(BaseModel):
    name: str
    at: datetime.date


@dataclass
class Pair:
    left: int
    right: bytes


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def cyclic_dict() -> dict[str, Any]:
    value: dict[str, Any] = {"name": "loop", "list": [1]}
    value["self"] = value
    return value


def cyclic_list() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def nest(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE = {
    "nan": (math.nan, "NaN", "NaN"),
    "infinity": (
        {"a": math.inf, "b": [-math.inf]},
        {"a": "Infinity", "b": ["-Infinity"]},
        "-Infinity,Infinity",
    ),
    "bytes": (b"\xfb\xff", "-_8=", "bytes"),
    "bytearray": (bytearray(b"ab"), "YWI=", "bytes"),
    "date": (datetime.date(2026, 1, 2), "2026-01-02", "date"),
    "duration": (datetime.timedelta(hours=1), "PT1H", "timedelta"),
    "set": ({"one"}, ["one"], "set"),
    "tuple": ((1, (2,)), [1, [2]], "tuple"),
    "decimal": (decimal.Decimal("1.10"), "1.10", "Decimal"),
    "enum": (Colour.RED, "red", "Colour"),
    "uuid": (uuid.UUID(int=1), str(uuid.UUID(int=1)), "UUID"),
    "model": (
        Place(name="x", at=datetime.date(2026, 1, 2)),
        {"name": "x", "at": "2026-01-02"},
        "Place",
    ),
    "dataclass": (Pair(1, b"ab"), {"left": 1, "right": "YWI="}, "Pair"),
    "function": (len, "<built-in function len>", "builtin_func"),
    "unprintable": (Unprintable(), "<Unprintable>", "Unprintable"),
    "keys": ({1: "a", None: "b", (1, 2): "d"}, {"1": "a", "None": "b", "(1, 2)": "d"}, "key"),
    "surrogate": ("a\ud800b", "a\ufffdb", "surrogate"),
    "surrogate in a key": ({"\udfff": 1}, {"\ufffd": 1}, "surrogate"),
    "surrogates in a key and its value": ({"\udfff": "\ud83d"}, {"\ufffd": "\ufffd"}, "surrogate"),
    "nul": ("a\x00b", "a\x00b", ""),
    "big": (2**70, 2**70, ""),
    "bigger than any reader takes": (2**20_000, hex(2**20_000), "int"),
    "cyclic dict": (
        cyclic_dict(),
        {"name": "loop", "list": [1], "self": "<the dict that this is part of>"},
        "cyclic",
    ),
    "cyclic list": (cyclic_list(), [1, "<the list that this is part of>"], "cyclic"),
    "an object in a cycle": ({"a": [cyclic_list(), (1,)]}, None, "cyclic,tuple"),
    "deep": (nest(5000), None, "deep"),
    "long": ("x" * 300_000, "x" * 300_000, ""),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_value_has_one_form_in_event_state_and_ledger(ours, name):
    value, expected, note = HOSTILE[name]
    session = await create(ours)
    await append(session, ours, {"k": value, "user:k": value, "app:k": value, "plain": 1})
    stored_session = await get(ours)
    stored = stored_session.state["k"]
    if expected is not None:
        assert stored == expected
    assert stored_session.state == {"k": stored, "user:k": stored, "app:k": stored, "plain": 1}
    assert stored_session.events[0].actions.state_delta == stored_session.state
    changes = await units_of_work.read(lambda: list(StateChange.objects.filter(key="k")))
    assert len(changes) == 3
    assert all(json.loads(change.value) == stored and change.note == note for change in changes)


async def test_session_continues_after_a_hostile_value(ours):
    session = await create(ours)
    for number, (value, _, _) in enumerate(HOSTILE.values()):
        await append(session, ours, {f"k{number}": value})
    stored_session = await get(ours)
    assert len(stored_session.events) == len(HOSTILE)
    assert [stored_event.id for stored_event in stored_session.events] == [
        stored_event.id for stored_event in session.events
    ]


async def test_hostile_initial_state_is_stored_in_the_same_form(ours):
    await create(ours, state={name: value for name, (value, _, _) in HOSTILE.items()})
    state = (await get(ours)).state
    assert {name: state[name] for name in HOSTILE if HOSTILE[name][1] is not None} == {
        name: expected for name, (_, expected, _) in HOSTILE.items() if expected is not None
    }


LONG = "k" * 10_000


@pytest.mark.parametrize(
    "key",
    [
        "app:",
        "user:",
        "app:app:x",
        "user:app:x",
        "",
        " ",
        "a.b",
        "a/b",
        "%s",
        "é",
        LONG,
        f"app:{LONG}",
        "'; --",
    ],
    ids=lambda key: key[:12] or "empty",
)
async def test_a_hostile_key_is_a_key_like_any_other(ours, key):
    session = await create(ours)
    await append(session, ours, {key: 1})
    await append(session, ours, {key: 2})
    stored_session = await get(ours)
    assert stored_session.state == session.state == {key: 2}
    assert [stored_event.actions.state_delta for stored_event in stored_session.events] == [
        {key: 1},
        {key: 2},
    ]


async def test_two_long_keys_that_begin_alike_are_two_keys(ours):
    session = await create(ours)
    await append(session, ours, {LONG + "a": 1, LONG + "b": 2})
    assert (await get(ours)).state == {LONG + "a": 1, LONG + "b": 2}
    assert await units_of_work.read(SessionState.objects.count) == 2


@pytest.mark.parametrize(
    ("key", "remaining"), [("a\x00b", "a\ufffdb"), ("\ud800", "\ufffd"), (7, "7"), (None, "None")]
)
async def test_unstorable_key_is_stored_under_the_nearest_text(ours, key, remaining):
    session = await create(ours)
    new_event = event()
    new_event.actions.state_delta[key] = 1
    await ours.append_event(session, new_event)
    await append(session, ours, {"next": 1})
    assert (await get(ours)).state == {remaining: 1, "next": 1}


async def test_event_keeps_the_order_of_its_delta(ours):
    session = await create(ours)
    await append(session, ours, {"b": 1, "app:z": 2, "a": 3, "user:y": 4})
    [event] = (await get(ours)).events
    assert list(event.actions.state_delta) == ["b", "app:z", "a", "user:y"]


BAD = "nul \x00 lone \ud800 end"


async def test_hostile_text_in_any_field_never_loses_the_event(ours):
    session = await create(ours)
    new_event = event(
        BAD,
        {"k": BAD},
        author=f"agent {BAD}",
        branch=f"root.{BAD}",
        error_code=BAD,
        error_message=BAD,
        model_version=BAD,
        custom_metadata={BAD: BAD},
        output={BAD: [BAD]},
        long_running_tool_ids={BAD},
    )
    await ours.append_event(session, new_event)
    [stored_event] = (await get(ours)).events
    clean = BAD.replace("\ud800", "\ufffd")
    assert (stored_event.id, stored_event.error_message, stored_event.branch) == (
        new_event.id,
        clean,
        f"root.{clean}",
    )
    assert stored_event.author == f"agent {clean}"
    row = await units_of_work.read(EventRow.objects.get)
    assert row.author == "agent nul \ufffd lone \ufffd end"
    assert row.branch == "root.nul \ufffd lone \ufffd end"


async def test_a_tool_with_a_hostile_name_is_still_the_writer(ours):
    session = await create(ours)
    response = types.FunctionResponse(id=f"c{BAD}", name=BAD, response={"ok": True})
    content = types.Content(role="user", parts=[types.Part(function_response=response)])
    await ours.append_event(session, event(delta={"k": 1}, content=content))
    change = await units_of_work.read(StateChange.objects.get)
    assert change.writer_name == "nul \ufffd lone \ufffd end"


def args(**fields: Any) -> types.Content:
    part = types.Part(function_call=types.FunctionCall(id="c1", name="look", args=fields))
    return types.Content(role="model", parts=[part])


HOSTILE_EVENTS: dict[str, dict[str, Any]] = {
    "nan in arguments": {"content": args(x=math.nan)},
    "an object in arguments": {"content": args(x=Unprintable(), y=1)},
    "a cycle in arguments": {"content": args(x=cyclic_dict(), y=1)},
    "deep arguments": {"content": args(x=nest(240), y=1)},
    "deeper arguments": {"content": args(x=nest(3000), y=1)},
    "a huge integer": {"content": args(x=2**20_000)},
    "bytes in the output": {"output": b"\xff\x00"},
    "a cycle in the output": {"output": cyclic_list()},
    "an object in the metadata": {"custom_metadata": {"a": object(), "b": 1}},
    "infinite probability": {"avg_logprobs": math.inf},
    "very many tokens": {
        "usage_metadata": types.GenerateContentResponseUsageMetadata(total_token_count=2**40)
    },
    "no time": {"timestamp": math.nan},
    "endless time": {"timestamp": math.inf},
    "time before the epoch": {"timestamp": -1e9},
}


@pytest.mark.parametrize("name", HOSTILE_EVENTS)
async def test_event_with_non_json_part_is_stored_with_the_rest(ours, name):
    session = await create(ours)
    new_event = event(delta={"k": 1}, error_message="kept", **HOSTILE_EVENTS[name])
    await ours.append_event(session, new_event)
    await append(session, ours, {"k": 2})
    stored_session = await get(ours)
    assert [each.id for each in stored_session.events] == [each.id for each in session.events]
    assert stored_session.events[0].error_message == "kept"
    assert stored_session.state == {"k": 2}
    if new_event.content:
        call = stored_session.events[0].get_function_calls()[0]
        assert (call.id, call.name, set(call.args)) == (
            "c1",
            "look",
            set(new_event.content.parts[0].function_call.args),
        )
    for row in await units_of_work.read(lambda: list(EventRow.objects.all())):
        json.loads(row.data, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
        assert math.isfinite(row.timestamp)


LONG_ID = "i" * 4000


@pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
@pytest.mark.parametrize("bad", [LONG_ID, "a\x00b", "a\ud800b"], ids=["long", "nul", "surrogate"])
async def test_unstorable_id_is_refused_with_rule_and_not_found(ours, field, bad):
    arguments = {**OWNER, "session_id": "s1", field: bad}
    with pytest.raises(ValueError, match=r"longer than 512 bytes|NUL or a lone surrogate"):
        await ours.create_session(**arguments)
    assert await ours.get_session(**arguments) is None
    assert await ours.delete_session(**arguments) is None
    assert (
        await ours.list_sessions(app_name=arguments["app_name"], user_id=arguments["user_id"])
    ).sessions == []
    assert await ours.get_user_state(app_name=arguments["app_name"], user_id=arguments["user_id"]) == {}


@pytest.mark.parametrize("field", ["id", "invocation_id"])
@pytest.mark.parametrize("bad", [LONG_ID, "a\x00b", "a\ud800b"], ids=["long", "nul", "surrogate"])
async def test_event_with_unstorable_id_is_refused(ours, field, bad):
    session = await create(ours)
    with pytest.raises(ValueError, match=r"longer than 512 bytes|NUL or a lone surrogate"):
        await append(session, ours, {"k": 1}, **{field: bad})
    assert (session.events, session.state) == ([], {})
    await append(session, ours, {"k": 2})
    assert (await get(ours)).state == {"k": 2}


async def test_an_append_to_an_id_that_cannot_exist_is_refused_as_unknown(ours):
    with pytest.raises(ValueError, match="not found"):
        await append(Session(app_name=APP, user_id="a\x00", id="s1"), ours, {"k": 1})


IDS = ["a/b", "..", "%2F", "a b", "é\u202e", "<b>", "'", '"', "\\", "a\nb", "?#", "🌍" * 100, " inner  space"]


@pytest.mark.parametrize("name", IDS, ids=range(len(IDS)))
async def test_any_other_id_is_an_id(ours, name):
    session = await ours.create_session(app_name=name, user_id=name, session_id=name)
    await append(session, ours, {"k": 1}, id=name, invocation_id=name, author=name, branch=name)
    result = await ours.get_session(app_name=name, user_id=name, session_id=name)
    assert result == session
    assert len((await ours.list_sessions(app_name=name, user_id=name)).sessions) == 1


hostile_texts = st.text(max_size=6)
hostile_scalars = (
    json_values
    | hostile_texts
    | st.floats()
    | st.binary(max_size=4)
    | st.dates()
    | st.sets(st.integers(), max_size=2)
)
hostile = st.recursive(
    hostile_scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(hostile_texts | st.integers(), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=8,
)


@given(hostile)
def test_the_canonical_form_is_json_that_every_database_stores(value):
    canonical_value = scopes.canonicalize(value)
    canonical_value.public.encode()
    assert json.loads(canonical_value.public, parse_constant=pytest.fail) == canonical_value.data


@given(hostile)
def test_the_canonical_form_of_a_canonical_form_is_itself_and_has_no_note(value):
    once = scopes.canonicalize(value)
    again = scopes.canonicalize(once.data)
    assert (again.data, again.note) == (once.data, "")


@given(json_values)
def test_json_values_stay_unchanged(value):
    canonical_value = scopes.canonicalize(value)
    assert json.dumps(canonical_value.data) == json.dumps(value)
    assert canonical_value.note == ""


@given(st.dictionaries(texts | st.just("authType"), json_values, max_size=4))
def test_the_key_of_a_value_is_no_part_of_it(value):
    assert scopes.canonicalize(value, "any").data == value


async def test_event_with_only_defaults_is_stored(ours):
    session = await create(ours)
    await ours.append_event(session, Event())
    assert (await get(ours)).events == session.events
