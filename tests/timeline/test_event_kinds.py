"""The registry of event kinds: what each kind needs on pages and in the docs, and the conditions that it meets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sessions_app.store.events import EventKind, conditions, recognize_kind
from sessions_app.store.events.kinds import RECOGNITION_ORDER, kind_properties
from sessions_app.store.models import Event

ROOT = Path(__file__).parents[2]

EXAMPLES: dict[EventKind, dict[str, Any]] = {
    EventKind.USER: {"author": "user", "content": {"parts": [{"text": "hi"}]}},
    EventKind.AGENT: {"author": "agent", "content": {"parts": [{"text": "hi"}]}},
    EventKind.TOOL_CALL: {"content": {"parts": [{"text": "hi"}, {"functionCall": {"name": "look"}}]}},
    EventKind.TOOL_RESULT: {"content": {"parts": [{"functionResponse": {"name": "look"}}]}},
    EventKind.STATE: {"actions": {"stateDelta": {"a": 1}}, "output": 1},
    EventKind.CONTROL: {"actions": {"stateDelta": {"a": 1}, "escalate": True}},
    EventKind.ERROR: {"errorCode": "429", "content": {"parts": [{"functionCall": {"name": "look"}}]}},
}
"""An event of each kind, in wire form; where the kind is decided by the order of the rules, by which."""

PREDICATES = {
    EventKind.USER: {"is_user_message"},
    EventKind.AGENT: {"is_model_output", "can_end_turn"},
    EventKind.TOOL_CALL: {"is_model_output"},
    EventKind.TOOL_RESULT: set(),
    EventKind.STATE: set(),
    EventKind.CONTROL: set(),
    EventKind.ERROR: {"is_error"},
}


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", EventKind)
def test_event_kind_is_complete(kind):
    present = {
        "a place in RECOGNITION_ORDER of sessions_app/store/events/kinds.py": kind in RECOGNITION_ORDER,
        f"its icon, {kind.properties.icon}, in static/devui/icons.svg": f'id="{kind.properties.icon}"'
        in read("static/devui/icons.svg"),
        f"its color, --kind-{kind}, in static/devui/css/base/tokens.css": f"--kind-{kind}: light-dark("
        in read("static/devui/css/base/tokens.css"),
        f"the rule .kind-{kind} in static/devui/css/components/components.css": f".kind-{kind} {{"
        in read("static/devui/css/components/components.css"),
        "its name in the table of docs/search.md": f"`{kind}`"
        in re.findall(r"^\| `kind:.*", read("docs/search.md"), re.MULTILINE)[0],
        "an example in EXAMPLES of this test": kind in EXAMPLES,
        "its conditions in PREDICATES of this test": kind in PREDICATES,
    }
    missing = [part for part, is_present in present.items() if not is_present]
    assert not missing, f"the event kind {kind} lacks " + "; ".join(missing)


@pytest.mark.parametrize(("kind", "wire"), EXAMPLES.items())
def test_event_is_of_the_first_kind_whose_rule_matches(kind, wire):
    assert recognize_kind(wire) is kind


@pytest.mark.parametrize("kind", EventKind)
def test_event_meets_the_conditions_of_its_kind(kind):
    event = Event(kind=kind, author="user")
    names = {"is_error", "is_user_message", "is_model_output", "can_end_turn"}
    assert {name for name in names if _predicate(name)(event)} == PREDICATES[kind]


@pytest.mark.parametrize(
    ("wire", "kinds"),
    [
        ({"actions": {"rewindBeforeInvocationId": "i1"}}, {"control"}),
        ({"actions": {"compaction": {"startTimestamp": 1}}}, {"control"}),
        (
            {"content": {"parts": [{"functionResponse": {"response": {"error": "x"}}}]}},
            {"tool_call", "tool_result"},
        ),
    ],
)
def test_indexed_events_are_of_the_kinds_in_the_index(wire, kinds):
    assert recognize_kind(wire) in kinds, (
        "store/json_sql.py names these kinds: change its condition, with a migration"
    )


def test_kind_of_a_newer_version_is_shown_by_its_name():
    assert kind_properties("of_newer_version").label == "of_newer_version"
    assert kind_properties("of_newer_version").icon


def _predicate(name: str) -> Any:
    return getattr(conditions, name)
