"""Sessions found by their state, now or ever, alike before and after they are indexed."""

from __future__ import annotations

import pytest

from sessions_app.store.models import AgentSession
from sessions_app.store.sessions import writes
from tests.search.conftest import Find
from tests.timeline.story import Story

VALUES = {
    "three": 3,
    "third": 3.5,
    "minus": -2,
    "zero": 0.0,
    "huge": 10**400,
    "odd": 2**53 + 1,
    "text3": "3",
    "gold": "gold",
    "golden": "golden",
    "long": "g" * 100,
    "longer": "g" * 101,
    "quoted": 'say "gold"\n',
    "empty": "",
    "yes": True,
    "no": False,
    "none": None,
    "list": ["a", {"b": 1}],
    "dict": {"items": [{"sku": 7, "name": "Gold"}], "a b": {"c.d": "x"}, "nul": "\x00"},
    "東京": "東京",
}

COMPARISONS = [
    ("= 3", ["three"]),
    ("= 3.0", ["three"]),
    ("= -0", ["zero"]),
    ('= "3"', ["text3"]),
    ("> 3", ["huge", "odd", "third"]),
    (">= 3", ["huge", "odd", "third", "three"]),
    ("< 0", ["minus"]),
    ("<= 0", ["minus", "zero"]),
    (f"= {2**53 + 1}", ["odd"]),
    (f"= {2**53 + 2}", []),
    ("= gold", ["gold"]),
    ("= GOLD", []),
    ("= " + "g" * 100, ["long"]),
    ('= "say \\"gold\\"\n"', ["quoted"]),
    ('= ""', ["empty"]),
    ("> gold", ["golden", "quoted", "東京"]),
    ("<= gold", ["empty", "gold", "long", "longer", "text3"]),
    ("= true", ["yes"]),
    ("= false", ["no"]),
    ("= null", ["none"]),
    ('= ["a", {"b": 1}]', ["list"]),
    ("~ old", ["dict", "gold", "golden", "quoted"]),
    ("~ GOLD", ["dict", "gold", "golden", "quoted"]),
    ("~ 東", ["東京"]),
    ("= 東京", ["東京"]),
]
"""Behind a key, and the values that are so."""


@pytest.fixture
def sessions(db: None) -> None:
    """One session for each value, which stands in its `k`, its user's and its own app's; and one without any."""
    for name, value in VALUES.items():
        Story(name, {"k": value, "user:k": value, "app:k": value}, user=name, app=name)
    Story("without", user="without", app="without")


IDS = {
    "before": 107505301260286110,
    "id": 107505301260286111,
    "after": 107505301260286112,
    "round": 10**17,
    "round+1": 10**17 + 1,
    "power": 2**53,
    "power+1": 2**53 + 1,
    "minus": -(2**60),
    "minus-1": -(2**60) - 1,
}


