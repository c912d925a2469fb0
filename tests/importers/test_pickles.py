"""Pickled actions are read without importing or running what they name."""

from __future__ import annotations

import contextlib
import enum
import io
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import pytest
from google.adk.events.event_actions import EventActions
from google.adk.sessions import _restricted_pickle
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.transfer.readers import pickles
from tests.importers.stores import hostile_pickle
from tests.sessions.full_event import full_actions

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_actions_of_every_pickle_protocol_are_read_field_by_field(protocol):
    actions = EventActions(state_delta={"a": [1, {"b": None}], "user:c": 2.5}, escalate=True)

    value = pickles.read_pickle(pickle.dumps(actions, protocol))

    assert value["state_delta"] == actions.state_delta
    assert value["escalate"] is True
    assert value["transfer_to_agent"] is None


def test_actions_with_every_field_read_like_adks_dump():
    value = pickles.read_pickle(pickle.dumps(full_actions()))

    dumped = full_actions().model_dump(mode="json")
    assert value["requested_auth_configs"]["call-1"]["raw_auth_credential"]["auth_type"] == "oauth2"
    assert value["compaction"]["start_timestamp"] == dumped["compaction"]["start_timestamp"]
    assert value["render_ui_widgets"][0]["id"] == "w1"
    assert value["route"] == dumped["route"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_of_the_standard_library_keep_their_meaning(protocol):
    values = {
        "date": date(2026, 1, 2),
        "moment": datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
        "decimal": Decimal("1.10"),
        "bytes": b"\x00\xff",
        "set": {1},
        "tuple": (1, (2,)),
        "big": 2**70,
        "surrogate": "\ud800",
        "nul": "\x00",
    }

    value = pickles.read_pickle(pickle.dumps(values, protocol))

    assert value == {**values, "set": [1], "tuple": [1, [2]]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bytearray_is_read_as_bytes(protocol):
    value = pickles.read_pickle(pickle.dumps({"a": bytearray(b"xy")}, protocol))

    assert (value, type(value["a"])) == ({"a": b"xy"}, bytes)


def test_name_of_a_class_comes_as_text():
    value = pickles.read_pickle(pickle.dumps([EventActions, dict]))

    assert value == ["google.adk.events.event_actions.EventActions", "builtins.dict"]


def test_ids_and_paths_come_as_text():
    values = {"id": UUID(int=7), "path": PurePosixPath("/a/b")}

    assert pickles.read_pickle(pickle.dumps(values)) == {"id": str(UUID(int=7)), "path": "/a/b"}


def test_a_pickle_that_would_run_code_is_refused_by_name_and_runs_nothing(tmp_path):
    target = tmp_path / "boom"

    with pytest.raises(pickles.UnsafePickle, match=r"builtins\.exec"):
        pickles.read_pickle(hostile_pickle(target))

    assert not target.exists()


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "value", [Colour.RED, print, object(), enum.Enum], ids=["own enum", "callable", "object", "class"]
)
def test_non_data_pickle_is_refused(value):
    with pytest.raises(pickles.UnsafePickle, match=r"no data|no model"):
        pickles.read_pickle(pickle.dumps({"state_delta": {"a": value}}))


def test_huge_sizes_allocate_no_memory():
    class Greedy:
        def __reduce__(self):
            return (bytearray, (10**12,))

    with pytest.raises(pickles.UnsafePickle, match="of what is none"):
        pickles.read_pickle(pickle.dumps(Greedy()))


@pytest.mark.parametrize(
    "blob",
    [b"\x80\x05\x96" + (10**12).to_bytes(8, "little") + b"abc.", b"\x80\x02Nr\xff\xff\xff\x7f."],
    ids=["bytearray", "position in the memo"],
)
def test_sizes_beyond_the_pickle_are_refused(blob):
    with pytest.raises(pickles.UnsafePickle, match="broken"):
        pickles.read_pickle(blob)


@pytest.mark.parametrize(
    "target",
    [
        b"cbuiltins\nlist\n",
        b"cgoogle.genai.types\nPart\n",
        b"cbuiltins\nobject\n",
        b"ccopyreg\n_reconstructor\n",
    ],
)
@pytest.mark.parametrize("state", [b"}U\x05_makeNs", b"N}U\x05_makeNs\x86"], ids=["dict", "slots"])
def test_what_a_pickle_names_cannot_be_changed(target, state):
    with pytest.raises(pickles.UnsafePickle, match="broken"):
        pickles.read_pickle(b"\x80\x02" + target + state + b"b.")

    assert pickles.read_pickle(pickle.dumps({"a": [1]})) == {"a": [1]}


def test_shared_parts_that_double_without_end_are_refused():
    value: list = []
    for _ in range(60):
        value = [value, value]

    with pytest.raises(pickles.UnsafePickle, match="too large"):
        pickles.read_pickle(pickle.dumps(value), max_nodes=10_000)


def test_a_cycle_is_refused():
    value: list = []
    value.append(value)

    with pytest.raises(pickles.UnsafePickle, match="too deeply"):
        pickles.read_pickle(pickle.dumps(value))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_refusals(blob):
    with contextlib.suppress(pickles.UnsafePickle):
        pickles.read_pickle(blob)


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=400))
def test_damaged_pickles_raise_only_refusals(noise, place):
    blob = pickle.dumps(EventActions(state_delta={"a": [1, {"b": "c"}]}))

    with contextlib.suppress(pickles.UnsafePickle):
        pickles.read_pickle(blob[:place] + noise + blob[place:])


def test_every_class_that_adk_lets_a_pickle_name_is_read():
    allowed = _restricted_pickle._allowed_globals()

    unpickler = pickles._InertUnpickler(io.BytesIO())
    refused = set()
    for module, name in allowed:
        try:
            unpickler.find_class(module, name)
        except pickles.UnsafePickle:
            refused.add((module, name))

    assert not refused