@pytest.mark.parametrize("when", ["", " ever"])
def test_large_integers_compare_exactly(find: Find, when: str):
    for name, value in IDS.items():
        Story(name, {"k": value, "box": {"id": value}})
    large = [name for name, value in IDS.items() if value > 10**17]
    for term, expected in {
        f"> {IDS['before']}": ["id", "after"],
        f">= {IDS['id']}": ["id", "after"],
        f"< {IDS['id']}": [name for name in IDS if name not in {"id", "after"}],
        f"<= {IDS['id']}": [name for name in IDS if name != "after"],
        f"= {IDS['id']}": ["id"],
        f"> {2**53}": [*large, "round", "power+1"],
        "> 1e17": large,
        "= 1e17": ["round"],
        f"< {-(2**60)}": ["minus-1"],
        f">= {-(2**60)}": [name for name in IDS if name != "minus-1"],
        "< 1.5": ["minus", "minus-1"],
    }.items():
        assert find(f"k {term}{when}") == sorted(expected), term
        assert find(f"box->id {term}{when}") == sorted(expected), term


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize("prefix", ["", "user:", "app:"])
def test_values_compare_by_their_type(find: Find, prefix: str):
    for comparison, expected in COMPARISONS:
        assert find(f"{prefix}k {comparison}") == expected, comparison
        assert find(f"{prefix}k {comparison} ever") == expected, comparison


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize("prefix", ["", "user:", "app:"])
def test_different_value_must_exist(find: Find, prefix: str):
    assert find(f"{prefix}k != 3") == sorted(set(VALUES) - {"three"})
    assert find(f"{prefix}k != gold") == sorted(set(VALUES) - {"gold"})
    assert find(f"-{prefix}k = gold") == sorted({*VALUES, "without"} - {"gold"})


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize("prefix", ["", "user:", "app:"])
def test_a_path_leads_into_a_value(find: Find, prefix: str):
    assert find(f"{prefix}k->items[0].sku = 7") == ["dict"]
    assert find(f"{prefix}k->items[0].sku > 6 ever") == ["dict"]
    assert find(f'{prefix}k->"a b"."c.d" = x') == ["dict"]
    assert find(f"{prefix}k->[1].b = 1") == ["list"]
    assert find(f"{prefix}k->items ~ gold") == ["dict"]
    assert find(f"-{prefix}k->items missing") == ["dict"]
    assert find(f"{prefix}k->items[1] ever") == []
    assert "dict" not in find(f"{prefix}k->items[0].sku never")


def test_a_key_is_matched_whole_before_any_path(find: Find):
    Story("dotted", {"user:preferences.theme": "dark"}, user="a")
    Story("nested", {"user:preferences": {"theme": "dark"}}, user="b")
    assert find("user:preferences.theme = dark") == ["dotted"]
    assert find("user:preferences->theme = dark") == ["nested"]


def test_now_ever_missing_and_never_distinguish_past_from_present(find: Find):
    story = Story("s1", {"tier": "silver"})
    story.add(delta={"tier": "gold", "order_id": 7})
    story.add(delta={"tier": "bronze"})
    writes.edit_state(story.key, {}, removed=["order_id"])
    Story("s2", {"tier": "gold"})
    Story("s3").says("nothing")
    assert find("tier = gold") == ["s2"]
    assert find("tier = gold ever") == ["s1", "s2"]
    assert find("tier = silver ever") == ["s1"]
    assert find("tier = gold never") == ["s3"]
    assert find("order_id missing") == ["s1", "s2", "s3"]
    assert find("order_id = 7") == []
    assert find("order_id = 7 ever") == find("order_id ever") == find("key:order_id") == ["s1"]
    assert find("order_id never") == ["s2", "s3"]
    assert find("-tier missing") == ["s1", "s2"]
    assert find("tier = gold ever tier = bronze") == ["s1"]


def test_shared_state_is_that_of_every_session_that_reads_it(find: Find):
    Story("a1", user="ann").add(delta={"user:tier": "gold", "app:open": True})
    Story("a2", user="ann")
    Story("t1", user="tom")
    Story("o1", user="ann", app="office")
    Story("e1", user="ann", realm="eval/1").add(delta={"user:tier": "silver"})
    assert find("user:tier = gold") == find("user:tier = gold ever") == ["a1", "a2"]
    assert find("user:tier missing") == find("user:tier never") == ["o1", "t1"]
    assert find("app:open = true") == ["a1", "a2", "t1"]
    assert find("app:open missing") == ["o1"]
    assert find("user:tier = silver ever") == []


def test_key_too_long_for_the_index_is_found(find: Find):
    Story("s1", {"k" * 300: 1})
    assert find(f"{'k' * 300} = 1") == find(f"{'k' * 300} = 1 ever") == ["s1"]


def test_past_shared_values_match_after_their_session_is_deleted(find: Find):
    story = Story("s1", user="ann")
    story.add(delta={"user:tier": "gold"})
    Story("s2", user="ann").add(delta={"user:tier": "silver"})
    find("user:tier = gold ever")
    assert writes.delete_session(story.key)
    assert AgentSession.objects.count() == 1
    assert find("user:tier = gold ever") == ["s2"]
